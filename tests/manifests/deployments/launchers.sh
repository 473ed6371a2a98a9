# kvplan: device=h100
tmux new-session -d -s llm 'CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B --max-model-len 8192'
# kvplan: device=t4
ssh gpu02 "cd /srv && vllm serve Qwen/Qwen3-8B --max-model-len 8192"
