# kvplan: device=h100
vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --gpu-memory-utilization 90
