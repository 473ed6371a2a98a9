"""Compose, Kubernetes, Helm, Ray: how the pieces of a manifest come together; and hostile files, which end in one clear error."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.errors import SpecError
from kvplan.manifests import Found, Source, check, exit_code, read, read_file
from kvplan.manifests.images import find as find_image
from kvplan.manifests.marked import documents
from tests.conftest import planned


def one(text: str) -> Found:
    (found,) = read(text, "m.yaml")
    return found


POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L40S}
  containers:
    - name: c
"""


def pod(container: str) -> Found:
    return one(POD + "\n".join("      " + line for line in container.strip("\n").splitlines()))


@pytest.mark.parametrize(
    ("container", "model", "question"),
    [
        ("image: vllm/vllm-openai:v0.11.0\nargs: [m/x, -tp, '2']", "m/x", {"tp": 2}),
        ("image: vllm/vllm-openai:v0.11.0\nargs: [--model, m/x]\ncommand: [python3, -m, vllm.entrypoints.openai.api_server]", "m/x", {}),
        ("image: vllm/vllm-openai:v0.11.0\ncommand: [vllm, serve, m/x, --max-num-seqs, '8']", "m/x", {"max_num_seqs": 8}),
        ("image: own\ncommand: [sh, -c]\nargs: ['exec vllm serve $M -tp $N']\nenv: [{name: M, value: m/x}, {name: N, value: '4'}]", "m/x", {"tp": 4}),  # noqa: E501
        ("image: own\ncommand: [vllm, serve, $(A)/$(B)]\nenv: [{name: A, value: m}, {name: C, value: z}, {name: B, value: x}]", "m/x", {}),
        ("image: own\ncommand: [vllm, serve, $(ORG)]\nenv: [{name: A, value: m}, {name: ORG, value: $(A)/x}]", "m/x", {}),
        ("image: own\ncommand: [vllm, serve, $$(A)]\nenv: [{name: A, value: m}]", "$(A)", {}),
        ("image: lmsysorg/sglang:v0.5.3\ncommand: [python3, -m, sglang.launch_server]\nargs: [--model-path=m/x, --tp=2]", "m/x", {"tp": 2}),
        ("image: ghcr.io/ggml-org/llama.cpp:server\nargs: [-hf, m/x, -np, '4']", "m/x", {"max_num_seqs": 4, "engine_option": {"server": True}}),  # noqa: E501
    ],
)  # fmt: skip
def test_containers(container: str, model: str, question: dict[str, Any]) -> None:
    found = pod(container)
    assert found.model == model
    assert {k: v for k, v in found.question.items() if k != "device"} == question
    assert found.question["device"] == "l40s"


def test_a_secret_stays_open() -> None:
    found = pod("image: i\ncommand: [vllm, serve, $(M)]\nenv: [{name: M, valueFrom: {secretKeyRef: {name: s, key: k}}}]")
    (open_model,) = found.unresolved
    assert (open_model.what, open_model.place.line) == ("model", 10)
    assert "M" in open_model.why


def test_a_config_map_of_the_same_file_is_read() -> None:
    text = POD + "      image: i\n      command: [vllm, serve, m/x, --max-model-len, $(LEN)]\n      envFrom: [{configMapRef: {name: c}}]\n"
    text += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {LEN: '4096'}\n"
    assert one(text).question["max_model_len"] == 4096


def test_a_mounted_config_of_the_same_file_is_read() -> None:
    text = (
        POD + "      image: nvcr.io/nvidia/tensorrt-llm/release:1.1.0\n      command: [trtllm-serve, m/x, --config, /etc/llm/extra.yaml]\n"
    )
    text += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  extra.yaml: |\n    kv_cache_config:\n      dtype: fp8\n"
    found = one(text)
    assert (found.question["kv_dtype"], found.places["kv_dtype"].line, found.engine_version) == ("fp8", 18, "1.1.0")


def test_an_image_that_runs_something_else_is_named() -> None:
    found = pod("image: vllm/vllm-openai:v0.11.0\ncommand: [/app/start.sh]")
    assert found.unresolved[0].what == "command"
    assert "/app/start.sh" in found.unresolved[0].why


@pytest.mark.parametrize(
    ("labels", "device"),
    [
        ("nodeSelector: {nvidia.com/gpu.product: Tesla-T4}", "t4"),
        ("nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}", "h100-80gb"),
        ("nodeSelector: {amd.com/gpu.product-name: AMD_Instinct_MI300X_OAM}", "mi300x"),
        ("nodeSelector: {disk: ssd}", None),
        ("nodeSelector: {accelerator: a100}", None),
        ("nodeSelector: {nvidia.com/gpu.product: NVIDIA-Q900}", None),
    ],
)
def test_devices(labels: str, device: str | None) -> None:
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  {labels}\n  containers: [{{image: i, command: [vllm, serve, m/x]}}]"
    found = one(text)
    assert found.question.get("device") == device
    assert ("device" in [u.what for u in found.unresolved]) == (device is None)


