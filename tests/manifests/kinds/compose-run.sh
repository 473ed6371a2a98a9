#!/bin/sh
llama-server --list-devices | grep -q CUDA0 || exit 1
docker compose run --rm -e VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve Qwen/Qwen3-8B --max-model-len 8192
