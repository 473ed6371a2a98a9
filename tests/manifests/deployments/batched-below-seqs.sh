# kvplan: device=h100
vllm serve Qwen/Qwen3-8B \
  --max-num-seqs 512 \
  --max-num-batched-tokens 256
