# kvplan: device=h100
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 3
