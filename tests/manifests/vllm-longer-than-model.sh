#!/bin/sh
# kvplan: device=h200
vllm serve mistralai/Mistral-7B-Instruct-v0.3 \
  --max-model-len 65536 \
  --max-num-seqs 16
