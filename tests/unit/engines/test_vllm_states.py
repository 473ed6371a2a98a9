"""Hybrids under vLLM: a block for the states of every sequence, before CUDA graphs are captured."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.planner.plan import Plan
from kvplan.units import GIB
from tests.conftest import planned

#: Qwen3.8-27B (layers as Qwen3.6-27B) under vLLM 0.29.0: 31.24 GiB for the cache, 652 blocks, 314,187 tokens, 38.35x at 8,192 tokens; the
#: default of 1,024 sequences stopped in resolve_cudagraph_mode_and_sizes, 256 started (log of a run on an RTX PRO 6000, 2026-09-17).
LOGGED: dict[str, Any] = {"kv_memory": int(31.24 * GIB), "max_model_len": 8192}
BLOCK = 16 * 784 * 4 * 256 * 2 * 2  # 16 layers, 784 tokens, 4 heads of 256, K and V, 2 bytes: 49 MiB


def ask(version: str = "0.29.0", **question: Any) -> Plan:
    return planned("qwen/qwen3.6-27b", engine="vllm", engine_version=version, multimodal="off", **(LOGGED | question))


def test_the_pool_as_logged() -> None:
    capacity = ask(max_num_seqs=256).capacity
    assert capacity is not None
    assert (capacity.bytes_per_block, capacity.blocks, capacity.tokens) == (BLOCK, 652, 314_187)
    assert round(capacity.max_concurrency or 0, 2) == 38.35


@pytest.mark.parametrize("version", ["0.20.0", "0.29.0", "0.33.0"])
def test_more_sequences_than_blocks_do_not_start(version: str) -> None:
    plan = ask(version, max_num_seqs=1024)
    assert (plan.starts, plan.fits) == (False, False)
    assert plan.outcome.reason == (
        "max_num_seqs (1024) exceeds available Mamba cache blocks (652). Each decode sequence requires one Mamba cache block, so CUDA "
        "graph capture cannot proceed. Please lower max_num_seqs to at most 652 or increase gpu_memory_utilization."
    )
    assert plan.margin_bytes == (652 - 1024) * BLOCK
    assert [ask(version, max_num_seqs=n).starts for n in (652, 653)] == [True, False]


def test_up_to_0_19_fewer_sizes_were_captured_instead() -> None:
    """0.18 and 0.19 adjust_cudagraph_sizes_for_mamba_cache: a warning, and smaller graphs."""
    assert [ask(version, max_num_seqs=1024).starts for version in ("0.18.0", "0.19.0")] == [True, True]


def test_without_graphs_there_is_no_such_check() -> None:
    assert ask(max_num_seqs=1024, enforce_eager=True).starts
    assert ask(max_num_seqs=1024, engine_option={"platform": "cpu"}).starts


def test_a_model_without_states_has_no_such_check() -> None:
    plan = planned("qwen/qwen3-8b", engine="vllm", kv_memory=256 * 16 * 147_456, max_model_len=1024, max_num_seqs=1024)
    assert plan.starts  # 36 layers x 8 heads x 128 x 2 x 2 bytes a token: 256 blocks


def test_advice_lowers_the_sequences_to_the_blocks() -> None:
    plan = kvplan.estimate("qwen/qwen3.6-27b", engine="vllm", engine_version="0.29.0", multimodal="off", max_num_seqs=1024, **LOGGED)
    (found,) = (advice for advice in plan.advice if advice.option == "max_num_seqs")
    assert found.value == 652


def test_the_default_of_a_large_device_is_judged_too() -> None:
    """vllm-project/recipes#551: Qwen3.6-27B-FP8 on one H100 at 0.95 has 856 blocks (0.22) for 1,024 sequences by default."""
    plan = planned("Qwen/Qwen3.6-27B-FP8", engine="vllm", engine_version="0.22.0", device="h100-80gb", memory_fraction=0.95)
    assert plan.starts is False
    assert "max_num_seqs (1024) exceeds available Mamba cache blocks" in (plan.outcome.reason or "")
    assert plan.capacity is not None
    assert plan.capacity.blocks == pytest.approx(856, rel=0.03)


def groups(model: str, release: str, **options: str) -> list[tuple[str, int]]:
    """Kinds of groups and the tokens of their blocks, of requests of 8,192 tokens."""
    asked: dict[str, Any] = {"engine": "vllm", "engine_version": release, "device": "h100", "max_model_len": 8192, "context": 4096}
    plan = kvplan.estimate(model, **asked, engine_option={"enable_prefix_caching": "true", **options}, advise=False)
    assert plan.capacity is not None
    return [(group.kind, group.block_tokens) for group in plan.capacity.groups]


@pytest.mark.parametrize("model", ["tiiuae/falcon-mamba-7b", "nvidia/nemotron-h-8b-base-8k"])
@pytest.mark.parametrize("release", ["0.10.2", "0.11"])
def test_prefix_caching_of_states_is_turned_off_before_0_11_1(model: str, release: str) -> None:
    """models/config.py MambaModelConfig of 0.10.2 and 0.11.0: enable_prefix_caching = False whatever was asked, and the runner gives a
    state's block the longest request's tokens."""
    assert ("mamba", 8192) in groups(model, release)


@pytest.mark.parametrize("release", ["0.15.1", "0.16"])
def test_states_are_kept_in_every_block_by_default_from_0_15_on(release: str) -> None:
    """models/config.py MambaModelConfig of 0.15.1 and 0.16.0: mode `none` with prefix caching becomes `all` where the class supports it,
    as NemotronHForCausalLM does (SupportsMambaPrefixCaching)."""
    model = "nvidia/nemotron-h-8b-base-8k"
    assert groups(model, release) == groups(model, release, mamba_cache_mode="all") != groups(model, release, mamba_cache_mode="align")
