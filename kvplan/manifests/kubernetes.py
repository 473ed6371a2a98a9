"""Kubernetes: pods wherever they are nested, their containers started as the kubelet would, KServe and LeaderWorkerSet around them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.manifests.accelerators import Hardware, of_pod
from kvplan.manifests.arguments.table import Given
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.values import Place
from kvplan.manifests.words import Word

#: kind -> where its pods are. A LeaderWorkerSet's pods form groups; KServe's predictors are pods with more.
PODS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Pod": (("spec",),),
    "Deployment": (("spec", "template", "spec"),),
    "StatefulSet": (("spec", "template", "spec"),),
    "DaemonSet": (("spec", "template", "spec"),),
    "ReplicaSet": (("spec", "template", "spec"),),
    "Job": (("spec", "template", "spec"),),
    "CronJob": (("spec", "jobTemplate", "spec", "template", "spec"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"),
        ("spec", "leaderWorkerTemplate", "workerTemplate", "spec"),
    ),
    "InferenceService": (("spec", "predictor"),),
    "ServingRuntime": (("spec",),),
    "ClusterServingRuntime": (("spec",),),
    "Rollout": (("spec", "template", "spec"),),
}
RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


class Pod(NamedTuple):
    """A pod found in a document: where, how many in its group, its object's kind and name."""

    spec: Item
    kind: str
    name: str
    nodes: int
    document: Item


def is_object(document: Item) -> bool:
    """A Kubernetes object: it has a kind and an apiVersion."""
    return bool(document.get("kind")) and bool(document.get("apiVersion"))


