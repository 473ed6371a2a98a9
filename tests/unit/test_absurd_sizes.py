"""Sizes that nobody has are refused at once: a figure that was mistyped, or a stranger's manifest, must not take this machine's memory."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.errors import KvplanError
from kvplan.manifests import Source
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-8b"


@pytest.mark.parametrize(
    "engine", ["ideal", "vllm", "sglang", "tensorrt-llm", "lmdeploy", "llama.cpp", "ollama", "transformers", "exllamav3"]
)
@pytest.mark.parametrize("sizes", [{"tp": 10**9}, {"pp": 10**8}, {"dp": 10**9}, {"n_devices": 10**9}, {"dp": 16384, "tp": 32}])
def test_a_number_of_devices_that_nobody_has_is_refused_at_once(engine: str, sizes: dict[str, Any]) -> None:
    with pytest.raises(KvplanError):
        planned(LLAMA, engine=engine, device="h100", context="8k", **sizes)


def test_a_manifest_of_such_sizes_is_answered() -> None:
    (verdict,) = kvplan.check([Source("serve.sh", "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 1000000000")], device="h100")
    assert verdict.exit_code > 0
    assert "16384" in str(verdict.as_dict()).replace(",", "")


def test_layers_go_to_as_many_cards_as_have_a_share() -> None:
    """common/common.h: float tensor_split[128]."""
    assert planned(LLAMA, engine="llama.cpp", device="l4", n_devices=128, context="8k").fits
    with pytest.raises(KvplanError, match="at most 128 devices"):
        planned(LLAMA, engine="llama.cpp", device="l4", n_devices=129, context="8k")


def test_a_number_of_bytes_is_told_its_unit() -> None:
    with pytest.raises(KvplanError, match="such as 85899345920B"):
        planned(LLAMA, device=80 << 30)
    assert planned(LLAMA, device="85899345920B", context="8k").fits


def test_a_list_of_graphs_that_nobody_captures_is_refused_at_once() -> None:
    with pytest.raises(KvplanError, match="at most 1048576"):
        planned(LLAMA, device="h100", context="8k", engine_option={"max_cudagraph_capture_size": "99999999999"})


@pytest.mark.parametrize("question", [{"device": "h100", "max_num_batched_tokens": 10**12}, {"device": "1B"}])
def test_sglang_answers_sizes_that_nobody_has(question: dict[str, Any]) -> None:
    """A list of a billion graphs, and a share of no MiB."""
    assert planned(LLAMA, engine="sglang", context="8k", **question).fits is False
