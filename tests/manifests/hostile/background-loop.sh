#!/bin/bash
for GPU in 0 1 2 3; do
  CUDA_VISIBLE_DEVICES=$GPU vllm serve meta-llama/Llama-3.1-8B --port $((8000 + GPU)) --max-model-len 8192 &
done
wait
