# kvplan: device=rtx-4090
llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q8_0 -c 32k -ngl 99
