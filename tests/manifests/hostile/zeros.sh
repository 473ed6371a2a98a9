# kvplan: device=h100
vllm serve Qwen/Qwen3-8B --swap-space 0 --cpu-offload-gb 0 --max-model-len 8192
