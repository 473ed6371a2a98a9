# kvplan: device=rtx-4090 model=qwen/qwen3-8b
llama-server -m q.gguf -c 8192 -fa off -ctk q8_0 -ctv q8_0
