#!/bin/bash
python -m sglang_router.launch_server\ 
    --model-path Qwen/Qwen3-8B --dp 2
