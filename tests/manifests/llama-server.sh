#!/bin/sh
# kvplan: device=rtx-3090 model=qwen/qwen3-8b
./build/bin/llama-server -m models/qwen3-8b-f16.gguf \
  -c 16384 -np 2 -ngl 99 -fa on \
  -ctk q8_0 -ctv q8_0 --host 0.0.0.0 --port 8080 --jinja
