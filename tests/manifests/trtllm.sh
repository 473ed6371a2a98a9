#!/usr/bin/env bash
# kvplan: device=h100-80gb
cat > ./extra-llm-api-config.yml <<EOF
enable_attention_dp: false
cuda_graph_config:
  enable_padding: true
  max_batch_size: 64
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.85
print_iter_log: true
EOF

mpirun -n 1 --oversubscribe --allow-run-as-root \
  trtllm-serve meta-llama/Llama-3.1-70B-Instruct --backend pytorch \
    --tp_size 4 --max_batch_size 64 --max_num_tokens 8192 --max_seq_len 16384 \
    --extra_llm_api_options ./extra-llm-api-config.yml
