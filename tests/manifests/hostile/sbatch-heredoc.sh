#!/bin/bash
sbatch <<EOF
#!/bin/bash
#SBATCH --gres=gpu:2
srun vllm serve Qwen/Qwen3-32B --max-model-len 8192 --tensor-parallel-size 2
EOF
