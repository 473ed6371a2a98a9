#!/bin/bash
# SGLang counts its devices from --base-gpu-id: two of two each, none shared.
python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --context-length 8192 --tp 2 --port 30000 &
python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --context-length 8192 --tp 2 --base-gpu-id 2 --port 30001 &
wait
