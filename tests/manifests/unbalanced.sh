#!/bin/sh
echo "before"
vllm serve Qwen/Qwen3-8B --chat-template "{{ messages }
