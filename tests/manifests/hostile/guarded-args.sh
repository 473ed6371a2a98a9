#!/usr/bin/env bash
# kvplan: device=h100
MORE=""
if [ "${EVAL_ONLY}" = "true" ]; then
  MORE="--context-length $EVAL_LENGTH"
fi
python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 1 $MORE
