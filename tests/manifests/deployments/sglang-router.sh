# kvplan: device=h100
python3 -m sglang_router.launch_server --model-path Qwen/Qwen3-8B --dp-size 4 --router-policy cache_aware --context-length 8192