def read(document: Item, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of one object; `others` are the file's documents, for ConfigMaps and serving runtimes."""
    if document.get("kind").text == "List" or document.get("kind").text.endswith("List"):
        for item in document.get("items"):
            yield from read(item, others, n, source)
        return
    for pod in _pods(document):
        yield from _pod(pod, others, n, source)


def _pods(document: Item) -> Iterator[Pod]:
    kind, name = document.get("kind").text, document.get("metadata", "name").text or "unnamed"
    for path in PODS.get(kind, ()):
        spec = document.get(*path)
        if not spec:
            continue
        nodes = 1
        if kind == "LeaderWorkerSet":
            size = document.get("spec", "leaderWorkerTemplate", "size")
            nodes = int(size.text[:6]) if size.text.isdecimal() else 1
        yield Pod(spec, kind, name, nodes, document)


def _pod(pod: Pod, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    if pod.kind in RUNTIMES and any(_runtime_of(d) == pod.name for d in others):
        return  # read with the InferenceService that uses it
    if pod.spec.get("model"):
        yield from _kserve(pod, others, n, source)
        return
    containers = list(pod.spec.get("containers"))
    hardware = of_pod(pod.spec, containers)
    for item in containers:
        yield from _container(pod, item, hardware, others, n, source)


def _container(
    pod: Pod,
    item: Item,
    hardware: Hardware,
    others: Sequence[Item],
    n: int,
    source: str,
    *,
    runtime: Item = NOTHING,
    model: Given | None = None,
) -> Iterator[tuple[Start, Site]]:
    env = environment([runtime.get("env"), item.get("env")], [*item.get("envFrom")], others, pod)
    image = item.get("image") or runtime.get("image")
    entry, args = item.get("command") or runtime.get("command"), item.get("args")
    words = None if not entry else expand(entry, env)
    own = [*expand(runtime.get("args"), env), *expand(args, env)] if runtime else expand(args, env) if args else None
    label = f"{pod.kind}/{pod.name}" + (f"/{item.get('name').text}" if item.get("name") else "")
    found = container(
        Word(image.text, image.place) if image else None, words, own, env, source, item.place, item.end_line, files=config_files(others)
    )
    for start in found:
        site = Site(
            name=label,
            document=n,
            device=hardware.device,
            n_devices=hardware.n_devices,
            nodes=pod.nodes,
            why=hardware.why,
            place=hardware.place,
            span=(item.place.line, item.end_line),
            model=model,
        )
        yield start, site


def _kserve(pod: Pod, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """An InferenceService with a model: the runtime's container with the model's arguments after its own."""
    model = pod.spec.get("model")
    uri = model.get("storageUri") or model.get("storage", "path") or model.get("uri")
    given = Given(uri.text, "storageUri", uri.place) if uri else None
    runtimes = [d for d in others if d.get("kind").text in RUNTIMES and d.get("metadata", "name").text == _runtime(pod)]
    runtime = runtimes[0] if runtimes else NOTHING
    base = next(iter(runtime.get("spec", "containers")), NOTHING)
    hardware = of_pod(pod.spec, [model, base])
    if base:
        yield from _container(pod, model, hardware, others, n, source, runtime=base, model=given)
        return
    env = environment([model.get("env")], [*model.get("envFrom")], others, pod)
    words = [Word("kserve-huggingfaceserver", model.place), *expand(model.get("args"), env)]
    if model.get("modelFormat", "name").text not in ("huggingface", "vLLM", "vllm") and not _runtime(pod):
        return
    entry = words
    if not _runtime(pod).startswith("kserve-huggingfaceserver") and _runtime(pod):
        entry = [Word("vllm", model.place), Word("serve", model.place), *words[1:]]
    for start in container(None, entry, None, env, source, model.place, model.end_line):
        label = f"{pod.kind}/{pod.name}"
        span = (pod.spec.place.line, pod.spec.end_line)
        yield start, Site(label, n, hardware.device, hardware.n_devices, pod.nodes, hardware.why, hardware.place, span=span, model=given)


def _runtime(pod: Pod) -> str:
    return _runtime_of(pod.document)


def _runtime_of(document: Item) -> str:
    return document.get("spec", "predictor", "model", "runtime").text


def environment(lists: Sequence[Item], sources: Sequence[Item], others: Sequence[Item], pod: Pod | None = None) -> dict[str, Word]:
    """A container's variables: values with $(NAME) expanded from those before, ConfigMaps of the same file; the rest stays open."""
    env: dict[str, Word] = {}
    if pod and pod.kind == "LeaderWorkerSet":
        env["LWS_GROUP_SIZE"] = Word(str(pod.nodes), pod.spec.place)
        for name in ("LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"):  # each member's own
            env[name] = Word(f"${name}", pod.spec.place, (name,))
    for source in sources:
        config = _config_map(others, source.get("configMapRef", "name").text)
        prefix = source.get("prefix").text
        for key, item in config.items():
            env[prefix + key] = Word(item.text, item.place)
    for entries in lists:
        for entry in entries:
            name, value = entry.get("name").text, entry.get("value")
            reference = entry.get("valueFrom", "configMapKeyRef")
            if value:
                env[name] = _expand(value.text, value.body, env)
            elif reference:
                item = _config_map(others, reference.get("name").text).get(reference.get("key").text)
                env[name] = Word(item.text, item.place) if item else Word(f"${name}", entry.place, (name,))
            elif entry.get("valueFrom"):
                env[name] = Word(f"${name}", entry.place, (name,))
            elif name:
                env[name] = Word("", entry.place)
    return env


def _config_map(others: Sequence[Item], name: str) -> Item:
    for document in others:
        if document.get("kind").text == "ConfigMap" and document.get("metadata", "name").text == name and name:
            return document.get("data")
    return NOTHING


def config_files(others: Sequence[Item]) -> dict[str, tuple[str, Place]]:
    """The entries of the file's ConfigMaps, as files by their keys."""
    files = {}
    for document in others:
        if document.get("kind").text == "ConfigMap":
            for key, item in document.get("data").items():
                files[key] = (item.text, item.body)
    return files


def expand(items: Item, env: Mapping[str, Word]) -> list[Word]:
    """A command or args list with $(NAME) expanded from the container's own variables; $$(NAME) stays, unknown names stay."""
    return [_expand(item.text, item.body, env) for item in items]


def _expand(text: str, place: Place, env: Mapping[str, Word]) -> Word:
    missing: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        word = env.get(match[2])
        if word is None:
            return match[0]
        missing.extend(word.missing)
        return word.text

    return Word(_REFERENCE.sub(replace, text)[:65_536], place, tuple(missing))
