#!/bin/bash
set -euo pipefail
MODEL=${1:-Qwen/Qwen3-8B}
shift || true
# kvplan: device=h100
exec vllm serve "$MODEL" --port "${PORT:-8000}" --max-model-len 8192 "$@"
