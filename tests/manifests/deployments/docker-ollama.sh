# kvplan: device=rtx-4090
docker run -d --gpus=all -v ollama:/root/.ollama -p 11434:11434 -e OLLAMA_CONTEXT_LENGTH=16384 --name ollama ollama/ollama
docker exec -it ollama ollama run llama3.1:8b-instruct-fp16
