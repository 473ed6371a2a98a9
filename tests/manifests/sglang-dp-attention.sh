#!/bin/bash
# kvplan: device=h200
python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 \
  --tp 8 --dp 8 --enable-dp-attention \
  --mem-fraction-static 0.9 --context-length 32768 \
  --cuda-graph-max-bs 128 --trust-remote-code
