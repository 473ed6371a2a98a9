# kvplan: device=h100
sglang serve --model-path Qwen/Qwen3-8B \
  --mem-fraction-static 1.2
