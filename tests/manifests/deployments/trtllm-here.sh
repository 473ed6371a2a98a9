# kvplan: device=b200
cat << EOF > extra-llm-api-config.yml
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.85
  enable_block_reuse: false
speculative_config:
  decoding_type: MTP
  num_nextn_predict_layers: 1
moe_config:
  backend: CUTLASS
EOF
mpirun -n 8 --allow-run-as-root trtllm-llmapi-launch trtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 8 --ep_size 8 \
  --max_batch_size 64 --max_num_tokens 8192 --max_seq_len 32768 --extra_llm_api_options ./extra-llm-api-config.yml
