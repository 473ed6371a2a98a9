"""FlashInfer's workspace in what vLLM's graphs are estimated at: as start-up logs print it, and where other backends run."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.units import GIB, MIB
from tests.conftest import planned


def graphs(model: str, **question: Any) -> float:
    """GiB of the line "CUDA graphs", charged or beside."""
    (ledger, *_) = planned(model, engine="vllm", **question).ledgers
    return next(e.bytes for e in (*ledger.entries, *ledger.outside) if e.name == "CUDA graphs") / GIB


@pytest.mark.parametrize(
    ("model", "question", "logged"),
    [
        # RedHatAI/Qwen3.6-35B-A3B-NVFP4 in 0.20.0: two sizes in pieces, one whole (start_ups.jsonl, wg-qwen36-35b-nvfp4-5090)
        ("RedHatAI/Qwen3.6-35B-A3B-NVFP4", {"engine_version": "0.20.0", "device": "rtx-5090", "max_num_seqs": 1}, 0.39),
        # a build of 2026-07: PIECEWISE=2, FULL=1 (neko-legends/nvidia-local-llm-profiles)
        ("nvidia/Qwen3.6-27B-NVFP4", {"engine_version": "0.24.0", "device": "rtx-5090", "max_num_seqs": 1}, 0.39),
        # PIECEWISE=51, FULL=35 (yrdeboer/vllm-blackwell-showcase, startup_log.txt)
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int4", {"engine_version": "0.22.0", "device": "rtx-5090-laptop", "dtype": "bf16"}, 0.49),
    ],
)
def test_as_logged(model: str, question: dict[str, Any], logged: float) -> None:
    assert graphs(model, kv_dtype="fp8", max_model_len=4096, **question) == pytest.approx(logged, abs=0.025)


def test_two_3090_with_a_cache_in_e5m2() -> None:
    """noonghunna/club-3090#104: 0.88 of the card is as much as 0.8592 without graphs, 0.49 GiB of 23.56."""
    asked = {"engine_version": "0.21.0", "device": "rtx-3090", "tp": 2, "max_model_len": 32768}
    found = graphs("qwen/qwen3.6-27b", kv_dtype="fp8_e5m2", weight_dtype="gptq_g128", **asked)
    assert found == pytest.approx((0.88 - 0.8592) * 23.56, abs=0.03)


def test_where_another_backend_runs() -> None:
    """FlashAttention takes an FP8 cache on Hopper alone, 16 bits anywhere but first on Blackwell's boards; Triton's was asked for."""
    asked = {"engine_version": "0.24.0", "max_num_seqs": 1, "max_model_len": 4096, "engine_option": {"v2_model_runner": "false"}}
    triton = asked | {"engine_option": {"v2_model_runner": "false", "attention_backend": "TRITON_ATTN"}}
    least = 394 * MIB / GIB
    assert graphs("qwen/qwen3-8b", device="rtx-5090", kv_dtype="fp8", **asked) > least
    assert graphs("qwen/qwen3-8b", device="b200", **asked) > least
    assert graphs("qwen/qwen3-8b", device="h100-80gb", kv_dtype="fp8", **asked) < least
    assert graphs("qwen/qwen3-8b", device="rtx-5090", **asked) < least
    assert graphs("qwen/qwen3-8b", device="rtx-5090", kv_dtype="fp8", **triton) < least
    assert graphs("openai/gpt-oss-20b", device="rtx-5090", kv_dtype="fp8", **asked) < least


def test_from_0_26_on_a_long_step_needs_more() -> None:
    """16 bytes of each query value: 8,192 tokens of 32 heads of 128 are 512 MiB (FLASHINFER_PREFILL_WORKSPACE_BYTES_PER_ELEM)."""
    asked = {"device": "rtx-5090", "kv_dtype": "fp8", "max_num_seqs": 1, "max_model_len": 8192, "max_num_batched_tokens": 8192}
    option = {"v2_model_runner": "false"}
    old, new = (graphs("qwen/qwen3-8b", engine_version=version, engine_option=option, **asked) for version in ("0.25.0", "0.26.0"))
    assert new - old == pytest.approx((512 - 394) / 1024, abs=0.001)
