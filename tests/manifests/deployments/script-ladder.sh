# kvplan: device=h100
if [ "$SIZE" = big ]; then
  MODEL=Qwen/Qwen3-32B
  TP=4
elif [ "$SIZE" = small ]; then
  MODEL=Qwen/Qwen3-8B
  TP=1
fi
vllm serve $MODEL --tensor-parallel-size $TP --max-model-len 8192
