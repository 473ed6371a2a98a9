# kvplan: device=mi300x
docker run -it --network=host --group-add=video --ipc=host --cap-add=SYS_PTRACE --security-opt seccomp=unconfined \
    --device /dev/kfd --device /dev/dri rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909 \
    vllm serve meta-llama/Llama-3.1-70B-Instruct --kv-cache-dtype fp8 --max-model-len 32768
