#!/usr/bin/env bash
# kvplan: device=h100-80gb
# Arguments in an array, some only on one branch
ARGS=(
  --tensor-parallel-size 4
  --max-model-len 128K          # 131,072: a capital is binary
  --kv-cache-dtype fp8
)
if [[ "${EAGER:-0}" == 1 ]]; then
  EXTRA="--enforce-eager"
fi
ARGS+=(--gpu-memory-utilization=0.92 -O3)

CUDA_VISIBLE_DEVICES=0,1,2,3 vllm serve meta-llama/Llama-3.3-70B-Instruct "${ARGS[@]}" $EXTRA
