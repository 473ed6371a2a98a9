#!/bin/bash
# kvplan: device=h100-80gb
docker run --runtime nvidia --gpus '"device=0,1,2,3,4,5,6,7"' \
    -v ~/.cache/huggingface:/root/.cache/huggingface \
    --env "HUGGING_FACE_HUB_TOKEN=$HF_TOKEN" \
    -p 8000:8000 --ipc=host --name r1 -it --rm \
    vllm/vllm-openai:v0.10.2 \
    --model meta-llama/Llama-3.1-70B-Instruct \
    --tensor-parallel-size 8 \
    --max-num-batched-tokens 8k \
    --max-model-len 32768
