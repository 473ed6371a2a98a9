# kvplan: device=h200
python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp-size 16 --nnodes 2 --node-rank 0 \
  --dist-init-addr 10.0.0.1:5000 --enable-dp-attention --dp-size 16 --moe-a2a-backend deepep --deepep-mode auto \
  --cuda-graph-bs 1 2 4 8
