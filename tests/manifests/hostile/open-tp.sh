# kvplan: device=l4
vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size $TP
