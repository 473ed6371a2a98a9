# kvplan: device=h100-80gb
trtllm-serve openai/gpt-oss-20b --max_seq_len 16384 --config /opt/configs/gpt-oss.yaml
