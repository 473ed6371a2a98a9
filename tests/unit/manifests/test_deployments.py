"""Every file of tests/manifests/deployments: its verdicts, the lines they point at, its exit code, and why.

Written after the public examples of vLLM, the production stack, llm-d, KServe, LeaderWorkerSet, Ray Serve, SGLang, TensorRT-LLM,
llama.cpp, llama-swap, Ollama, systemd and Docker; the numbers in the reasons are weights (parameters times bytes) against memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.errors import SpecError
from kvplan.manifests import check, exit_code
from kvplan.manifests.read import read_file
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests" / "deployments"


class E(tuple):  # type: ignore[type-arg]
    """One engine: status, name, and rule -> line of its errors and warnings."""

    def __new__(cls, status: str, name: str, findings: dict[str, int] | None = None) -> E:
        return super().__new__(cls, (status, name, findings or {}))


TABLE: dict[str, tuple[str, int, tuple[E, ...]]] = {
    "Dockerfile.sglang": ("16 GiB of weights over two H100; the shell form of CMD reads ENV", 0, (E("fits", "sglang Qwen/Qwen3-8B"),)),
    "Dockerfile.vllm": (
        "Qwen3-8B declares 40,960 tokens; the option is on the second line of CMD",
        1,
        (E("refuses", "vllm Qwen/Qwen3-8B", {"too-long": 7}),),
    ),
    "batched-below-seqs.sh": (
        "SchedulerConfig refuses fewer batched tokens than sequences",
        1,
        (E("refuses", "vllm Qwen/Qwen3-8B", {"bad-value": 4}),),
    ),
    "before-v1.sh": (
        "VLLM_USE_V1=0 and VLLM_MLA_DISABLE=1 in the container change memory",
        0,
        (E("fits", "vllm Qwen/Qwen3-8B", {"not-modelled-either": 3}),),
    ),
    "broken-second.yaml": (
        "the second document is no YAML; the first is read all the same, and names no GPU",
        2,
        (E("unknown", "Pod/a/a", {"open-device": 4}), E("broken", "broken-second.yaml", {"unreadable": 7})),
    ),
    "compose-anchors.yaml": (
        "Qwen3-8B (15 GiB) fits 48 GB, Qwen3-32B (61 GiB) does not; the image stands in the anchor",
        1,
        (
            E("fits", "services/small"),
            E("refuses", "services/large", {"does-not-start": 11}),
        ),
    ),
    "compose-folded.yaml": ("`two` is no number; a folded scalar keeps its lines", 1, (E("refuses", "services/llm", {"bad-value": 7}),)),
    "compose-llama-env.yaml": ("8B in 16 bits is 15 GiB of 24; options from LLAMA_ARG_*", 0, (E("fits", "services/llama"),)),
    "compose-shell.yaml": ("the number of GPUs is only known on the machine", 2, (E("unknown", "services/llm", {"open-tp": 9}),)),
    "compose-visible.yaml": (
        "tp 4, and CUDA_VISIBLE_DEVICES shows two of the eight",
        1,
        (E("refuses", "services/llm", {"too-few-devices": 5}),),
    ),
    "contradicting-labels.yaml": ("a g5 has A10G, the other label says L4", 2, (E("unknown", "Pod/lost/vllm", {"open-device": 7}),)),
    "cronjob-trtllm.yaml": (
        "a fraction of 1.8, in the ConfigMap that is mounted",
        1,
        (E("refuses", "CronJob/nightly/trtllm", {"bad-value": 24}),),
    ),
    "disaggregatedset.yaml": (
        "an 8B on an H100 each; the connector's buffers are not modelled",
        0,
        (
            E("fits", "DisaggregatedSet/llama/prefill/vllm", {"not-modelled-either": 19}),
            E("fits", "DisaggregatedSet/llama/decode/vllm", {"not-modelled-either": 19}),
        ),
    ),
    "docker-ollama.sh": (
        "16 GB of weights in f16 and 2 GiB of cache on 24 GB; the tag is listed in another quantisation",
        0,
        (E("fits", "ollama llama3.1:8b-instruct-fp16"),),
    ),
    "docker-rocm.sh": ("131 GiB of weights on 192 GB", 0, (E("fits", "vllm meta-llama/Llama-3.1-70B-Instruct"),)),
    "docker-two-gpus.sh": ("tp 4, and --gpus gives two", 1, (E("refuses", "vllm Qwen/Qwen3-32B", {"too-few-devices": 2}),)),
    "eks.yaml": ("g6.12xlarge has four L4, tp 4", 0, (E("fits", "Deployment/llama/vllm"),)),
    "isvc-storage-uri.yaml": (
        "STORAGE_URI names what is mounted as /mnt/models",
        0,
        (E("fits", "InferenceService/qwen/kserve-container"),),
    ),
    "isvc-workers.yaml": ("four nodes of one A100: 131 GiB over four stages", 0, (E("fits", "InferenceService/llama-70b"),)),
    "jobset.yaml": ("61 GiB on an L4", 1, (E("refuses", "JobSet/batch/worker/vllm", {"does-not-start": 14}),)),
    "knative.yaml": ("GKE's h100-mega is an H100 80GB", 0, (E("fits", "Service/qwen"),)),
    "kubectl-heredoc-open.sh": ("TP is set nowhere", 2, (E("unknown", "Pod/qwen/vllm", {"open-tp": 11}),)),
    "kubectl-heredoc.sh": ("LEN is set in the script", 0, (E("fits", "Pod/qwen/vllm"),)),
    "kustomization.yaml": ("parts of manifests only", 2, (E("empty", "kustomization.yaml"),)),
    "launchers.sh": (
        "the same command through tmux on an H100, through ssh on a T4",
        1,
        (
            E("fits", "vllm Qwen/Qwen3-8B"),
            E("refuses", "vllm Qwen/Qwen3-8B", {"does-not-start": 4}),
        ),
    ),
    "llama-quantised-v.sh": (
        "llama.cpp refuses a quantised V cache without flash attention",
        1,
        (E("refuses", "llama.cpp q.gguf", {"does-not-start": 2}),),
    ),
    "llama-slots.sh": ("15 GiB of weights on 24 GB, four slots", 0, (E("fits", "llama.cpp ./Qwen3-8B-F16.gguf"),)),
    "llama-swap.yaml": (
        "8B fits 24 GB, 32B does not",
        1,
        (
            E("fits", "models/qwen3"),
            E("refuses", "models/qwen3-vllm", {"does-not-start": 15}),
        ),
    ),
    "llmisvc-experts.yaml": (
        "16 ranks over two nodes of eight; 57 GiB of experts spread over them",
        0,
        (E("fits", "LLMInferenceService/coder/main"),),
    ),
    "llmisvc-prefill.yaml": (
        "the model is in a volume; the decode pool names no GPU",
        2,
        (
            E("unknown", "LLMInferenceService/gpt-oss/main", {"open-model": 5, "open-device": 7}),
            E("unknown", "LLMInferenceService/gpt-oss/prefill/main", {"open-model": 5}),
        ),
    ),
    "llmisvc.yaml": ("8B over two L4", 0, (E("fits", "LLMInferenceService/qwen/main"),)),
    "lws-wide-ep.yaml": (
        "16 ranks, eight a node, by the script's arithmetic; the connector and NVSHMEM's heap are not modelled",
        0,
        (E("fits", "LeaderWorkerSet/decode/vllm", {"not-modelled-either": 36}),),
    ),
    "lws-worker-template.yaml": ("671B in fp8 over 16 H200; no leader template", 0, (E("fits", "LeaderWorkerSet/r1/sglang"),)),
    "mounted-script.yaml": (
        "the script of the ConfigMap asks for tp 2, the pod has one GPU",
        1,
        (E("refuses", "StatefulSet/llm/vllm", {"too-few-devices": 24}),),
    ),
    "number-args.yaml": ("the API takes text only", 1, (E("refuses", "Pod/numbers/vllm", {"not-text": 12}),)),
    "ollama-override.conf": ("an override of ollama.service with the variables alone", 0, (E("fits", "ollama 3"),)),
    "one-word-args.yaml": ("an option and its value in one word", 1, (E("refuses", "Pod/word/vllm", {"not-split": 11}),)),
    "one-word-command.yaml": ("a command line in one word", 1, (E("refuses", "Pod/word/vllm", {"not-split": 9}),)),
    "patch-args.yaml": ("a patch: no image, no command", 2, (E("empty", "patch-args.yaml"),)),
    "python-flags.sh": ("options of Python before -m", 0, (E("fits", "vllm Qwen/Qwen3-8B"),)),
    "ray-files.yaml": (
        "one LLMConfig here, one in another file",
        2,
        (
            E("fits", "applications/llm/q"),
            E("unknown", "applications/llm/./configs/other.yaml", {"open-command": 9, "open-device": 9}),
        ),
    ),
    "script-append.sh": ("+= on a string, and a variable added to itself", 0, (E("fits", "vllm Qwen/Qwen3-8B"),)),
    "script-array-branch.sh": (
        "a branch only adds to the command, so the rest is known",
        0,
        (E("fits", "vllm Qwen/Qwen3-8B", {"open-words": 8}),),
    ),
    "script-defaults.sh": (":=, and [ -z ] in both forms, are defaults like :-", 0, (E("fits", "vllm Qwen/Qwen3-8B"),)),
    "script-eval.sh": ("eval of a string that grew", 0, (E("fits", "vllm Qwen/Qwen3-8B"),)),
    "script-ladder.sh": ("which branch runs is not known", 2, (E("unknown", "vllm 9", {"open-tp": 9, "open-model": 9}),)),
    "script-positional.sh": (
        "half of 80 GB is less than 61 GiB of weights; the words come through $@",
        1,
        (E("refuses", "vllm Qwen/Qwen3-32B", {"does-not-start": 3}),),
    ),
    "script-set.sh": (
        "1B on a T4 at 0.95, which leaves less than graphs may take; the words come through set --",
        2,
        (E("unknown", "vllm meta-llama/Llama-3.2-1B-Instruct", {"too-close-to-call": 4}),),
    ),
    "script-shift.sh": (
        "the first argument has a default, the others are not known and may hold a parallel size",
        2,
        (E("unknown", "vllm Qwen/Qwen3-8B", {"open-options": 6}),),
    ),
    "serve-twice.yaml": ("the image's entrypoint is vllm serve already", 1, (E("refuses", "Pod/twice/vllm", {"bad-value": 9}),)),
    "sglang-fraction.sh": ("a fraction above 1", 1, (E("refuses", "sglang Qwen/Qwen3-8B", {"bad-value": 3}),)),
    "sglang-router.sh": ("a router and four copies; options of the router are its own", 0, (E("fits", "sglang Qwen/Qwen3-8B"),)),
    "sglang-speculative-auto.sh": (
        "the draft's config says 2,048 positions, and 8,192 are asked of it without the variable that allows it",
        1,
        (E("refuses", "sglang meta-llama/Llama-3.1-8B-Instruct", {"does-not-start": 3}),),
    ),
    "sglang-two-nodes.sh": (
        "671B in fp8 over 16 H200; what experts take beside attention DP is not modelled",
        2,
        (E("unknown", "sglang deepseek-ai/DeepSeek-R1", {"removed-option": 4, "too-close-to-call": 2}),),
    ),
    "slurm.sbatch.sh": ("32B over four H100", 0, (E("fits", "vllm Qwen/Qwen3-32B"),)),
    "stack-ray.yaml": ("131 GiB over eight A10G: two nodes of four", 0, (E("fits", "servingEngineSpec/distilled"),)),
    "tabs.yaml": ("YAML knows no tabs", 2, (E("broken", "tabs.yaml", {"unreadable": 2}),)),
    "three-of-heads.sh": ("32 heads do not divide by 3", 1, (E("refuses", "vllm Qwen/Qwen3-8B", {"does-not-start": 2}),)),
    "trtllm-dashes.sh": (
        "trtllm-serve spells its options with underscores",
        1,
        (E("refuses", "tensorrt-llm Qwen/Qwen3-8B", {"unknown-option": 2}),),
    ),
    "trtllm-disaggregated.sh": (
        "it starts several engines from a file of its own",
        2,
        (E("unknown", "tensorrt-llm 2", {"open-command": 2}),),
    ),
    "trtllm-here.sh": (
        "671B in fp8 over eight B200; the YAML is written by the script, MoE back ends are not modelled",
        0,
        (E("fits", "tensorrt-llm deepseek-ai/DeepSeek-R1", {"not-modelled-either": 11}),),
    ),
    "two-engines-pod.yaml": (
        "each container has its own limits",
        0,
        (
            E("fits", "Pod/two/big"),
            E("fits", "Pod/two/small"),
        ),
    ),
    "vllm.container": ("tp 2, and AddDevice gives one", 1, (E("refuses", "vllm Qwen/Qwen3-8B", {"too-few-devices": 7}),)),
    "vllm.service": ("61 GiB over two H100", 0, (E("fits", "vllm Qwen/Qwen3-32B"),)),
    "whole-prompts.sh": (
        "a prompt must fit one step without chunked prefill",
        1,
        (E("refuses", "vllm Qwen/Qwen3-8B", {"bad-value": 4}),),
    ),
    "yarn.sh": (
        "36 GiB are left after 131,072 tokens of 144 KiB; up to 0.29 the override's factor makes the length (create_engine_config)",
        0,
        (E("fits", "vllm Qwen/Qwen3-8B"),),
    ),
    "yarn-now.sh": (
        "since 0.30 YaRN leaves max_position_embeddings as it is: 131,072 is greater than the derived max_model_len (create_engine_config)",
        1,
        (E("refuses", "vllm Qwen/Qwen3-8B", {"does-not-start": 2}),),
    ),
}


def test_every_file_is_in_the_table() -> None:
    assert sorted(TABLE) == sorted(path.name for path in FILES.iterdir())
    assert len(TABLE) >= 60


@pytest.mark.parametrize("name", TABLE)
def test_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    why, code, expected = TABLE[name]
    verdicts = check([name], planned)
    found = tuple(E(v.status, v.name, {f.rule: f.place.line for f in v.findings if f.severity != "note"}) for v in verdicts)
    assert found == expected, why
    assert exit_code(verdicts) == code, why
    assert all(v.plan is not None for v in verdicts if v.status == "fits"), why


def what_is_read(name: str) -> object:
    try:
        return read_file(name)
    except SpecError as error:
        return str(error)


def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the checker that the files mention change nothing of what is read; what plans is handed that and has no `os`."""
    monkeypatch.chdir(FILES)
    before = {name: what_is_read(name) for name in TABLE}
    for variable in ("MODEL", "TP", "LEN", "SIZE", "PORT", "LORA", "VLLM_VERSION", "VERSION", "HF_TOKEN", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "9")
    assert {name: what_is_read(name) for name in TABLE} == before
