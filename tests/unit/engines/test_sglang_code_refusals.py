"""What stops SGLang as a model's code and its weights' method are looked for, and what it picks on AMD GPUs.

Classes: what model_loader/utils.py resolve_transformers_arch of 0.5.8 (transformers 4.57.1) and 0.5.23 (5.19.0) said of them. AMD GPUs:
what 0.5.5, 0.5.10, 0.5.19 and 0.5.23 made of command lines as on an MI300X (rows/README.md).
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import planned
from tests.unit.engines.test_sglang_refusals import stopped

NO_CODE = "has no SGlang implementation and the Transformers implementation is not compatible with SGLang."
SHARE = "the AITER attention backend scales mem_fraction_static"


@pytest.mark.parametrize(
    ("model", "version", "stops"),
    [
        ("bigscience/bloom-7b1", "0.5.23", True),
        ("tiiuae/falcon-7b", "0.5.8", True),
        ("ai21labs/jamba-v0.1", "0.5.23", True),
        ("ibm-granite/granite-4.0-h-tiny", "0.5.8", True),
        ("ibm-granite/granite-4.0-h-tiny", "0.5.9", False),  # a class of its own
        ("eleutherai/gpt-neox-20b", "0.5.8", False),  # TransformersForCausalLM
    ],
)
def test_classes_that_nothing_runs(model: str, version: str, stops: bool) -> None:
    said = stopped(model, version, context=2048)
    assert (NO_CODE in (said or "")) == stops


@pytest.mark.parametrize(
    ("model", "version", "device", "said"),
    [
        ("nvidia/Qwen3-235B-A22B-NVFP4", "0.5.10", "mi300x", "modelopt_fp4 quantization is currently not supported in ROCm."),
        ("nvidia/Qwen3-235B-A22B-NVFP4", "0.5.8", "mi300x", None),  # petit_nvfp4 takes it
        ("openai/gpt-oss-20b", "0.5.23", "mi300x", "Unknown quantization method: mxfp4. Must be one of"),
        ("openai/gpt-oss-20b", "0.5.23", "mi355x", None),
    ],
)
def test_methods_on_amd(model: str, version: str, device: str, said: str | None) -> None:
    assert stopped(model, version, device=device, tp=8) == said


@pytest.mark.parametrize(
    ("model", "version", "question", "scaled"),
    [
        ("qwen/qwen3-32b", "0.5.23", {}, True),
        ("deepseek-ai/deepseek-v3.1", "0.5.10", {}, True),  # 128 heads over 8 ranks
        ("deepseek-ai/deepseek-v3.1", "0.5.10", {"tp": 4, "memory_fraction": 0.9}, False),  # Triton's kernels: 32 heads
        ("deepseek-ai/deepseek-v3.2", "0.5.10", {}, False),  # its own sparse kernels
        ("qwen/qwen3-32b", "0.5.19", {"engine_option": {"enable_deterministic_inference": "true"}}, False),
        ("qwen/qwen3-32b", "0.5.10", {"engine_option": {"enable_deterministic_inference": "true"}}, True),
    ],
)
def test_whose_fraction_aiter_takes(model: str, version: str, question: dict[str, Any], scaled: bool) -> None:
    plan = planned(model, **{"engine": "sglang", "engine_version": version, "device": "mi300x", "tp": 8, "kv_memory": "40GiB"} | question)
    assert any(SHARE in note for note in plan.model.notes) == scaled


def test_nvidias_backends_on_amd() -> None:
    for backend in ("trtllm_mha", "trtllm_mla"):
        said = stopped("qwen/qwen3-32b", "0.5.23", device="mi300x", engine_option={"attention_backend": backend})
        assert "this GPU has no compute capability" in (said or "")
