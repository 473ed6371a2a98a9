"""Kubernetes objects: their pods, wherever they are nested. What KServe makes of its own objects is in kserve.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kvplan.manifests import configured, pods, role_templates
from kvplan.manifests.command import Start
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, made
from kvplan.manifests.pods import Pod

#: What is read by its own rules, or starts nothing of its own.
OTHERS = frozenset({"ConfigMap", "Secret", "CustomResourceDefinition", "Kustomization"})

#: Groups of pods that work as one: LeaderWorkerSet, llmaz, RoleBasedGroup; a leader without a template of its own is a worker.
GROUPS = ("leaderWorkerTemplate", "workloadTemplate", "leaderWorkerPattern")
MEMBERS = ("leaderTemplate", "workerTemplate", "template")

#: Parts of a Dynamo graph that run no engine.
NO_WORKERS = frozenset({"frontend", "main", "planner", "epp"})


def is_object(document: Item) -> bool:
    """A Kubernetes object: it has a kind and an apiVersion."""
    return bool(document.get("kind")) and bool(document.get("apiVersion"))


def objects(document: Item) -> Iterator[Item]:
    """The objects of a document: itself, or the items of a List."""
    if document.get("kind").text.endswith("List") and isinstance(document.get("items").value, list):
        for item in document.get("items"):
            yield from objects(item)
    else:
        yield document


def read(document: Item, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of one object; `others` are the file's objects, for ConfigMaps and serving runtimes."""
    kind, name = document.get("kind").text, document.get("metadata", "name").text or "unnamed"
    if kind in ("NIMService", "NIMPipeline") and "nvidia.com" in document.get("apiVersion").text:
        for spec in [one.get("spec") for one in document.get("spec", "services")] or [document.get("spec")]:
            start = Start("", (), {}, spec.place, spec.end_line, in_container=True, foreign="NVIDIA NIM")
            yield start, Site(f"{kind}/{name}", n, span=spec.span)
    elif kind == "ConfigMap":
        every = [pod.spec for other in others if other is not document for pod in _pods(other, "")]
        yield from configured.config_map(document, every, others, n, source)
    elif kind not in OTHERS:
        for pod in _pods(role_templates.filled(document), f"{kind}/{name}"):
            yield from pods.read(pod, others, n, source)


def _pods(item: Item, label: str, nodes: int = 1, grouped: bool = False) -> Iterator[Pod]:
    """Every mapping with containers. A leaderWorkerTemplate's pods form a group; roles, jobs and services by their name."""
    group = next((item.get(key) for key in GROUPS if item.get(key)), NOTHING)
    if group and any(group.get(key) for key in MEMBERS):
        size = group.get("size").text
        members = int(size[:6]) if size.isdecimal() else 1
        for key in MEMBERS:
            yield from _pods(group.get(key), label, members, True)
        return
    if isinstance(item.get("containers").value, list):
        yield Pod(item, label, nodes, grouped)
        return
    if head := item.get("headGroupSpec"):  # a Ray cluster: its workers join the head, whose engine has the devices of them all
        many = [one.get("replicas").text or "1" for one in item.get("workerGroupSpecs")]
        yield from _pods(head, label, 1 + sum(int(one[:6]) for one in many if one.isdecimal()), grouped)
        return
    if main := item.get("mainContainer") or item.get("runner"):  # NVIDIA Dynamo's extraPodSpec, a runner of OME's
        one = Item({**item.value, "containers": Item([main], "", main.place, main.end_line)}, "", item.place, item.end_line)
        yield Pod(one, label, nodes)
        return
    if (one := item.get("container")) and one.get("image"):  # a template of Argo Workflows
        yield Pod(replace(item, value={**item.value, "containers": Item([one], "", one.place, one.end_line)}), label, nodes, grouped)
        return
    gpus = item.get("resources", "limits", "gpu")  # NVIDIA Dynamo: beside the pod, by its own name; of one node of nodeCount
    nodes = max(item.get("multinode", "nodeCount").number(), 1) if item.get("extraPodSpec") else nodes
    if item.get("entryTemplate"):  # a role of kthena's ModelServing: its entry, and the workers that join it
        nodes = 1 + item.get("workerReplicas").number(0)
    for key, part in item.items():
        if part.get("componentType").text in NO_WORKERS:
            continue
        if key == "extraPodSpec" and part.get("mainContainer"):
            part = _with_own(part, item, gpus)
        if isinstance(part.value, dict):
            inner = f"{label}/{key}" if key[:1].isupper() else label
            yield from _pods(part, inner, nodes, grouped)
        elif isinstance(part.value, list) and key != "initContainers":
            for one in part:
                if key == "components" and one.get("type").text in NO_WORKERS:
                    continue
                own = one.get("name").text or one.get("metadata", "name").text
                yield from _pods(one, f"{label}/{own}" if own else label, nodes, grouped)


def _with_own(pod: Item, component: Item, gpus: Item) -> Item:
    """A pod whose main container has what stands beside it in a Dynamo component: its variables, and GPUs by their own name."""
    main = pod.get("mainContainer")
    value = dict(main.value)
    if gpus and not any("/" in name for name, _ in main.get("resources", "limits").items()):
        value["resources"] = made({"limits": {"nvidia.com/gpu": gpus}}, gpus)
    if envs := component.get("envs"):
        value["env"] = replace(envs, value=[*envs, *main.get("env")])
    return replace(pod, value={**pod.value, "mainContainer": replace(main, value=value)})
