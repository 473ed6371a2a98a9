# kvplan: device=l4
vllm serve meta-llama/Llama-3.1-8B --max-model-len 131072 --gpu-memory-utilization 0.5 --max-model-len=4096 --gpu-memory-utilization=0.95
