# kvplan: device=t4
set -- --dtype float16 --max-model-len 2048
set -- "$@" --gpu-memory-utilization 0.95
vllm serve meta-llama/Llama-3.2-1B-Instruct "$@"
