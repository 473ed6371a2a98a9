"""What is typed and means nothing, or something else, is one line that says what to write, and exit code 2."""

from __future__ import annotations

import pytest

LLAMA = "meta-llama/llama-3.1-8b"

#: Behind `estimate meta-llama/llama-3.1-8b`, and what is said.
ESTIMATE = [
    ("--device h101-80gb", "did you mean"), ("--context -4", "context"), ("--context 0", "at least 1"), ("--context nan", "is not a size"),
    ("--context " + "9" * 21, "is out of range"), ("--batch 2.5", "is not a whole number"),
    ("--batch " + "9" * 400, "is not a whole number"),
    ("--memory-fraction 1.5", "is not a fraction"), ("--memory-fraction nan", "is not a fraction"),
    ("--kv-dtype fp7", "unknown KV cache format"), ("--kv-dtype fp8_ds_mla", "packed row of 576"),
    ("--weight-dtype int3", "unknown weight format"), ("--weight-dtype exl3", "such as exl3:4.0bpw"),
    ("--weight-dtype exl3:99bpw", "from 1 to 8"),
    ("--engine vlm", "unknown engine"), ("--engine NIM", "write vllm, sglang or tensorrt-llm"),
    ("--engine llama-server", "write llama.cpp"),
    ("--engine tgi", "it is not modelled"), ("--engine ideal --engine-option x=1", "has no such option"),
    ("--engine vllm --engine-option language_model_only=true", "it is multimodal here"),
    ("--engine vllm --engine-option quantization=fp8", "write weight_dtype"), ("--engine-option x", "KEY=VALUE"),
    ("--engine vllm --engine-option cpu_offload_gb=1 --engine-option cpu_offload_gb=2", "given twice, with two values; keep one"),
    ("--tp 4 --ep 3 --engine ideal", "must divide"), ("--tp 4 --dcp 4 --engine ideal", "can not share the tokens"),
    ("--tp 4 --n-devices 2 --engine ideal", "needs 4 devices"), ("--pp 33 --engine ideal", "at least one layer a stage"),
    *((f"--engine {name} --device 8xH100 --tp 4 --context 8k", "4 devices, not 8: change these sizes, or the number of devices")
      for name in ("ideal", "vllm", "sglang", "tensorrt-llm", "lmdeploy", "transformers", "exllamav3")),
    ("--colour red", "No such option"), ("h100", "'h100' is one word too many; if it is the device, write --device h100"),
    ("--kv-memory 40G", "'40G' is 40GiB (powers of 1024) or 40GB (of 1000)? Write which"),
    ("--context 32.768", "'32.768' is no whole number; write 32768 if the dot parts thousands"),
    ("--context 8k:1k:x2", "the first value is above the last"),
    *((f"--context {grid}", "context") for grid in ("1:", ":4", "1:4:x1", "1:4:+0", "1:4:2", "1,,2", "1:1m", "0:4:x2", "a:b")),
    ("--device 0GiB", "write a size such as 24GiB"), ("--device 24", "a size has a unit, such as 24GiB"),
    ("--device cpu", "--n-gpu-layers 0 --host-memory 64GiB"), ("--device none", "without a GPU leave --device out"),
    ("--device h100 --engine-version latest", "left out it is the newest"),
]  # fmt: skip

