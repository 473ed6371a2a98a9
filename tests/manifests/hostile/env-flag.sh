# kvplan: device=rtx-4090
LLAMA_ARG_CTX_SIZE=131072 LLAMA_ARG_N_GPU_LAYERS=0 llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q8_0 -c 8192 -ngl 99
