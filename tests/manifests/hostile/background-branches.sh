#!/bin/bash
# Either, never both.
case "$1" in
  small) vllm serve Qwen/Qwen3-8B --max-model-len 8192 & ;;
  *) vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 & ;;
esac
wait
