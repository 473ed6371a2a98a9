#!/bin/sh
# kvplan: device=rtx-4090
vllm serve Qwen/Qwen3-32B --cpu-offload-gb 60 --max-model-len 4096
