# kvplan: device=rtx-3090 model=meta-llama/llama-3.2-1b
llama-server -m llama-3.2-1b.gguf -c 8192 -ngl 99 --flash-attn off --cache-type-v q4_0
