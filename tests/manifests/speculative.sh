#!/bin/bash
# kvplan: device=h200
vllm serve deepseek-ai/DeepSeek-V3 -tp 8 --enable-expert-parallel \
  --speculative-config '{"method": "deepseek_mtp", "num_speculative_tokens": 1}' \
  --max-model-len 65536 --compilation-config '{"cudagraph_mode": "FULL_AND_PIECEWISE"}'
