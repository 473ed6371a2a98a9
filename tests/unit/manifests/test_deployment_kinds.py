"""Every kind of file that names an engine, one small file each in tests/manifests/kinds: what a person reads in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.manifests import Found, read_file

FILES = Path(__file__).parents[2] / "manifests" / "kinds"


def of(found: Found) -> dict[str, Any]:
    return {"engine": found.engine, "model": found.model, **found.question}


#: File -> what is known of each engine; `open`: what must be given; "" for an engine that is not modelled.
TABLE: dict[str, tuple[dict[str, Any], ...]] = {
    "skypilot.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "tp": 8, "pp": 2, "max_model_len": 8192, "device": "l4", "n_devices": 16},
    ),
    "skypilot-choices.yaml": ({"engine": "vllm", "model": "Qwen/Qwen3-32B", "open": {"device", "tp"}},),
    "service.dstack.yml": (
        {"engine": "sglang", "model": "Qwen/Qwen3-8B", "tp": 2, "max_model_len": 8192, "device": "h100-80gb", "n_devices": 2},
    ),
    "kubeai.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 4096, "max_num_seqs": 8, "device": "l4", "n_devices": 1},
        {"engine": "ollama", "model": "gemma3:27b", "device": "l40s", "n_devices": 1},
        {"engine": "", "says": "FasterWhisper"},
    ),
    "kaito.yaml": (
        {"engine": "vllm", "model": "phi-4", "max_model_len": 8192, "memory_fraction": 0.9, "device": "a100-pcie-80gb", "open": {"tp"}},
        {"engine": "", "says": "preset phi-4"},
    ),
    "bento.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "tp": 2, "max_model_len": 8192, "device": "h100-80gb", "n_devices": 2},
    ),
    "srt-slurm.yaml": (
        {"engine": "sglang", "model": "Qwen/Qwen3-32B", "tp": 8, "memory_fraction": 0.8, "device": "h100-80gb", "n_devices": 8},
        {"engine": "sglang", "model": "Qwen/Qwen3-32B", "tp": 16, "memory_fraction": 0.75, "device": "h100-80gb", "n_devices": 16},
    ),
    "srt-slurm-2.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "tp": 2, "max_model_len": 4096, "device": "h200", "n_devices": 2},
    ),
    "truss.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "tp": 2, "max_model_len": 8192, "device": "a100-80gb", "n_devices": 2},
    ),
    "truss-trtllm.yaml": (
        {"engine": "tensorrt-llm", "model": "Qwen/Qwen3-32B", "tp": 2, "max_model_len": 4096, "kv_dtype": "fp8",
         "memory_fraction": 0.8, "device": "h100-80gb", "n_devices": 2},
    ),
    "ome.yaml": ({"engine": "sglang", "tp": 4, "n_devices": 4, "open": {"model", "device"}},),
    "llm-d-scenario.sh": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "max_model_len": 16000, "block_size": 64, "device": "h100-80gb", "n_devices": 1,
         "open": {"memory_fraction"}},
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "max_model_len": 16000, "tp": 4, "device": "h100-80gb", "n_devices": 4},
    ),
    "dynamo.yaml": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "tp": 2, "n_devices": 2, "open": {"device"}},),
    "llmisvc-config.yaml": ({"engine": "vllm", "max_model_len": 4096, "n_devices": 1, "open": {"model", "device"}},),
    "ray-own-code.yaml": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "tp": 2, "max_model_len": 4096, "open": {"device"}},),
    "modal_app.py": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "tp": 2, "max_model_len": 8192, "device": "h100-80gb", "n_devices": 2},
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "memory_fraction": 0.8, "open": {"tp", "device"}},
    ),
    "compose-others.yaml": (
        {"engine": "", "says": "text-generation-inference (TGI)"},
        {"engine": "", "says": "NVIDIA NIM"},
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 4096},
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "memory_fraction": 0.5},
    ),
    "values.yaml": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 4096, "device": "l4", "n_devices": 1},),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_kind(name: str) -> None:
    found = read_file(str(FILES / name))
    assert len(found) == len(TABLE[name]), [of(one) for one in found]
    for one, expected in zip(found, TABLE[name], strict=True):
        expected = dict(expected)
        unresolved = {u.what for u in one.unresolved}
        assert expected.pop("open", set()) <= unresolved
        if says := expected.pop("says", ""):
            assert f"{says}" in one.unresolved[0].why
            assert "is not modelled" in one.unresolved[0].why
        assert expected.items() <= of(one).items(), of(one)


def test_releases() -> None:
    """An installed release and a public image's tag are releases; a private image's tag is none."""
    assert read_file(str(FILES / "skypilot.yaml"))[0].engine_version == "0.11.0"
    assert read_file(str(FILES / "truss.yaml"))[0].engine_version == "0.11.0"
    assert read_file(str(FILES / "compose-others.yaml"))[2].engine_version is None
