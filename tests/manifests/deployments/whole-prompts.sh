# kvplan: device=h100
vllm serve Qwen/Qwen3-8B --max-model-len 8192 \
  --no-enable-chunked-prefill \
  --max-num-batched-tokens 2048
