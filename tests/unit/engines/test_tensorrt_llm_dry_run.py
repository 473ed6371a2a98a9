"""What the dry run of TensorRT-LLM holds of its own (tensorrt_llm/_torch/pyexecutor/_util.py, _get_token_num_for_estimation, 2026)."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.planner.plan import Plan

GEMMA = {"enable_block_reuse": "false", "use_kv_cache_manager_v2": "true"}


def gemma(version: str = "1.3.0rc24", **question: Any) -> Plan:
    return kvplan.estimate(
        "google/gemma-3-27b-it", engine="tensorrt-llm", engine_version=version, device="h100-80gb", weight_dtype="fp8", kv_dtype="fp8",
        enforce_eager=True, engine_option=GEMMA, **question,
    )  # fmt: skip


def held(found: Plan, name: str) -> int:
    return sum(entry.bytes for entry in found.ledgers[0].outside if entry.name == name)


def test_its_cache_by_hand() -> None:
    """Blocks of 32: a slot has one at least, 2,048 of them, more than a sequence of 4,096 has (129) and the dry run's 8,192 tokens (257);
    two groups of pools; 62 layers of K and V of 16 heads of 128 in a byte each."""
    assert held(gemma(max_model_len=4096), "dry run: its own cache") == 2048 * 2 * 32 * 62 * 2 * 16 * 128


def test_at_most_the_fraction_of_what_is_free() -> None:
    whole, half = (held(gemma(memory_fraction=fraction), "dry run: its own cache") for fraction in (0.8, 0.4))
    assert abs(whole - 2 * half) <= 2


@pytest.mark.parametrize(("question", "sure"), [({}, False), ({"max_model_len": 4096}, True)])
def test_the_models_own_length_is_not_sure_to_start(question: dict[str, Any], sure: bool) -> None:
    """NVIDIA/TensorRT-LLM#18056: out of memory at 131,072 tokens, a start with 4,096."""
    found = gemma(**question)
    assert found.starts is True
    assert (found.outcome.start_certainty != "too close to call") == sure


@pytest.mark.parametrize(("device", "question", "sure"), [
    ("h200", {}, False), ("h200", {"max_model_len": 8192}, True), ("b200", {}, True),
])  # fmt: skip
def test_a_prompt_of_sparse_latents_as_long_as_the_model(device: str, question: dict[str, Any], sure: bool) -> None:
    """NVIDIA/TensorRT-LLM#17659: out of memory on eight H200 at 163,840 tokens, a start with 8,192; Blackwell's settings stay."""
    found = kvplan.estimate(
        "deepseek-ai/DeepSeek-V3.2-Exp", engine="tensorrt-llm", engine_version="1.3.0rc24", device=device, tp=8, ep=8, max_num_seqs=1,
        memory_fraction=0.7, speculative="mtp:3", engine_option={"enable_attention_dp": "false"}, **question,
    )  # fmt: skip
    assert found.starts is True
    assert (found.outcome.start_certainty != "too close to call") == sure


def test_manager_v1_has_none() -> None:
    found = kvplan.estimate("meta-llama/llama-3.1-8b", engine="tensorrt-llm", engine_version="1.2.0", device="h100-80gb")
    assert held(found, "dry run: its own cache") == 0
