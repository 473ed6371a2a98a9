# kvplan: device=h100
docker run --runtime nvidia --gpus '"device=0,1"' \
    --name llm -v ~/.cache/huggingface:/root/.cache/huggingface \
    --env "HUGGING_FACE_HUB_TOKEN=$HF_TOKEN" -p 8000:8000 --ipc=host \
    vllm/vllm-openai:v0.11.0 \
    --model Qwen/Qwen3-32B --tensor-parallel-size 4
