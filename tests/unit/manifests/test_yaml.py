"""Compose, Kubernetes, Helm, Ray: how the pieces of a manifest come together; and hostile files, which end in one clear error."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from kvplan.errors import SpecError
from kvplan.manifests import Found, check, exit_code, read, read_file
from kvplan.manifests.images import find as find_image
from kvplan.manifests.marked import documents


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
        ("image: ghcr.io/ggml-org/llama.cpp:server\nargs: [-hf, m/x, -np, 4]", "m/x", {"max_num_seqs": 4, "engine_option": {"server": True}}),  # noqa: E501
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
        ("nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-SHARED}", None),
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
    ("reference", "engine", "version"),
    [
        ("vllm/vllm-openai:v0.11.0", "vllm", "0.11.0"),
        ("docker.io/vllm/vllm-openai:v0.10.1.1", "vllm", "0.10.1"),
        ("registry.local:5000/vllm/vllm-openai", "vllm", None),
        ("vllm/vllm-openai:latest@sha256:0000", "vllm", None),
        ("vllm/vllm-openai:nightly", "vllm", None),
        ("lmsysorg/sglang:v0.5.3.post1-cu126", "sglang", "0.5.3"),
        ("lmsysorg/sglang:v0.5.5-cu129-amd64", "sglang", "0.5.5"),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.1.0rc5", "tensorrt-llm", "1.1.0"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b6700", "llama.cpp", "b6700"),
        ("ghcr.io/ggml-org/llama.cpp:server", "llama.cpp", None),
        ("ollama/ollama:0.12.3", "ollama", "0.12.3"),
        ("nvcr.io/nvidia/vllm:25.09-py3", "vllm", None),
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
    "deep-block.yaml": ("".join(" " * n + "a:\n" for n in range(3000)), "nested deeper"),
    "many-documents.yaml": ("---\na: 1\n" * 2000, "documents"),
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
    "json.sh": ("vllm serve m/x --speculative-config '" + "[" * 100_000 + "'", None),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name: str) -> None:
    text, message = HOSTILE[name]
    start = time.monotonic()
    if message is None:
        with suppress(SpecError):
            read(text, name)
    else:
        with pytest.raises(SpecError, match=message) as error:
            read(text, name)
        assert len(error.value.faults) == 1
        assert len(str(error.value)) < 300
    assert time.monotonic() - start < 5


def test_hostile_files(tmp_path: Any) -> None:
    (tmp_path / "zero.yaml").write_bytes(b"a: \0")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (2 << 20))
    for name, message in (("zero", "binary"), ("latin", "UTF-8"), ("huge", "larger than"), ("missing", "No such file")):
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
