#!/bin/bash
# kvplan: device=h100
ARGS="--tensor-parallel-size 4"
ARGS+=" --max-model-len 8192"
ARGS="$ARGS --max-num-seqs 64"
vllm serve Qwen/Qwen3-8B $ARGS
