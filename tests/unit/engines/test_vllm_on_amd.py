"""Formats of the cache on AMD's GPUs, in 32 bits, and with searched scales: supported_kv_cache_dtypes of vLLM 0.33's backends."""

from __future__ import annotations

import pytest

import kvplan

AMD = "No valid attention backend found for rocm"


@pytest.mark.parametrize(
    ("kv_dtype", "refused"),
    [("auto", False), ("fp8", False), ("fp8_e5m2", False), ("int8_per_token_head", False), ("turboquant_k8v4", False),
     ("nvfp4", True), ("fp8_inc", True)],
)  # fmt: skip
def test_plain_attention(kv_dtype: str, refused: bool) -> None:
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", device="mi300x", engine_version="0.33", context="8k", kv_dtype=kv_dtype)
    assert (AMD in plan.verdict, plan.starts) == (refused, not refused)


@pytest.mark.parametrize("model", ["deepseek-ai/deepseek-v3", "deepseek-ai/deepseek-v3.2"])
@pytest.mark.parametrize(("kv_dtype", "refused"), [("fp8", False), ("fp8_ds_mla", True), ("turboquant_k8v4", True)])
def test_latent_attention(model: str, kv_dtype: str, refused: bool) -> None:
    plan = kvplan.estimate(model, device="mi300x", tp=8, engine_version="0.33", context="8k", kv_dtype=kv_dtype)
    assert (AMD in plan.verdict, plan.starts) == (refused, not refused)


@pytest.mark.parametrize(("device", "starts"), [("h100", False), ("rtx-5090", False), ("b200", True)])
def test_searched_scales_are_written_on_blackwells_boards_alone(device: str, starts: bool) -> None:
    """flashinfer.py supports_kv_cache_dtype: on 8.x, 9.0 and 12.x nvfp4 alone."""
    ask = {"device": device, "engine_version": "0.33", "context": "8k"}
    assert kvplan.estimate("meta-llama/llama-3.1-8b", kv_dtype="nvfp4_4over6", **ask).starts is starts
    assert kvplan.estimate("meta-llama/llama-3.1-8b", kv_dtype="nvfp4", **ask).starts is True


def test_a_cache_in_32_bits_is_that_of_a_model_in_32_bits() -> None:
    """config/cache.py CacheDType has no float32."""
    ask = {"device": "h100", "context": "8k", "kv_dtype": "float32"}
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", **ask)
    assert plan.starts is False
    assert "invalid choice: 'float32'" in plan.verdict
    assert kvplan.estimate("meta-llama/llama-3.1-8b", dtype="float32", **ask).starts is True


@pytest.mark.parametrize("format_", ["fp8_ds_mla", "nvfp4_ds_mla"])
def test_rows_that_a_format_does_not_hold_are_refused_at_start(format_: str) -> None:
    """vLLM 0.33: FLASHMLA_SPARSE and its like alone list these (supported_kv_cache_dtypes), and take latent attention alone."""
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", device="h100", context="8k", kv_dtype=format_)
    assert plan.starts is False
    assert "No valid attention backend found for cuda" in plan.verdict


@pytest.mark.parametrize("format_", ["octave_k3v4", "octave_k3v3", "octave_k3v3_compact", "ultraquant_4bit"])
def test_formats_that_are_known_by_name_alone(format_: str) -> None:
    """vLLM 0.33 config/cache.py CacheDType."""
    with pytest.raises(kvplan.KvplanError, match=f"{format_} is not modelled"):
        kvplan.estimate("meta-llama/llama-3.1-8b", device="mi300x", context="8k", kv_dtype=format_)