@pytest.mark.parametrize(
    ("labels", "device"),
    [
        ("node.kubernetes.io/instance-type: p5.48xlarge", "h100-80gb"),
        ("node.kubernetes.io/instance-type: p5en.48xlarge", "h200"),
        ("node.kubernetes.io/instance-type: g6e.12xlarge", "l40s"),
        ("node.kubernetes.io/instance-type: Standard_ND96isr_H200_v5", "h200"),
        ("node.kubernetes.io/instance-type: a2-ultragpu-8g", "a100-80gb"),
        ("node.kubernetes.io/instance-type: m7i.large", None),
        ("karpenter.k8s.aws/instance-family: g5", "a10g"),
        ("karpenter.k8s.aws/instance-gpu-name: l4, karpenter.k8s.aws/instance-family: g6", "l4"),
        ("accelerator: gpu, nvidia.com/gpu.product: NVIDIA-L4", "l4"),
        ("node.kubernetes.io/instance-type: g5.xlarge, nvidia.com/gpu.product: NVIDIA-L4", None),
    ],
)
def test_machine_types(labels: str, device: str | None) -> None:
    """Amazon EC2, Azure and Compute Engine, as their lists of instance types say; a label that says nothing takes nothing away."""
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector: {{{labels}}}\n  containers: [{{image: i, command: [vllm, serve, m/x]}}]"
    assert one(text).question.get("device") == device


@pytest.mark.parametrize(
    ("terms", "device"),
    [
        ("[[product, NVIDIA-L4]]", "l4"),
        ("[[product, NVIDIA-L4, NVIDIA-L40S]]", None),
        ("[[product, NVIDIA-L4], [product, NVIDIA-L4]]", "l4"),
        ("[[product, NVIDIA-L4], [product, NVIDIA-L40S]]", None),
        ("[[zone, a], [product, NVIDIA-L4]]", None),
    ],
)
def test_affinity(terms: str, device: str | None) -> None:
    """A node matches one of the terms: the device is known where all of them name the same."""
    keys = {"product": "nvidia.com/gpu.product", "zone": "topology.kubernetes.io/zone"}
    each = [f"{{matchExpressions: [{{key: {keys[k]}, operator: In, values: {v}}}]}}" for k, *v in yaml.safe_load(terms)]
    node = f"{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{', '.join(each)}]}}}}"
    text = (
        f"apiVersion: v1\nkind: Pod\nspec:\n  affinity: {{nodeAffinity: {node}}}\n  containers: [{{image: i, command: [vllm, serve, m/x]}}]"
    )
    assert one(text).question.get("device") == device


def test_compose_reads_the_environment_files_beside_it(tmp_path: Path) -> None:
    """.env for ${NAME}, env_file for the container; what the service itself sets wins."""
    (tmp_path / ".env").write_text("TAG=v0.12.0\nLEN='4096'\n")
    (tmp_path / "llm.env").write_text("# the engine\nexport CUDA_VISIBLE_DEVICES=0,1 # two\nVLLM_MLA_DISABLE=1\n")
    (tmp_path / "compose.yaml").write_text(
        "services:\n  a:\n    image: vllm/vllm-openai:${TAG}\n    env_file: [llm.env, gone.env]\n"
        "    environment: {VLLM_MLA_DISABLE: 0}\n    command: --model m/x --max-model-len ${LEN}\n"
    )
    (found,) = read_file(str(tmp_path / "compose.yaml"))
    assert (found.engine_version, found.question) == ("0.12.0", {"max_model_len": 4096, "n_devices": 2})
    assert [(f.rule, f.place.line) for f in found.findings if f.severity == "note"] == [
        ("config-read", 4),
        ("not-read", 4),
        ("config-read", 3),
    ]
    assert read_file(str(tmp_path / "compose.yaml"), {"TAG": "v0.11.0"})[0].engine_version == "0.11.0"


