"""What is typed and means nothing, or something else, is one line that says what to write, and exit code 2."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kvplan.rows import rows

LLAMA = "meta-llama/llama-3.1-8b"

TYPED = [(shlex.split(line), told) for line, told, *_ in rows(Path(__file__).parent / "typed.tsv")]
LARGE = [
    (["estimate", LLAMA, "--context", "9" * 21], "is out of range"), (["estimate", LLAMA, "--batch", "9" * 400], "is not a whole number"),
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


@pytest.mark.parametrize(("words", "told"), [*TYPED, *LARGE])
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
