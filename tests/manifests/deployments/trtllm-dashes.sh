# kvplan: device=h100
trtllm-serve Qwen/Qwen3-8B --max-batch-size 64
