docker run --gpus all -i --entrypoint bash vllm/vllm-openai:v0.11.0 <<'EOF'
vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192
EOF
