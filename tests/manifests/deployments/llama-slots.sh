# kvplan: device=rtx-4090 model=qwen/qwen3-8b
./build/bin/llama-server -m ./Qwen3-8B-F16.gguf --ctx-size 16384 --parallel 4 --n-gpu-layers 99 --flash-attn on \
  --cache-type-k q8_0 --cache-type-v q8_0 --jinja --no-context-shift
