#!/bin/bash
ssh -o StrictHostKeyChecking=no user@gpu1 "cd /srv && nohup vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 > log 2>&1 &"
