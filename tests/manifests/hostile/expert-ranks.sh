# kvplan: device=h200
python3 -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp 4 --ep-size 3
