"""Settings that move memory beside a model: each changes a line, or is said not to be modelled and leaves the verdict open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-8b"
VISION = "qwen/qwen2.5-vl-7b"


def line(name: str, model: str = LLAMA, **question: Any) -> int:
    """Bytes of a line of the first rank under vLLM on an H100, lines outside its budget among them."""
    plan = planned(model, engine="vllm", context=4096, **{"device": "h100", **question})
    return sum(e.bytes for ledger in plan.ledgers[:1] for e in (*ledger.entries, *ledger.outside) if e.name == name)


def test_fully_sharded_adapters_have_no_copies() -> None:
    """Llama 3.1 8B at tp 2, rank 16, 4 slots: column-parallel first factors halved by rank, row-parallel second ones by outputs."""
    column = (2048 + 2048) + 2 * (2048 + 512) + 2 * (2048 + 7168)
    row = (2048 + 2048) + (7168 + 2048)
    held = line("LoRA slots", lora="16x4", tp=2, engine_option={"fully_sharded_loras": "true"})
    assert held == 4 * 16 * 32 * (column + row) * 2


def test_experts_with_outer_factors_in_common() -> None:
    """Qwen3 30B-A3B: 48 layers of 128 experts, 2,048 x 768; gate and up share their inputs, down its outputs."""
    shared = line("LoRA slots of experts", "qwen/qwen3-30b-a3b", lora="16x4", engine_option={"enable_moe_shared_loras": "true"})
    assert shared == 4 * 16 * 48 * (2 * (2048 + 128 * 768) + (128 * 768 + 2048)) * 2


def test_graphs_for_each_power_of_two_of_active_adapters() -> None:
    """Of 8 adapters: 1, 2, 4, 8 and 9 instead of 9 alone; vLLM logged 1.62 GiB without and 2.38 GiB with one such set (outside.py)."""
    plain, one, many = (
        line("CUDA graphs", engine_version="0.19", **more)
        for more in ({}, {"lora": "16x8"}, {"lora": "16x8", "engine_option": {"specialize_active_lora": "true"}})
    )
    assert one / plain == pytest.approx(2.38 / 1.62, rel=1e-6)
    assert many - plain == pytest.approx(5 * (one - plain), rel=1e-6)


def test_encoders_that_are_not_profiled_stand_beside_the_cache() -> None:
    skipped = {"skip_mm_profiling": "true"}
    plans = [planned(VISION, engine="vllm", device="l40s", context=32768, engine_option=o) for o in ({}, skipped)]
    assert all(plan.capacity for plan in plans)
    assert plans[1].capacity.kv_bytes > plans[0].capacity.kv_bytes + (2 << 30)  # type: ignore[union-attr]
    assert line("encoders, not profiled", VISION, engine_option=skipped) > 2 << 30
    assert line("encoders, not profiled", VISION) == line("encoders, not profiled", engine_option=skipped) == 0


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("vllm serve {} --all2all-backend deepep_low_latency", "fits"),  # no experts, one rank: nothing is exchanged
        ("vllm serve {} --all2all-backend allgather_reducescatter", "fits"),
        ("vllm serve {} --enable-lora --enable-tower-connector-lora", "unknown"),
        ("vllm serve {} --prefill-context-parallel-size 2", "refuses"),  # plain attention has no kernel for it
        ("vllm serve {} --engram-config x", "refuses"),  # no JSON
        ("python -m sglang.launch_server --model-path {} --attn-cp-size 2", "refuses"),
        ("python -m sglang.launch_server --model-path {} --tp 2 --dwdp-size 2", "unknown"),
        ("vllm serve {} --no-such-option 3", "warned"),
        ("python -m sglang.launch_server --model-path {} --no-such-option 3", "warned"),
        ("trtllm-serve serve {} --no-such-option 3", "warned"),
        ("llama-server -hf {}-GGUF:Q4_K_M --no-such-option 3", "warned"),
        ("llama-server -hf {}-GGUF:Q4_K_M -c 8192 --kv-unified-per-slot 4096", "fits"),  # a slot of 4,096 tokens, as it says
    ],
)
def test_what_a_command_says_is_never_passed_over(command: str, status: str, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(command.format("meta-llama/Llama-3.1-8B") + "\n")
    verdict = kvplan.check(script, device="h100")[0]
    if status == "warned":
        assert any(f.severity in ("warning", "error") for f in verdict.findings)
    else:
        assert verdict.status == status


@pytest.mark.parametrize(("release", "given", "gib"), [("0.5.9", {}, 4), ("0.5.23", {"symm_mem_prealloc_gb": "8"}, 8), ("0.5.6", {}, 0)])
def test_symmetric_memory_is_set_aside_beside_the_fraction(release: str, given: dict[str, str], gib: int) -> None:
    """sglang 0.5.9 server_args.py sets SGLANG_SYMM_MEM_PREALLOC_GB_SIZE to 4 under --enable-symm-mem; 0.5.8 has no such variable."""
    asked = {"enable_symm_mem": "true", **given}
    plan = planned("meta-llama/llama-3.1-70b", engine="sglang", engine_version=release, device="h100", tp=4, engine_option=asked)
    held = [entry for entry in plan.ledgers[0].outside if entry.name == "symmetric memory"]
    assert sum(entry.bytes for entry in held) == gib << 30
    assert all(entry.held_in("warm up") and not entry.held_in("allocate") for entry in held)


@pytest.mark.parametrize(
    ("release", "steps", "rows"), [("0.5.9", "eagle:3:x", 3), ("0.5.23", "ngram:8", 8), ("0.5.9", None, 0), ("0.4.10", "eagle:3:x", 0)]
)
def test_logits_of_drafted_tokens_stand_beside_the_fraction(release: str, steps: str | None, rows: int) -> None:
    """32 sequences of the largest graph x rows x Llama-3.1's 128,256 words x 4 bytes: sglang 0.5.9 input_buffers.py; 0.4.10 has none."""
    asked = {"cuda_graph_max_bs": "32"}
    plan = planned(LLAMA, engine="sglang", engine_version=release, device="h100", context=4096, speculative=steps, engine_option=asked)
    held = [entry for entry in plan.ledgers[0].outside if entry.name == "logits to verify"]
    assert sum(entry.bytes for entry in held) == 32 * rows * 128256 * 4
