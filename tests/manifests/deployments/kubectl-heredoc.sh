#!/bin/sh
LEN=8192
kubectl apply -f - <<EOF
apiVersion: v1
kind: Pod
metadata: {name: qwen}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.11.0
      args: ["--model=Qwen/Qwen3-8B", "--max-model-len=$LEN"]
      resources: {limits: {nvidia.com/gpu: "1"}}
EOF