@pytest.mark.parametrize("style", [">", ">-", "|", '"', "plain"])
def test_a_text_over_several_lines_keeps_its_places(style: str) -> None:
    words = ["vllm serve m/x", "--max-num-seqs 4", "--max-model-len 4096"]
    lines = "".join(f"          {word}\n" for word in words)
    if style == "|":
        lines = "".join(f"          {word} \\\n" for word in words[:-1]) + f"          {words[-1]}\n"
    body = {">": f">\n{lines}", ">-": f">-\n{lines}", "|": f"|\n{lines}", '"': f'"{lines.strip()}"\n', "plain": f"{lines.strip()}\n"}[style]
    found = one(POD + f"      image: i\n      command: [sh, -c]\n      args:\n        - {body}")
    first = 13 if style in (">", ">-", "|") else 12
    assert found.question["max_model_len"] == 4096
    assert [found.places[name].line for name in ("command", "max_num_seqs", "max_model_len")] == [first, first + 1, first + 2]


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("a: 1\n", "no command of an inference engine in it", 1),
        ("a: 1\n# vllm\nrun: vllm-bench\n", "though it names vllm", 3),
        ("kind: Kustomization\n", "kustomize build", 1),
    ],
)
def test_what_is_said_of_a_file_without_engines(text: str, said: str, line: int) -> None:
    (verdict,) = check([Source("m.yaml", text)], lambda *_, **__: pytest.fail("asked"))
    assert (verdict.status, verdict.place.line) == ("empty", line)
    assert said in verdict.message


