#!/bin/bash
# One after the other: the first is stopped before the second starts.
vllm serve meta-llama/Llama-3.1-8B --port 8000 --max-model-len 8192 &
SERVER=$!
curl -s localhost:8000/v1/models
kill $SERVER
wait $SERVER
vllm serve Qwen/Qwen3-8B --port 8000 --max-model-len 8192 &
wait
