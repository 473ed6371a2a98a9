#!/bin/sh
# kvplan: device=rtx-4090 model=meta-llama/llama-3.1-8b
export OLLAMA_NUM_PARALLEL=1 OLLAMA_CONTEXT_LENGTH=8192
ollama serve &
ollama run llama3.1:8b-instruct-fp16
