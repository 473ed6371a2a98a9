# kvplan: device=h100
python3 -u -X faulthandler -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --max-model-len 8192
