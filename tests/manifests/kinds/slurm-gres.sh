#!/bin/bash
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=64G
srun --ntasks=1 apptainer exec --nv vllm.sif vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4 --max-model-len 16384
