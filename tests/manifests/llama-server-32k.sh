# kvplan: device=rtx-3090 model=qwen/qwen3-8b
llama-server -m qwen3-8b.gguf -c 32k -ngl 99
