# kvplan: device=h100
CMD="vllm serve Qwen/Qwen3-8B"
CMD="$CMD --max-model-len 8192"
eval "$CMD"
