# kvplan: device=h100
trtllm-serve disaggregated -c disagg_config.yaml
