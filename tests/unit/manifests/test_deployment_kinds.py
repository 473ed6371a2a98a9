"""Every kind of file that names an engine, one small file each in tests/manifests/kinds: what a person reads in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.manifests import Found, Source, check, read_file
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests" / "kinds"


def of(found: Found) -> dict[str, Any]:
    return {"engine": found.engine, "model": found.model, **found.question}


#: File -> what is known of each engine; `open`: what must be given; "" for an engine that is not modelled.
TABLE: dict[str, tuple[dict[str, Any], ...]] = {
    "blueprint.json": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "tp": 2, "max_model_len": 16_384, "device": "h100-80gb", "n_devices": 2},
    ),
    "model-booster.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "max_num_batched_tokens": 16_384, "enforce_eager": True,
         "n_devices": 1, "open": {"device"}},
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "memory_fraction": 0.8, "n_devices": 2, "open": {"device"}},
    ),
    "dynamo-components.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "n_devices": 1, "open": {"device"}},
    ),
    "dynamo-beside.yaml": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "tp": 2, "n_devices": 2, "open": {"device"}},),
    "compose-toggle.yaml": (  # exec ends the script: its second server is not started
        {"engine": "llama.cpp", "model": "/models/Qwen3-8B-Q4_K_M.gguf", "max_model_len": 32_768, "max_num_seqs": 1, "n_gpu_layers": 99,
         "open": {"device", "model"}},
    ),
    "compose-pulled.yaml": ({"engine": "ollama", "model": "llama3.2", "open": {"device"}},),
    "container-shell.sh": (),
    "tabby.yml": ({"engine": "", "says": "TabbyAPI"},),
    "chosen.yaml.j2": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 16_384, "open": {"device", "template"}},),
    "computed.py": (
        {"engine": "vllm", "model": "Qwen/Qwen3-32B", "tp": 2, "max_model_len": 16_384, "device": "h100-80gb", "n_devices": 2},
    ),
    "pod.py": ({"engine": "sglang", "model": "Qwen/Qwen3-8B", "memory_fraction": 0.8, "device": "a100-80gb", "n_devices": 1},),
    "presets.nix": (
        {"engine": "llama.cpp", "max_model_len": 8192, "kv_dtype": "q8_0", "n_gpu_layers": 999, "open": {"device", "model"}},
        {"engine": "llama.cpp", "max_model_len": 32_768, "kv_dtype": "q8_0", "n_gpu_layers": 999, "open": {"device", "model"}},
    ),
    "gitlab-ci.yml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 16_384, "memory_fraction": 0.9, "open": {"device"}},
    ),
    "workflow.yml": ({"engine": "vllm", "model": "Qwen/Qwen3-14B", "tp": 2, "max_model_len": 8192, "open": {"device"}},),
    "ansible.yml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "memory_fraction": 0.85, "open": {"device"}},
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 4096, "open": {"device"}},
    ),
    "deployment.tf": (
        {
            "engine": "vllm", "model": "mistralai/Mistral-Nemo-Instruct-2407", "tp": 2, "max_model_len": 32_768, "device": "l40s",
            "n_devices": 2,
        },
    ),
    "startup.tf": ({"engine": "vllm", "model": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192, "device": "l4"},),
    "run.ps1": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "open": {"device"}},),
    "serve.bat": (
        {
            "engine": "llama.cpp", "model": r"C:\models\Qwen3-8B-Q4_K_M.gguf", "max_model_len": 32_768, "n_gpu_layers": 99,
            "open": {"device", "model"},
        },
    ),
    "launch.py": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "open": {"device"}},),
    "dynamo-disagg.yaml": (  # the frontend runs no engine; --served-model-name and its like are Dynamo's own
        {"engine": "tensorrt-llm", "model": "Qwen/Qwen3-0.6B", "device": "h200", "n_devices": 1, "open": {"config"}},
        {"engine": "sglang", "model": "Qwen/Qwen3-32B", "tp": 2, "memory_fraction": 0.8, "device": "h200", "n_devices": 2},
    ),
    "argo.yaml": ({"engine": "vllm", "max_model_len": 8192, "device": "l4", "n_devices": 1, "open": {"model"}},),
    "ecs.json": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "n_devices": 1, "open": {"device"}},),
    "task.nomad.hcl": ({"engine": "vllm", "model": "Qwen/Qwen3-8B", "max_model_len": 8192, "n_devices": 1, "open": {"device"}},),
    "nim.yaml": ({"engine": "", "says": "NVIDIA NIM"},),
    "slurm-gres.sh": (  # an A100 of 40 or 80 GB
        {"engine": "vllm", "model": "meta-llama/Llama-3.3-70B-Instruct", "tp": 4, "n_devices": 4, "open": {"device"}},
    ),
    "srun-gres.sh": (
        {"engine": "vllm", "model": "/data/models/Qwen2.5-72B-Instruct", "tp": 8, "n_devices": 8, "open": {"device", "model"}},
    ),
    "modelcar.yaml": (
        {
            "engine": "vllm", "model": "oci://quay.io/redhat-ai-services/modelcar-catalog:granite-3.1-8b-instruct", "device": "t4",
            "n_devices": 1, "open": {"model"},
        },
    ),
    "pod-sees-all.yaml": (
        {"engine": "vllm", "model": "Qwen/Qwen3-8B", "memory_fraction": 0.85, "device": "l40s", "n_devices": 1},
        {"engine": "vllm", "model": "BAAI/bge-m3", "memory_fraction": 0.3, "device": "l40s"},
    ),
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


def test_branches_of_one_service_do_not_share_its_gpu() -> None:
    """One of the two is run: 0.95 + 0.95 of a GPU is no refusal."""
    text = (FILES / "compose-either.yaml").read_text()
    verdicts = check([Source("compose.yaml", text)], planned, device="h100-80gb")
    assert {one.status for one in verdicts} <= {"fits", "unknown"}
    assert not any(finding.rule == "shared-gpu" for one in verdicts for finding in one.findings)


def test_releases() -> None:
    """An installed release and a public image's tag are releases; a private image's tag is none."""
    assert read_file(str(FILES / "skypilot.yaml"))[0].engine_version == "0.11.0"
    assert read_file(str(FILES / "truss.yaml"))[0].engine_version == "0.11.0"
    assert read_file(str(FILES / "compose-others.yaml"))[2].engine_version is None


def test_the_image_of_a_job_says_the_release() -> None:
    (found,) = read_file(str(FILES / "gitlab-ci.yml"))
    assert found.engine_version == "0.11.0"


def test_a_container_that_sees_the_gpus_of_its_neighbour() -> None:
    """NVIDIA_VISIBLE_DEVICES=all without a limit: the container toolkit lets it see every GPU of the node."""
    rules = [[f.rule for f in found.findings if f.severity == "warning"] for found in read_file(str(FILES / "pod-sees-all.yaml"))]
    assert rules == [["not-modelled-more"]] * 2


def test_the_tag_of_a_model_image_is_offered() -> None:
    (found,) = read_file(str(FILES / "modelcar.yaml"))
    assert any("did you mean ibm-granite/granite-3.1-8b" in one.why for one in found.unresolved)
