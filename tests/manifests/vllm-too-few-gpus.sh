#!/usr/bin/env bash
# kvplan: device=h100-80gb
export CUDA_VISIBLE_DEVICES=0,1

nohup python3 -m vllm.entrypoints.openai.api_server \
    --model meta-llama/Llama-3.1-70B-Instruct \
    --tensor-parallel-size 4 \
    --max-model-len 8192 > vllm.log 2>&1 &
