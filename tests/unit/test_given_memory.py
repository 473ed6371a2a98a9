"""Cache memory that is given is held against the device that is named, with what else a start holds there."""

from __future__ import annotations

import pytest

import kvplan
from tests.conftest import planned

MODEL = "meta-llama/llama-3.1-8b"  # 15 GiB of weights; an H100 reports 79.19 GiB
ENGINES = ("vllm", "sglang", "tensorrt-llm", "lmdeploy")


@pytest.mark.parametrize("engine", ENGINES)
def test_more_than_the_device_has_is_no_start(engine: str) -> None:
    plan = kvplan.estimate(MODEL, engine=engine, device="h100", context="8k", kv_memory="400GiB")
    assert (plan.starts, plan.fits, plan.certainty) == (False, False, "certain")
    assert plan.margin_bytes is not None
    assert plan.margin_bytes < -335 << 30  # 15 + 400 - 79.19
    (less,) = [one for one in plan.advice if one.option == "kv_memory"]
    after = kvplan.estimate(MODEL, engine=engine, device="h100", context="8k", kv_memory=less.value)
    assert after.fits
    assert (after.margin_bytes, after.certainty) == (less.margin_bytes, less.certainty)


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_device_nothing_is_held_against_it(engine: str) -> None:
    assert planned(MODEL, engine=engine, context="8k", kv_memory="400GiB").starts
    assert planned(MODEL, engine=engine, device="h100", context="8k", kv_memory="40GiB").starts


def test_what_comes_beside_the_cache_needs_room_too() -> None:
    """64.2 GiB are left beside the weights; vLLM's graphs, activations and context are some 4 GiB of them."""
    near = planned(MODEL, engine="vllm", device="h100", context="8k", kv_memory="63.5GiB")
    assert near.starts is False
    neighbour = planned(MODEL, engine="vllm", device="h100", context="8k", kv_memory="40GiB", reserve="30GiB")
    assert neighbour.starts is False


def test_a_manifest_that_gives_the_cache_more_than_there_is() -> None:
    from kvplan.manifests import Source

    text = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --kv-cache-memory-bytes 100000000000"
    (verdict,) = kvplan.check([Source("serve.sh", text)], device="h100")
    assert verdict.status == "refuses"
