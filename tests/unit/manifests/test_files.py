"""Every file of tests/manifests: its verdicts, the lines they point at, its exit code. Written from the engines' public option lists."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import kvplan
from kvplan.manifests import check, exit_code
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests"


class Expected(NamedTuple):
    """One engine: status, name, and rule -> line of the findings that matter (all errors and warnings)."""

    status: str
    name: str
    findings: dict[str, int] = {}  # noqa: RUF012 - read only


E = Expected
TABLE: dict[str, tuple[int, tuple[Expected, ...]]] = {
    "Modelfile": (2, (E("unknown", "Modelfile", {"open-device": 1}),)),
    "broken-indent.yaml": (2, (E("broken", "broken-indent.yaml", {"unreadable": 4}),)),
    "compose-ollama.yaml": (0, (E("fits", "services/ollama"),)),
    "compose-two-engines.yaml": (1, (E("fits", "services/chat"), E("refuses", "services/draft", {"does-not-start": 20}))),
    "compose-variables.yaml": (2, (E("unknown", "services/llm", {"open-model": 7}),)),
    "helm-llm-d.yaml": (
        1,
        (E("fits", "decode/vllm", {"not-modelled-either": 22}), E("refuses", "prefill/vllm", {"does-not-start": 38})),
    ),
    "helm-production-stack.yaml": (
        1,
        (
            E("fits", "servingEngineSpec/llama3"),
            E("refuses", "servingEngineSpec/mistral", {"not-modelled-either": 33, "too-few-devices": 29}),
        ),
    ),
    "helm-template.yaml": (2, (E("broken", "helm-template.yaml", {"unreadable": 4}),)),
    "k8s-idle-gpus.yaml": (0, (E("fits", "Deployment/phi/vllm", {"idle-devices": 16}),)),
    "k8s-mig.yaml": (2, (E("unknown", "Pod/small/vllm", {"too-close-to-call": 9}),)),
    "k8s-mixed-nodes.yaml": (2, (E("unknown", "Job/batch/sglang", {"open-device": 17}),)),
    "k8s-no-gpu-type.yaml": (2, (E("unknown", "StatefulSet/qwen/vllm", {"open-device": 11}),)),
    "k8s-shell.yaml": (1, (E("refuses", "Pod/gemma/server", {"does-not-start": 23}),)),
    "k8s-vllm.yaml": (0, (E("fits", "Deployment/llama/vllm"),)),
    "kserve-huggingface.yaml": (0, (E("fits", "InferenceService/huggingface-llama3"),)),
    "kserve-runtime.yaml": (2, (E("unknown", "InferenceService/phi4", {"open-model": 26}),)),
    "llama-docker.yaml": (2, (E("unknown", "services/llama", {"open-model": 7, "open-device": 3}),)),
    "llama-server-32k.sh": (0, (E("fits", "llama.cpp qwen3-8b.gguf", {"number-cut": 2}),)),
    "llama-server-no-flash.sh": (1, (E("refuses", "llama.cpp llama-3.2-1b.gguf", {"does-not-start": 2}),)),
    "llama-server.sh": (0, (E("fits", "llama.cpp models/qwen3-8b-f16.gguf"),)),
    "lws-sglang.yaml": (0, (E("fits", "LeaderWorkerSet/deepseek/leader"),)),
    "lws-vllm-ray.yaml": (0, (E("fits", "LeaderWorkerSet/llama70/leader"),)),
    "no-engine.yaml": (2, (E("empty", "no-engine.yaml"),)),
    "offload.sh": (0, (E("fits", "vllm Qwen/Qwen3-32B"),)),
    "ollama.sh": (0, (E("fits", "ollama llama3.1:8b-instruct-fp16"),)),
    "ray-a100.yaml": (2, (E("unknown", "applications/chat/qwen3", {"open-device": 7}),)),
    "ray-service.yaml": (
        1,
        (E("fits", "applications/llms/qwen2.5-7b-instruct"), E("refuses", "applications/llms/llama", {"does-not-start": 28})),
    ),
    "sglang-dp-attention.sh": (2, (E("unknown", "sglang deepseek-ai/DeepSeek-V3", {"removed-option": 6, "too-close-to-call": 5}),)),
    "sglang-fp8.sh": (1, (E("starts", "sglang Qwen/Qwen3-8B", {"does-not-fit": 2}),)),
    "speculative.sh": (0, (E("fits", "vllm deepseek-ai/DeepSeek-V3"),)),
    "trtllm-missing-config.sh": (2, (E("unknown", "tensorrt-llm openai/gpt-oss-20b", {"open-config": 2}),)),
    "trtllm.sh": (0, (E("fits", "tensorrt-llm meta-llama/Llama-3.1-70B-Instruct", {"not-modelled-either": 6}),)),
    "unbalanced.sh": (2, (E("broken", "unbalanced.sh", {"unreadable": 3}),)),
    "vllm-array.sh": (0, (E("fits", "vllm meta-llama/Llama-3.3-70B-Instruct", {"open-words": 14}),)),  # what a branch sets
    "vllm-docker-run.sh": (0, (E("fits", "vllm meta-llama/Llama-3.1-70B-Instruct"),)),
    "vllm-longer-than-model.sh": (1, (E("refuses", "vllm mistralai/Mistral-7B-Instruct-v0.3", {"too-long": 4}),)),
    "vllm-no-device.sh": (2, (E("unknown", "vllm Qwen/Qwen3-8B", {"open-device": 1}),)),
    "vllm-single.sh": (0, (E("fits", "vllm meta-llama/Llama-3.1-8B-Instruct"),)),
    "vllm-too-few-gpus.sh": (1, (E("refuses", "vllm meta-llama/Llama-3.1-70B-Instruct", {"too-few-devices": 3}),)),
    "vllm-too-large.sh": (1, (E("refuses", "vllm meta-llama/Llama-3.3-70B-Instruct", {"does-not-start": 3}),)),
    "vllm-typo.yaml": (1, (E("refuses", "services/vllm", {"unknown-option": 8}),)),
    "vllm-volume.yaml": (2, (E("unknown", "services/vllm", {"open-model": 6, "open-device": 3}),)),
}


def test_every_file_is_in_the_table() -> None:
    assert sorted(TABLE) == sorted(path.name for path in FILES.iterdir() if path.is_file())
    assert len(TABLE) >= 30


@pytest.mark.parametrize("name", TABLE)
def test_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    code, expected = TABLE[name]
    verdicts = check([name], planned)
    found = tuple(Expected(v.status, v.name, {f.rule: f.place.line for f in v.findings if f.severity != "note"}) for v in verdicts)
    assert found == expected
    assert exit_code(verdicts) == code


@pytest.mark.parametrize(
    ("name", "given", "models", "status"),
    [
        ("vllm-no-device.sh", {"device": "h100"}, (), "fits"),
        ("vllm-no-device.sh", {"device": "t4"}, (), "refuses"),
        ("vllm-volume.yaml", {"device": "l40s"}, ("/models/llama-3.1-8b-instruct=meta-llama/llama-3.1-8b",), "fits"),
        ("vllm-volume.yaml", {"device": "l40s"}, ("/models/another=meta-llama/llama-3.1-8b",), "unknown"),
        ("Modelfile", {"device": "rtx-4090"}, ("meta-llama/llama-3.1-8b",), "fits"),  # its output stays in RAM, whatever a desktop holds
        ("Modelfile", {"device": "l40s"}, ("meta-llama/llama-3.1-8b",), "fits"),
        ("ray-a100.yaml", {"device": "a100-80gb"}, (), "fits"),
        ("k8s-mig.yaml", {"device": "10GiB"}, (), "unknown"),  # too close: its warm-up wants what the slice has, to 0.04 GiB
        ("k8s-mig.yaml", {"device": "12GiB"}, (), "unknown"),  # 0.16 GiB are left at warm-up
        ("k8s-mig.yaml", {"device": "16GiB"}, (), "fits"),
        ("llama-docker.yaml", {"device": "h100"}, ("openai/gpt-oss-20b",), "fits"),
        ("vllm-single.sh", {"batch": 1000}, (), "starts"),
    ],
)
def test_what_is_open_can_be_given(
    name: str, given: dict[str, object], models: tuple[str, ...], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FILES)
    (verdict,) = check([name], planned, models=models, **given)
    assert verdict.status == status, verdict.message


def test_variables_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    monkeypatch.setenv("MODEL", "Qwen/Qwen3-8B")
    assert check(["compose-variables.yaml"], planned)[0].status == "unknown"
    (verdict,) = check(["compose-variables.yaml"], planned, env={"MODEL": "Qwen/Qwen3-8B", "VLLM_TAG": "v0.12.0"})
    assert verdict.status == "fits"
    assert verdict.found is not None
    assert verdict.found.engine_version == "0.12.0"


def test_strict_counts_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    assert exit_code(check(["k8s-idle-gpus.yaml"], planned, strict=True)) == 1


def test_empty_files_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    verdicts = check(["no-engine.yaml"], planned)
    assert exit_code(verdicts) == 2
    assert exit_code(verdicts, allow_empty=True) == 0


def test_a_command_where_a_file_is_expected_is_told_where_it_goes() -> None:
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 40k"
    (verdict,) = kvplan.check(command, device="l4")
    assert (verdict.status, verdict.message) == ("broken", "no such file; a command goes into one, or is piped: kvplan check -")
    (verdict,) = kvplan.check("my file.yaml")
    assert verdict.message == "no such file"
