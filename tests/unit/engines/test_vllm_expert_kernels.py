"""--moe-backend and GPUs: vLLM 0.33 fused_moe/oracle/*.py, and _supports_current_device of the experts' kernels that they name."""

from __future__ import annotations

import pytest

from tests.conftest import planned

PLAIN, FP8, NVFP4 = "qwen/qwen3-30b-a3b", "qwen/qwen3-30b-a3b-fp8", "redhatai/qwen3.6-35b-a3b-nvfp4"


@pytest.mark.parametrize(
    ("model", "backend", "device", "platform"),
    [
        (PLAIN, "flashinfer_cutlass", "mi300x", "rocm"),  # flashinfer_cutlass_moe.py: p.is_cuda() and 9.0, 10.x, 12.x
        (PLAIN, "flashinfer_cutlass", "h100", ""),
        (PLAIN, "flashinfer_cutlass", "a100-80gb", "cuda"),
        (PLAIN, "triton", "mi300x", ""),
        (PLAIN, "aiter", "mi300x", ""),
        (PLAIN, "aiter", "h100", "cuda"),
        (PLAIN, "marlin", "mi300x", ""),  # unquantized.py: as auto
        (FP8, "flashinfer_trtllm", "mi300x", "rocm"),  # trtllm_fp8_moe.py: p.is_cuda() and 10.x
        (FP8, "flashinfer_trtllm", "h100", "cuda"),
        (FP8, "flashinfer_trtllm", "b200", ""),
        (FP8, "marlin", "mi300x", "rocm"),  # marlin_moe.py: p.is_cuda() and 7.5 on
        (FP8, "marlin", "a100-80gb", ""),
        (FP8, "deep_gemm", "a100-80gb", "cuda"),  # platforms/cuda.py support_deep_gemm: 9.0, 10.x, 12.x
        (NVFP4, "cutlass", "a100-80gb", "cuda"),  # cutlass_moe.py CutlassExpertsFp4: 10.x, 11.x, 12.x
        (NVFP4, "cutlass", "b200", ""),
        (NVFP4, "flashinfer_cutedsl", "h100", "cuda"),  # flashinfer_cutedsl_moe.py: 10.x
        (NVFP4, "marlin", "a100-80gb", ""),
    ],
)
def test_kernels_of_other_gpus(model: str, backend: str, device: str, platform: str) -> None:
    plan = planned(model, engine="vllm", engine_version="0.33", device=device, context=4096, engine_option={"moe_backend": backend})
    assert (f"kernel does not support current device {platform}." in plan.verdict) == bool(platform), plan.verdict
    assert not platform or plan.starts is False