@pytest.mark.parametrize(
    ("reference", "engine", "version"),
    [
        ("vllm/vllm-openai:v0.11.0", "vllm", "0.11.0"),
        ("docker.io/vllm/vllm-openai:v0.10.1.1", "vllm", "0.10.1.1"),
        ("registry.local:5000/vllm/vllm-openai", "vllm", None),
        ("vllm/vllm-openai:latest@sha256:0000", "vllm", None),
        ("vllm/vllm-openai:nightly", "vllm", None),
        ("lmsysorg/sglang:v0.5.3.post1-cu126", "sglang", "0.5.3.post1"),
        ("lmsysorg/sglang:v0.5.5-cu129-amd64", "sglang", "0.5.5"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.1.0rc5", "tensorrt-llm", "1.1.0rc5"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6.post1", "tensorrt-llm", "1.2.0rc6.post1"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b6700", "llama.cpp", "b6700"),
        ("ghcr.io/ggml-org/llama.cpp:server", "llama.cpp", None),
        ("ollama/ollama:0.12.3", "ollama", "0.12.3"),
        ("nvcr.io/nvidia/vllm:25.09-py3", "vllm", None),
        ("rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909", "vllm", "0.10.1"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.3.0", "vllm", None),
    ],
)
def test_images(reference: str, engine: str, version: str | None) -> None:
    image = find_image(reference)
    assert image is not None
    assert (image.engine, image.version) == (engine, version)


@pytest.mark.parametrize("reference", ["nginx:1.27", "postgres", "ghcr.io/ggml-org/llama.cpp:light", "lmcache/lmstack-router:latest", ""])
def test_other_images(reference: str) -> None:
    assert find_image(reference) is None


def test_compose_interpolation() -> None:
    found = one(
        "services:\n  a:\n    image: vllm/vllm-openai:v0.11.0\n    command: '--model ${M-m/x} --max-model-len ${L:-4096} --seed $$X'"
    )
    assert (found.model, found.question["max_model_len"]) == ("m/x", 4096)


def test_several_documents_keep_their_numbers() -> None:
    text = "\n---\n".join(POD + f"      image: i\n      command: [vllm, serve, m/{n}]\n" for n in range(3))
    assert [(f.document, f.model) for f in read(text, "m.yaml")] == [(1, "m/0"), (2, "m/1"), (3, "m/2")]


def test_a_list_object_is_read() -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec: {containers: [{image: i, command: [vllm, serve, m/x]}]}"
    )
    assert one(text).model == "m/x"


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
HOSTILE = {
    "alias-bomb.yaml": (BOMB, "aliases grow"),
    "self-alias.yaml": ("a: &a [*a]\n", "nested deeper|alias"),
    "deep.yaml": ("[" * 100_000, "nested deeper"),
    "deep-block.yaml": ("".join(" " * n + "a:\n" for n in range(1200)), "nested deeper"),
    "many-values.yaml": ("a:\n" + "- 1\n" * 250_000, "more than"),
    "twice.yaml": ("a: 1\na: 2\n", "twice"),
    "tag.yaml": ("a: !!python/object/apply:os.system ['echo x']\n", None),
    "empty-int.yaml": ("a: !!int ''\n", None),
    "quotes.sh": ("vllm serve '" * 9999 + "\n", None),
    "brackets.sh": ("$(" * 50_000, "not closed"),
    "braces.sh": ("vllm serve ${A:-" * 20_000, "not closed"),
    "here.sh": ("cat <<EOF\n" * 1000, "here-document"),
    "words.sh": ("a " * 200_000, "words"),
    "growing.sh": ("A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 40, "64 KiB"),
    "binary.yaml": ("a: \x01\n", "not YAML"),
    "json.yaml": ("vllm serve m/x --speculative-config '" + "[" * 100_000 + "'", None),
    "template.yaml": ("spec:\n  {{- if .Values.x }}\n  a: 1\n  {{- end }}\n", "line 2: a Helm template"),
    "tab.yaml": ("a:\n\tb: 1\n", "line 2"),
    "merge-bomb.yaml": (
        "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9)),
        "aliases grow",
    ),
    "arithmetic.sh": ("vllm serve m/x -tp $((" + "9*" * 50 + "9))\nvllm serve m/x -tp $((" + "(" * 150 + ")) )", None),
    "unit.service": ("[Service]\nExecStart=vllm serve 'x\n", "not closed"),
    "Dockerfile": ('FROM vllm/vllm-openai\nCMD ["--model", 3]\n', None),
    "json.sh": ("vllm serve m/x --speculative-config '" + "[" * 100_000 + "'", None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name: str) -> None:
    text, message = HOSTILE[name]
    if message is None:
        with suppress(SpecError):
            read(text, name)
    else:
        with pytest.raises(SpecError, match=message) as error:
            read(text, name)
        assert len(error.value.faults) == 1
        assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("text", "said"), [("a: 1\n---\nb: [1\n---\nc: 1\n", "not YAML"), ("---\na: 1\n" * 2000, "more than 100,000 values or 500 documents")]
)
def test_a_document_that_is_not_read_is_said(text: str, said: str) -> None:
    (verdict,) = check([Source("m.yaml", text)], planned)
    assert (verdict.status, verdict.exit_code) == ("broken", 2)
    assert said in verdict.message


def test_a_shared_gpu_is_known_and_never_fits() -> None:
    labels = "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-SHARED}"
    text = f"apiVersion: v1\nkind: Pod\nspec:\n  {labels}\n  containers: [{{image: i, command: [vllm, serve, Qwen/Qwen3-8B]}}]"
    (verdict,) = check([Source("m.yaml", text)], planned)
    assert (verdict.status, verdict.found.question["device"]) == ("unknown", "h100-80gb")
    assert "time-slicing" in verdict.message


def test_hostile_files(tmp_path: Any) -> None:
    (tmp_path / "zero.yaml").write_bytes(b"a: \0")
    (tmp_path / "latin.yaml").write_bytes(b"b: 1\na: \xe9")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (2 << 20))
    (tmp_path / "wide.yaml").write_bytes("a: 1\n".encode("utf-16"))
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, message in (
        ("zero", "line 1: a binary"), ("latin", "line 2: not UTF-8"), ("huge", "larger than"), ("missing", "no such file"),
        ("wide", "binary"), ("pipe", "no regular file"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=message):
            read_file(str(tmp_path / f"{name}.yaml"))
    with pytest.raises(SpecError, match="directory"):
        read_file(str(tmp_path))
    verdicts = check([str(tmp_path / "zero.yaml"), str(tmp_path / "missing.yaml")], lambda *_, **__: pytest.fail("asked"))
    assert [v.status for v in verdicts] == ["broken", "broken"]
    assert exit_code(verdicts) == 2


def test_a_file_beside_is_read_and_said(tmp_path: Any) -> None:
    (tmp_path / "extra.yaml").write_text("max_seq_len: 4096\n")
    (tmp_path / "serve.sh").write_text("trtllm-serve m/x --config extra.yaml\n")
    (found,) = read_file(str(tmp_path / "serve.sh"))
    assert found.question["max_model_len"] == 4096
    assert [f.rule for f in found.findings] == ["config-read"]
    (tmp_path / "serve.sh").write_text("trtllm-serve m/x --config ../../etc/passwd\n")
    (found,) = read_file(str(tmp_path / "serve.sh"))
    assert "config" in [u.what for u in found.unresolved]


def test_places_of_yaml() -> None:
    (item,) = documents("a:\n  b: [1, 2]\n  c: |\n    x\n    y\n", "x")
    assert item.get("a", "b", 1).place == (2, 10)
    assert item.get("a", "c").body == (4, 1)
    assert not item.get("a", "nothing", "there")


@pytest.mark.parametrize(
    ("image", "built_for"),
    [
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.9.1", "CPUs"),  # vLLM's docs, getting_started/installation/cpu
        ("ghcr.io/ggml-org/llama.cpp:server", "CPUs"),  # llama.cpp docs/docker.md
        ("ghcr.io/ggml-org/llama.cpp:server-b6000", "CPUs"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", ""),
        ("vllm/vllm-openai:v0.11.0", ""),
        ("opea/vllm-gaudi:1.3", "Gaudi"),
        ("quay.io/ascend/vllm-ascend:v0.11.0rc1", "Ascend"),
        ("vllm/vllm-tpu:nightly", "TPUs"),
    ],
)
def test_images_built_for_no_gpu(image: str, built_for: str) -> None:
    found = pod(f"image: {image}\nargs: [--model, Qwen/Qwen3-8B]")
    said = [u.why for u in found.unresolved if u.what == "device"]
    assert any(f"is built for {built_for}:" in why for why in said) if built_for else not any("is built for" in why for why in said)
