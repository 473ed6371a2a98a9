# kvplan: device=h100
export VLLM_USE_V1=0 VLLM_MLA_DISABLE=1
docker run -e VLLM_USE_V1=0 -e VLLM_MLA_DISABLE=1 vllm/vllm-openai:v0.8.5 --model Qwen/Qwen3-8B --max-model-len 8192
