"""What --speculative-config says of a drafter alone (vLLM config/speculative.py, model_executor/models/utils.py get_draft_quant_config)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.planner.plan import Plan

HEAD, SMALL = "eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "draft_model:3:meta-llama/llama-3.2-1b"


def plan(speculative: str, version: str = "0.33.0", tp: int = 1, **options: Any) -> Plan:
    return kvplan.estimate(
        "meta-llama/llama-3.1-8b", engine="vllm", engine_version=version, device="h100", tp=tp, max_model_len=8192,
        speculative=speculative, engine_option=options,
    )  # fmt: skip


def line(found: Plan, name: str) -> int:
    return next(entry.bytes for entry in found.ledgers[0].entries if entry.name == name)


def test_a_drafter_quantised_as_it_is_loaded() -> None:
    """An EAGLE-3 head for Llama 3.1 8B: q of 8192 inputs x 4096, k and v x 1024, o 4096 x 4096; three matrices of 4096 x 14336. FP8 has one
    byte of each and a scale of four for a matrix, as the layer merges them; what joins the states, and the head, stay in 16 bits."""
    matrices = {"attention": 8192 * (4096 + 2 * 1024) + 4096 * 4096, "mlp": 3 * 4096 * 14336}
    plain, quantised = plan(HEAD), plan(HEAD, draft_quantization="fp8")
    for role, elements in matrices.items():
        assert line(plain, f"weights: drafter {role}") == 2 * elements
        assert elements <= line(quantised, f"weights: drafter {role}") <= elements + 64
    for role in ("other", "head"):
        assert line(quantised, f"weights: drafter {role}") == line(plain, f"weights: drafter {role}")


def test_a_key_of_speculative_config_is_the_option() -> None:
    config = '{"method":"eagle3","model":"yuhuili/EAGLE3-LLaMA3.1-Instruct-8B","num_speculative_tokens":3,"quantization":"fp8"}'
    found = kvplan.estimate("meta-llama/llama-3.1-8b", engine="vllm", device="h100", engine_option={"speculative_config": config})
    assert found.question["speculative"][0] == HEAD
    assert found.question["engine_option"][0] == {"draft_quantization": "fp8"}


def test_a_drafter_with_a_cache_in_another_format() -> None:
    """A page of 16 tokens of all layers: 32 of the target's, K and V of 8 heads of 128 in 2 bytes, and one of the head's in 1 byte."""
    layer = 2 * 8 * 128 * 16
    found = plan(HEAD, draft_kv_cache_dtype="fp8")
    assert found.capacity is not None
    assert found.capacity.bytes_per_block == 32 * 2 * layer + layer


@pytest.mark.parametrize(("method", "says"), [
    ("awq", "Cannot find the config file for awq"),
    ("compressed-tensors", "Cannot find the config file for compressed-tensors"),
    ("fp8", ""),
])  # fmt: skip
def test_a_method_that_packs_and_a_plain_drafter(method: str, says: str) -> None:
    found = plan(SMALL, draft_quantization=method)
    assert (says in found.verdict, found.starts) == (True, not says)


def test_ranks_of_a_drafter() -> None:
    """V1 builds it over its target's ranks (layers ask get_tp_group), V0 whole on the first (spec_decode/smaller_tp_proposer_worker.py)."""
    assert line(plan(HEAD, tp=2, draft_tensor_parallel_size=1), "weights: drafter mlp") == 3 * 4096 * 14336
    split, whole = (plan(SMALL, "0.6.6", 2, **one) for one in ({}, {"draft_tensor_parallel_size": "1"}))
    assert 2 * line(split, "weights: drafter mlp") == line(whole, "weights: drafter mlp") == 16 * 3 * 2048 * 8192 * 2


@pytest.mark.parametrize(("version", "starts"), [("0.18.0", True), ("0.20.0", False), ("0.28.0", False), ("0.29.0", True)])
def test_releases_that_quantise_no_drafter(version: str, starts: bool) -> None:
    """model_loader/weight_utils.py get_quant_config of 0.19.1 to 0.28: a drafter's config is rewritten by a function, which is no dict."""
    found = plan(SMALL, version, draft_quantization="fp8")
    assert (found.starts, "hf_overrides must be a dict" in found.verdict) == (starts, not starts)
