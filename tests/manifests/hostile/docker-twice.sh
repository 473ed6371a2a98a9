#!/bin/bash
docker run -d --gpus '"device=0"' vllm/vllm-openai:v0.11.0 --model meta-llama/Llama-3.1-8B --max-model-len 8192 --gpu-memory-utilization 0.6
docker run -d --gpus '"device=0"' -p 8001:8000 vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B --max-model-len 8192 --gpu-memory-utilization 0.6
