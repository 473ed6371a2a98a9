#!/bin/bash
llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q8_0 -c 32768 -ngl 99 &
vllm serve Qwen/Qwen3-8B --max-model-len 8192 --gpu-memory-utilization 0.85 &
wait
