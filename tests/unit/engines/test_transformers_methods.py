"""What transformers unpacks as it loads, and what it has no quantizer for: quantizers/*.py of the wheels 4.57.6, 5.0 and 5.14 to 5.24."""

from __future__ import annotations

import pytest

import kvplan

LLAMA = "meta-llama/llama-3.1-8b"
#: 32 layers of three matrices of 4,096 x 14,336, in two bytes.
LLAMA_MLP = 32 * 3 * 4096 * 14336 * 2
#: 24 layers of 32 experts: 2,880 x 5,760 and 2,880 x 2,880, in two bytes.
GPT_OSS_EXPERTS = 24 * 32 * (2880 * 5760 + 2880 * 2880) * 2


def _line(plan: kvplan.Plan, name: str) -> int:
    return next(entry.bytes for entry in plan.ledgers[0].entries if entry.name == f"weights: {name}")


@pytest.mark.parametrize(
    ("device", "release", "format_"),
    [("rtx-3090", "5.24", "fp8_block128"), ("apple-m3-max-64gb", "5.24", "fp8"), ("rtx-4090", "5.16", "q4_k_m"), ("h100", "4.57", "q8_0")],
)
def test_unpacked_weights_are_counted_in_the_compute_type(device: str, release: str, format_: str) -> None:
    plan = kvplan.estimate(LLAMA, engine="transformers", engine_version=release, device=device, weight_dtype=format_, context=8192)
    assert _line(plan, "mlp") == LLAMA_MLP
    assert any("unpacks" in note for note in plan.model.notes)


def test_mxfp4_has_no_kernels_on_a_mac() -> None:
    """validate_environment: neither CUDA, XPU nor CPU, `we will default to dequantizing the model to bf16`."""
    plan = kvplan.estimate("openai/gpt-oss-20b", engine="transformers", device="apple-m3-max-128gb", context=8192)
    assert _line(plan, "experts") == GPT_OSS_EXPERTS


@pytest.mark.parametrize(("device", "format_"), [("rtx-4090", "fp8_block128"), ("mi300x", "fp8_block128"), ("rtx-3090", "awq")])
def test_what_the_device_takes_stays_packed(device: str, format_: str) -> None:
    plan = kvplan.estimate(LLAMA, engine="transformers", device=device, weight_dtype=format_, context=8192)
    assert _line(plan, "mlp") < LLAMA_MLP * 3 // 4


def test_before_5_0_fp8_stops_on_older_cores() -> None:
    plan = kvplan.estimate(
        LLAMA, engine="transformers", engine_version="4.57", device="rtx-3090", weight_dtype="fp8_block128", context=8192
    )
    assert not plan.starts
    assert "compute capability >= 8.9" in plan.verdict


def test_gguf_stays_packed_only_with_a_kernel() -> None:
    plan = kvplan.estimate(LLAMA, engine="transformers", device="rtx-4090", weight_dtype="q4_k_m", context=8192)
    assert plan.certainty == "too close to call"


@pytest.mark.parametrize("format_", ["exl3_4bpw", "affine4_g64"])
def test_a_format_without_a_quantizer_is_no_start(format_: str) -> None:
    plan = kvplan.estimate(LLAMA, engine="transformers", device="rtx-4090", weight_dtype=format_, context=8192)
    assert not plan.starts