#: Whole command lines.
TYPED = [
    (["estimate"], "kvplan estimate needs a model, such as: kvplan estimate meta-llama/llama-3.1-8b"),
    (["estimate", ""], "write a model id"), (["estimate", "lama-3.1-8b"], "did you mean"),
    (["estimate", "Llama", "3.1", "8B", "--device", "h100"], "'3.1 8B' is too much: a name with blanks goes in quotes"),
    (["estimate", "Llama", "3.1", "8B"], 'goes in quotes: kvplan estimate "Llama 3.1 8B"'),
    (["estimate", "qwen3-32b q4_k_m"], "kvplan estimate qwen/qwen3-32b --weight-dtype q4_k_m"),
    (["estimate", "claude-sonnet-4"], "weights are not published"), (["estimate", "GPT-4o"], "weights are not published"),
    (["estimate", LLAMA, "--device", "Mac Studio 512"], "such as apple-m3-ultra-512gb"),
    (["estimate", LLAMA, "--device", "TPU v5e"], "not modelled"),
    (["advise", LLAMA], "kvplan estimate MODEL --device NAME"), (["capacity"], "kvplan estimate MODEL --device NAME"),
    (["recommend", LLAMA], "kvplan fit MODEL"), ([LLAMA, "--device", "h100"], f"kvplan estimate {LLAMA}"),
    (["why", "x", "--device", "l4"], "kvplan estimate MODEL --device DEVICE"),
    (["estimate", "--model", LLAMA], "write the model itself, as the first word"),
    (["estimate", "./none.yaml"], "no such file"), (["estimate", "../model_specs/../../etc/passwd"], "o such file"),
    (["estimate", "a/../b"], "unknown model"), (["estimate", "Qwen3-30B-A3B-Q4_K_M.gguf"], "no such file; it is not known"),
    (["estimate", "Qwen3-30B-A3B-Q4_K_M.gguf"], "kvplan estimate qwen/qwen3-30b-a3b --weight-dtype q4_k_m"),
    (["models", "show", "foo"], "give its Hub id"), (["devices", "show", "none-such"], "unknown device"),
    (["engines", "vlm"], "did you mean"),
    (["emit"], "targets: "), (["emit", LLAMA, "--device", "h100"], "kvplan emit needs a target and a model, such as: kvplan emit vllm"),
    (["emit", LLAMA, "--target", "vllm"], "write the target before the model"),
    (["emit", "helm", LLAMA, "--device", "l4"], "compose, k8s"),  # which shares two letters with vllm: every target is a better hint
    (["compare", LLAMA, "--device", "h100"], "name a second model, or several values: --device h100,l4"),
    (["fit", LLAMA, "--tp", "2", "--tp", "4"], "tp"), (["fit", LLAMA, "--device", "l4"], "--devices h100,l4"),
    (["sweep", LLAMA, "--context", "1k"], "such as --grid context=8k:1m:x2, or give several values of an option"),
    (["sweep", LLAMA, "context=8k:32k:x2", "batch=1,4"], "write --grid context=8k:32k:x2 --grid batch=1,4"),
    (["sweep", LLAMA, "nonsense"], "'nonsense' is too much"),
    (["transfer", LLAMA, "--engine", "vllm", "--device", "h100", "--context", "8k", "--link", "foo"], "nvlink4"),
]  # fmt: skip

#: Options of other tools, and of engines as `llama-server --help`, `vllm serve --help` and SGLang's server arguments spell them.
OTHERS = [
    ("--ctx-size", "write --context"), ("--gpu", "write --device"), ("--quant", "write --weight-dtype"), ("--json", "--format json"),
    ("--tensor-parallel-size", "write --tp (vLLM, SGLang's --tensor-parallel-size)"), ("--num-gpus", "write --n-devices"),
    ("--gpu-memory-utilization", "write --memory-fraction"), ("--batchs", "did you mean --batch"), ("--max-seq-len", "write --context"),
    ("-ngl", "write --n-gpu-layers"), ("-ctk", "write --kv-dtype"), ("-fa", "write --engine-option flash_attn=VALUE (llama.cpp's -fa)"),
    ("--n-cpu-moe", "write --engine-option n_cpu_moe=VALUE (llama.cpp's --n-cpu-moe)"),
    ("--enable-dp-attention", "write --engine-option enable_dp_attention=true (SGLang's"),
    ("--no-enable-prefix-caching", "write --engine-option enable_prefix_caching=false (vLLM's"),
    ("--enable-expert-parallel", "write --ep"), ("--port", "no plan moves with it: leave it out"),
    ("--hf-overrides", "kvplan check reads whole commands"), ("--zzz", "see --help"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), [*((["estimate", LLAMA, *words.split()], told) for words, told in ESTIMATE), *TYPED])
def test_one_line_says_what_to_write(refused, words, told):
    said = refused(*words)
    assert told in said
    assert "Traceback" not in said
    assert ("did you mean" in said) <= (words[:2] != ["emit", "helm"])


@pytest.mark.parametrize(("option", "told"), OTHERS)
def test_an_option_of_others_is_answered_with_ours(refused, option, told):
    said = refused("estimate", LLAMA, option, "4")
    assert said.startswith(f"error: No such option: {option}; ")
    assert told in said
    assert ("did you mean" in said) == ("did you mean" in told)


def test_what_is_typed_instead_is_an_option_of_that_command(refused):
    assert "write --detail" in refused("estimate", LLAMA, "--verbose")
    assert "--detail" not in refused("check", "serve.sh", "--verbose")
