#!/bin/bash
export CUDA_VISIBLE_DEVICES=0
nohup vllm serve meta-llama/Llama-3.1-8B --port 8000 --max-model-len 8192 --gpu-memory-utilization 0.45 > a.log 2>&1 &
nohup vllm serve Qwen/Qwen3-8B --port 8001 --max-model-len 8192 --gpu-memory-utilization 0.45 > b.log 2>&1 &
wait
