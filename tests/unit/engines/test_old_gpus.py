"""GPUs that an engine's published builds have no kernels for: a start there is refused or too close to call, never a yes."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from tests.conftest import planned


def asked(engine: str, device: str, **question: Any) -> kvplan.Plan:
    return planned("qwen/qwen2.5-1.5b", engine=engine, device=device, dtype="f16", context=2048, **question)


@pytest.mark.parametrize(
    ("engine", "version", "device", "starts"),
    [
        ("vllm", None, "p100-16gb", False),  # vllm-project/vllm issue 3785: no kernel image, P100; 629 of one user: V100 works, P100 fails
        ("vllm", "0.9.1", "gtx-1060-6gb", False),  # issue 19542: 1080 Ti (6.1), pip-installed 0.9.1
        ("vllm", "0.11.0", "v100-32gb", True),  # issue 963: 7.0 and above
        ("tensorrt-llm", "0.15", "v100-32gb", False),  # NVIDIA/TensorRT-LLM issue 2400: SM 70 is not supported by this TensorRT release
        ("tensorrt-llm", "0.12", "v100-32gb", True),
        ("lmdeploy", "0.6.1", "p100-16gb", False),  # InternLM/lmdeploy issues 2322 and 2660
        ("lmdeploy", None, "v100-32gb", True),
        ("exllamav3", None, "t4", False),  # turboderp-org/exllamav3 issue 14: cp.async requires sm_80 or higher, T4
        ("exllamav3", None, "rtx-3090", True),
        ("ollama", None, "p100-16gb", True),  # docs/gpu.md: 5.0 and above
    ],
)
def test_published_builds(engine: str, version: str | None, device: str, starts: bool) -> None:
    plan = asked(engine, device, engine_version=version)
    assert plan.starts is starts
    if not starts:
        assert "no kernel image is available" in plan.verdict


@pytest.mark.parametrize(
    ("engine", "version", "device", "least"),
    [
        ("vllm", "0.20", "v100-32gb", "7.5"),  # vllm-project/vllm pull request 39878: torch of CUDA 13 lists 7.5 and above, V100
        ("tensorrt-llm", "0.15", "t4", "8.0"),  # NVIDIA/TensorRT-LLM issue 2620: not supported since 0.14; issue 2400: the wheel runs on it
    ],
)
def test_default_builds_leave_a_start_open(engine: str, version: str, device: str, least: str) -> None:
    plan = asked(engine, device, engine_version=version)
    assert plan.certainty == "too close to call"
    assert any(f"compute capability {least} and above" in note for note in plan.model.notes)


@pytest.mark.parametrize(
    ("version", "device", "named"),
    [  # PYTORCH_ROCM_ARCH of docker/Dockerfile.rocm_base, v0.12.0: gfx90a to gfx1201, neither gfx906 nor gfx1030
        (None, "mi50-32gb", "gfx906"),
        ("0.12", "radeon-pro-w6800", "gfx1030"),
        ("0.12", "rx-7900-xtx", ""),
        ("0.12", "mi210", ""),
        ("0.10.0", "mi50-32gb", ""),  # not read
    ],
)
def test_amd_gpus_that_the_default_build_leaves_out_are_left_open(version: str | None, device: str, named: str) -> None:
    plan = asked("vllm", device, engine_version=version, memory_fraction=0.6)
    notes = [note for note in plan.model.notes if "default build for ROCm" in note]
    assert plan.starts
    assert len(notes) == bool(named)
    assert all(note.endswith(f"this GPU is {named}") for note in notes)


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_llama_cpp_and_ollama_run_on_radeon_cards_that_vllm_leaves_out(engine: str) -> None:
    plan = planned("llama-3.1-8b", engine=engine, device="rx-6800", weight_dtype="q4_k_m", context=2048)
    assert plan.starts
    assert "ROCm" not in " ".join(plan.model.notes)


def test_builds_for_processors_have_no_gpu() -> None:
    plan = planned("qwen/qwen2.5-1.5b", device="p100-16gb", dtype="f16", context=2048, engine_option={"platform": "cpu"})
    assert "no kernel image" not in plan.verdict


@pytest.mark.parametrize(
    ("device", "question", "said"),
    [
        # v1/attention/backends/triton_attn.py of 0.32: has_device_capability(89); flash_attn.py and flashinfer.py: 8.0 and above
        ("t4", {"kv_dtype": "fp8"}, "FP8 KV cache is not supported by the Triton attention backend"),
        ("v100-32gb", {"kv_dtype": "fp8_e5m2"}, "Re-run with --kv-cache-dtype float16"),
        ("a100-80gb", {"kv_dtype": "fp8", "engine_option": {"attention_backend": "TRITON_ATTN"}}, "native FP8 (fp8e4nv) requires SM89+"),
        # vllm-project/vllm issue 26431 (0.11.0, RTX 3090)
        ("v100-32gb", {"kv_dtype": "fp8", "engine_version": "0.19"}, "type fp8e4nv not supported in this architecture"),
        # v1/attention/backends/flashinfer.py of 0.32 _nvfp4_kv_on_fa2: families 8, 9 and 12, else 10
        ("t4", {"kv_dtype": "nvfp4"}, "No valid attention backend found"),
        ("a100-80gb", {"kv_dtype": "fp8"}, ""),
        ("l4", {"kv_dtype": "fp8", "engine_option": {"attention_backend": "TRITON_ATTN"}}, ""),
        ("rtx-5090", {"kv_dtype": "nvfp4"}, ""),
    ],
)
def test_cache_formats_that_vllms_kernels_do_not_read(device: str, question: dict[str, Any], said: str) -> None:
    plan = asked("vllm", device, **question)
    assert plan.starts is not bool(said)
    assert said in plan.verdict
