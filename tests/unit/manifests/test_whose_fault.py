"""What is wrong with the caller's own values is an error; what another tool fills in, or what may be a slip, is open."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.errors import KvplanError
from kvplan.manifests import Source, read

SERVE = Source("serve.sh", "vllm serve Qwen/Qwen3-8B --max-model-len 8192")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"device": "h100,l4"}, "unknown device"),
        ({"device": "nosuch"}, "unknown device"),
        ({"context": 0}, "at least 1"),
        ({"kv_dtype": "int3"}, "KV cache format"),
        ({"engine_option": {"nosuch": 1}}, "no engine has such an option"),
        ({"engine_option": {"cudagraph_mode": "foo"}}, "is not one of NONE"),
        ({"engine": "sglang"}, "the files say which"),
    ],
)
def test_a_wrong_value_of_the_caller_is_no_verdict_on_a_file(given: dict[str, Any], told: str) -> None:
    with pytest.raises(KvplanError, match=told):
        kvplan.check([SERVE], **({"device": "h100"} | given))


def test_a_wrong_value_of_the_file_is_one() -> None:
    (verdict,) = kvplan.check([Source("serve.sh", "vllm serve Qwen/Qwen3-8B --kv-cache-dtype int3")], device="h100")
    assert verdict.status != "fits"


WORKFLOW = """
on:
  workflow_dispatch:
    inputs: {len: {default: "4096"}}
jobs:
  t:
    steps:
    - env: {SEQS: "${{ inputs.n || 64 }}"}
      run: vllm serve Qwen/Qwen3-8B --max-model-len ${{ inputs.len || 8192 }} --max-num-seqs $SEQS -tp ${{ matrix.tp }}
"""


def test_expressions_of_a_workflow_are_known_by_their_defaults_or_open() -> None:
    (found,) = read(WORKFLOW, "ci.yaml")
    assert found.question == {"max_model_len": 4096, "max_num_seqs": 64}
    assert [one.what for one in found.unresolved if one.what != "device"] == ["tp"]
    assert not [f for f in found.findings if f.severity == "error"]


@pytest.mark.parametrize(
    ("line", "what"), [("llama-server -m x.gguf --ctk q8_0", "ctk"), ("llama-server -m x.gguf --ubatch-sizes 64", "n_ubatch")]
)
def test_a_slip_of_an_option_that_moves_memory_leaves_the_verdict_open(line: str, what: str) -> None:
    (found,) = read(line, "serve.sh")
    assert what in [one.what for one in found.unresolved]
