#!/bin/bash
LEN=8192
cat <<EOF | ssh gpu1 bash
vllm serve Qwen/Qwen3-8B --max-model-len $LEN
EOF
