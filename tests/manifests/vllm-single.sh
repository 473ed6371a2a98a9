#!/bin/bash
# kvplan: device=h100-80gb
set -euo pipefail
export HF_HUB_OFFLINE=1
MODEL=meta-llama/Llama-3.1-8B-Instruct
PORT=${PORT:-8000}

exec vllm serve "$MODEL" \
  --host 0.0.0.0 --port "$PORT" \
  --max-model-len 32k \
  --gpu-memory-utilization 0.90 \
  --enable-prefix-caching \
  --tool-call-parser llama3_json --enable-auto-tool-choice
