srun -p gpu --gres=gpu:8 --cpus-per-task=1 -n1 \
vllm serve /data/models/Qwen2.5-72B-Instruct --max-model-len 32768 --tensor-parallel-size 8
