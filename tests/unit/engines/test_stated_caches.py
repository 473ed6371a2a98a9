"""Which releases follow the cache format that a checkpoint states, and uploads that state one.

vLLM: utils/torch_utils.py resolve_kv_cache_dtype_string is in the sdists of 0.14.0 on, for ModelOpt's checkpoints; `kv_cache_scheme` of
compressed-tensors in attention/layer.py of the wheel of 0.15.0 and later. SGLang: model_runner.py asks for `kv_cache_quant_algo` from
0.5.3 on.
Public starts: nvidia/Llama-3.1-8B-Instruct-NVFP4 has 7.33 GiB for 60,064 tokens under vLLM 0.13.0 (131,035 bytes each, 2 x 32 layers x 8
heads x 128 in 16 bits are 131,072) and 8.01 GiB for 131,264 under TensorRT-LLM 1.3.0rc15 (half of that).
"""

from __future__ import annotations

import pytest

from kvplan import api

LLAMA = "nvidia/Llama-3.1-8B-Instruct-NVFP4"
#: 2 x 32 layers x 8 heads x 128.
ELEMENTS = 65_536


def bytes_per_token(model: str, engine: str, version: str, **question: str) -> int:
    return api.estimate(model, engine=engine, engine_version=version, context=4096, advise=False, **question).cache.bytes_per_token


@pytest.mark.parametrize(("model", "engine", "version", "each"), [
    (LLAMA, "vllm", "0.13.0", 2), (LLAMA, "vllm", "0.14.0", 1), (LLAMA, "vllm", "0.33.0", 1),
    (LLAMA, "sglang", "0.5.2", 2), (LLAMA, "sglang", "0.5.3", 1), (LLAMA, "tensorrt-llm", "1.3.0rc15", 1),
])  # fmt: skip
def test_modelopt(model: str, engine: str, version: str, each: int) -> None:
    assert bytes_per_token(model, engine, version) == ELEMENTS * each


def test_the_models_own_config() -> None:
    """kv_cache_quant_algo of nvidia/Qwen3-235B-A22B-NVFP4 is FP8: 2 x 94 layers x 4 heads x 128."""
    own = "nvidia/qwen3-235b-a22b-nvfp4"
    assert [bytes_per_token(own, "vllm", version) for version in ("0.13.0", "0.14.0")] == [192_512, 96_256]
    assert bytes_per_token(own, "vllm", "0.13.0", kv_dtype="fp8") == 96_256


def test_compressed_tensors() -> None:
    """poolside/Laguna-XS.2-FP8 has a kv_cache_scheme of 8 bits: followed by vLLM from 0.15 on, by no SGLang."""
    plans = [api.estimate("poolside/laguna-xs.2-fp8", engine=engine, engine_version=version, context=4096, advise=False)
             for engine, version in (("vllm", "0.25.0"), ("sglang", "0.5.23"))]  # fmt: skip
    in_vllm, in_sglang = (plan.cache.bytes_per_token for plan in plans)
    assert in_sglang == 2 * in_vllm
    before = api.estimate("poolside/laguna-xs.2-fp8", engine="vllm", engine_version="0.14.0", context=4096, advise=False)
    assert before.cache.bytes_per_token == 2 * in_vllm
    assert any("SGLang 0.5.23 does not follow the fp8_e4m3" in note for note in plans[1].model.notes)


@pytest.mark.parametrize(("name", "format_"), [
    ("unsloth/Qwen3.8-27B-NVFP4", "fp8_e4m3"), ("unsloth/gemma-4-12b-it-NVFP4", "fp8_e4m3"), ("RedHatAI/Qwen3.6-35B-A3B-NVFP4", "bf16"),
])  # fmt: skip
def test_uploads_by_name(name: str, format_: str) -> None:
    """Public starts of vLLM 0.25 to 0.27 have caches in FP8 from unsloth's uploads, in 16 bits from Red Hat's."""
    plan = api.estimate(name, engine="vllm", engine_version="0.27.1", context=4096, advise=False)
    tensors = [tensor for row in plan.as_dict()["cache"]["layers"] for tensor in row["tensors"] if tensor["tokens_per_state"] == 1]
    assert {tensor["dtype"] for tensor in tensors} == {format_}
