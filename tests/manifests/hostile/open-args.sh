# kvplan: device=l4
vllm serve meta-llama/Llama-3.1-8B $PARALLEL_ARGS "$@"
