tmux new-session -d -s llm 'vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192'
screen -dmS two bash -c "CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen3-8B --max-model-len 8192"
