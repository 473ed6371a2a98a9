#!/bin/sh
cat <<EOF | kubectl apply -f -
apiVersion: v1
kind: Pod
metadata: {name: qwen}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.11.0
      args: ["--model=Qwen/Qwen3-8B", "--tensor-parallel-size=$TP"]
EOF
