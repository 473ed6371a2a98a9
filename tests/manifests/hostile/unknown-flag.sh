# kvplan: device=h100
vllm serve meta-llama/Llama-3.1-8B --max-modle-len 8192
