"""Host lines: what a server holds beside its devices, by each release's own rule; never in a device's total."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.planner.plan import Plan
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-70b"


def ask(engine: str, **question: Any) -> Plan:
    return planned(LLAMA, engine=engine, context=8192, **{"device": "h100", "tp": 4, **question})


def host(plan: Plan) -> dict[str, int]:
    return {line["name"]: line["bytes"] for line in plan.as_dict()["host"]}


def test_offloaded_blocks_are_of_all_ranks_together_and_move_nothing_on_a_device() -> None:
    plan, without = ask("vllm", engine_option={"kv_offloading_size": "64"}), ask("vllm")
    # 16 tokens of 80 layers, K and V of 8 heads of 128 in 2 bytes: 5 MiB a block of all four ranks, and 64 GiB hold 13,107 whole ones
    assert host(plan)["KV cache offloaded"] == (64 << 30) // (5 << 20) * (5 << 20) == 13_107 * (5 << 20)
    assert plan.ledgers == without.ledgers


def test_offloaded_weights_leave_the_device_to_the_cache() -> None:
    plan, without = ask("vllm", engine_option={"cpu_offload_gb": "10"}), ask("vllm")
    assert host(plan)["weights offloaded"] == 4 * (10 << 30)
    assert plan.ledgers[0].cache_bytes - without.ledgers[0].cache_bytes == pytest.approx(10 << 30, rel=0.001)
    assert without.ledgers[0].bytes_of("weights") - plan.ledgers[0].bytes_of("weights") == 10 << 30


@pytest.mark.parametrize(("version", "moved"), [("0.11.0", 0), ("0.16.0", 0), ("0.17.1", 15 << 30)])
def test_weights_that_kernels_pack_anew_come_back_to_the_device(version: str, moved: int) -> None:
    """jomcgi/homelab, 8d16859: 0.11 loads 16.89 GiB of this model in spite of 15 GiB of cpu_offload_gb."""
    asked = {"engine": "vllm", "engine_version": version, "device": "rtx-4090", "max_model_len": 8192, "context": 8192}
    model = "cpatonn/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit"
    plan, without = (planned(model, engine_option=options, **asked) for options in ({"cpu_offload_gb": "15"}, {}))
    held, whole = (one.ledgers[0].bytes_of("weights") for one in (plan, without))
    assert whole - held == pytest.approx(moved, abs=1 << 28)
    assert whole == pytest.approx(16.89 * 2**30, rel=0.005)


@pytest.mark.parametrize(("version", "back"), [("0.10.2", 10), ("0.32", 24)])
def test_shared_memory_of_vllms_workers(version: str, back: int) -> None:
    # shm_broadcast.py: 10 messages of 16 MiB with a byte for the writer and one for each of 4 readers, and from each worker 10 of its own
    mib = 1 << 20
    assert host(ask("vllm", engine_version=version))["/dev/shm"] == 10 * (16 * mib + 5) + 4 * 10 * (back * mib + 2)
    assert "/dev/shm" not in host(planned("qwen/qwen3-8b", engine="vllm", device="h100", context=8192))


def test_swap_space_is_v0s() -> None:
    assert host(ask("vllm", engine_version="0.6.6"))["swap space"] == 4 * (4 << 30)
    assert "swap space" not in host(ask("vllm"))


def test_the_hierarchical_cache_of_sglang() -> None:
    on = {"enable_hierarchical_cache": "true"}
    plan = ask("sglang", engine_option=on)
    tokens, token = plan.capacity.tokens, 80 * 2 * 2 * 128 * 2  # of a rank: 80 layers, K and V of 2 heads of 128 in 2 bytes
    assert plan.capacity.block_tokens == 1
    assert host(plan)["KV cache offloaded"] == 4 * (2 * tokens + 1) * token  # pool_host/base.py: a page more
    by_size = ask("sglang", engine_option=on | {"hicache_size": "30"})
    assert host(by_size)["KV cache offloaded"] == 4 * (30 * 10**9 // token + 1) * token
    assert not host(ask("sglang"))


def test_tensorrt_llms_tiers() -> None:
    plan = ask("tensorrt-llm", engine_option={"host_cache_size": "20GiB"}, lora="16x4")
    assert host(plan) == {"KV cache offloaded": 4 * (20 << 30), "LoRA host cache": 4 << 30}


def test_too_little_host_memory_is_a_risk() -> None:
    plan = ask("vllm", engine_option={"kv_offloading_size": "64"}, host_memory="32GiB")
    assert plan.fits
    assert "of host memory" in (plan.outcome.risk or "")
