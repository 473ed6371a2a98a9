# kvplan: device=h100
vllm serve meta-llama/Llama-3.1-8B --tensor-parallel 2 --max-model 8192
