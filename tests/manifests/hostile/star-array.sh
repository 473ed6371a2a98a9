# kvplan: device=h100
ARGS=(--max-model-len 8192)
ARGS+=(--tensor-parallel-size 2)
vllm serve meta-llama/Llama-3.1-8B "${ARGS[*]}"
