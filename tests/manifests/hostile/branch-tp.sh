# kvplan: device=h100
if [ "$BIG" = 1 ]; then TP=8; else TP=2; fi
vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size $TP --max-model-len 8192
