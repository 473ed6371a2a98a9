#!/bin/bash
# kvplan: device=a100-80gb
bash -c 'exec vllm serve "$@"' -- Qwen/Qwen3-32B --max-model-len 8192 --gpu-memory-utilization 0.5
