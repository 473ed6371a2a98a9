#!/bin/bash
# Words that nothing sets stand among the runtime's own options.
image=vllm:mine
docker run -d --rm $docker_args -e HTTP_PROXY=$proxy $image /bin/bash -c "\
  cd / && python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --max-model-len 8192 $vllm_args"
