# kvplan: device=rtx-4090
sglang serve --model-path Qwen/Qwen3-8B --kv-cache-dtype fp8_e5m2 --context-length 32768 --max-running-requests 8
