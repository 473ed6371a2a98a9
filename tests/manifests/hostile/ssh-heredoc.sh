#!/bin/bash
MODEL=meta-llama/Llama-3.1-8B
ssh -T gpu1 bash -s <<EOF
export HF_HOME=/data/hf
vllm serve $MODEL --max-model-len 8192 --tensor-parallel-size 2
EOF
