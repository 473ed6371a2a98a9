$env:HF_TOKEN = "x"
docker run --rm --gpus all -p 8000:8000 `
  vllm/vllm-openai:v0.11.0 `
  --model Qwen/Qwen3-8B `
  --max-model-len 8192
