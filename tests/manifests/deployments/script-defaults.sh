#!/bin/sh
: "${MODEL:=Qwen/Qwen3-8B}"
if [ -z "$TP" ]; then TP=2; fi
[ -z "$LEN" ] && LEN=16384
# kvplan: device=l40s
exec vllm serve "$MODEL" --tensor-parallel-size "$TP" --max-model-len "$LEN"
