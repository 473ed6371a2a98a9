# kvplan: device=h100
vllm serve Qwen/Qwen3-8B --max-model-len 131072 \
  --hf-overrides '{"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}}'
