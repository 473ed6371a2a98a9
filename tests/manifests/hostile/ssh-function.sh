#!/bin/bash
# A function hands each text to a shell on another machine, with the script's variables.
MODEL="${MODEL:-meta-llama/Llama-3.1-8B}"
MAX_LEN="${MAX_LEN:-16384}"
on_host() {
  local host="$1"
  ssh "${host}" "MODEL=${MODEL} MAX_LEN=${MAX_LEN} bash -s"
}
on_host gpu1 <<'REMOTE'
args=(--max-model-len "${MAX_LEN}")
nohup vllm serve "${MODEL}" "${args[@]}" > log 2>&1 &
REMOTE
