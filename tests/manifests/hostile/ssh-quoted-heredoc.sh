#!/bin/bash
ssh gpu1 <<'REMOTE'
LEN=16384
python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --context-length $LEN
REMOTE
