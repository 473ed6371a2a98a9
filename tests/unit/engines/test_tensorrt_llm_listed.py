"""What TensorRT-LLM's PyTorch backend is known to run: its index of models, its table of hardware, the formats that it keeps a cache in."""

from __future__ import annotations

import pytest

import kvplan


def _plan(model: str, device: str, **more: object) -> kvplan.Plan:
    return kvplan.estimate(model, device=device, engine="tensorrt-llm", context="4k" if "8b" in model else None, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kv_dtype", "starts"), [("int8", False), ("fp8", True), ("bf16", True), ("f16", False)])
def test_formats_of_the_cache(kv_dtype: str, starts: bool) -> None:
    """pyexecutor/model_loader.py _VALID_KV_CACHE_DTYPES: fp8, nvfp4, auto; auto is the type that the model computes in, here bf16."""
    plan = _plan("meta-llama/llama-3.1-8b", "h100", kv_dtype=kv_dtype)
    assert plan.starts is starts
    assert ("Overriding KV cache quantization with an invalid type" in plan.verdict) is not starts


@pytest.mark.parametrize(
    ("device", "asked", "close"),
    [
        ("a100-80gb", {"weight_dtype": "fp8"}, True), ("l40s", {"weight_dtype": "fp8"}, False), ("h100", {"weight_dtype": "nvfp4"}, True),
        ("b200", {"weight_dtype": "nvfp4"}, False), ("h100", {"kv_dtype": "nvfp4"}, True), ("a100-80gb", {"kv_dtype": "fp8"}, False),
    ],
)  # fmt: skip
def test_its_table_of_hardware(device: str, asked: dict[str, str], close: bool) -> None:
    """docs/source/features/quantization.md: FP8 not on Ampere, an FP8 cache there too, NVFP4 on Blackwell alone."""
    assert (_plan("meta-llama/llama-3.1-8b", device, **asked).certainty == "too close to call") is close


@pytest.mark.parametrize(("model", "close"), [("google/gemma-3n-e4b", True), ("mosaicml/mpt-7b", True), ("google-t5/t5-small", False)])
def test_its_index_of_models(model: str, close: bool) -> None:
    """_torch/models/_arch_index.py MODEL_ARCH_TO_MODULE."""
    assert (_plan(model, "h200").certainty == "too close to call") is close
