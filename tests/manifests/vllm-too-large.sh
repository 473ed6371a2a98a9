#!/bin/sh
# kvplan: device=l4
vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 8192
