#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:h100:4
# kvplan: device=h100
srun --container-image=vllm/vllm-openai:v0.11.0 bash -c "vllm serve Qwen/Qwen3-32B -tp 4 --max-model-len 32768"
