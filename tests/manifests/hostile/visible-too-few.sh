# kvplan: device=h100
CUDA_VISIBLE_DEVICES=0 vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --max-model-len 8192
