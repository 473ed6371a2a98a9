#!/usr/bin/env bash
# kvplan: device=h100
CMD=(vllm serve Qwen/Qwen3-8B)
CMD+=(--max-model-len 8192)
if [[ -n "$LORA" ]]; then
  CMD+=(--enable-lora --max-lora-rank 64)
fi
"${CMD[@]}"
