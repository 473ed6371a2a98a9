"""A pod's containers, started as the kubelet would: variables of the container, `$(NAME)`, ConfigMaps of the same file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Finding, Given, Place, Unresolved, Word
from kvplan.manifests.accelerators import Hardware, of_pod
from kvplan.manifests.command import Start, container
from kvplan.manifests.downloads import PULLED, pulled
from kvplan.manifests.found import Site
from kvplan.manifests.host import not_quantities, of_container
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.words import filled, replaced

_REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][A-Za-z0-9_.-]*)\)")

_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.]*)\}|\$([A-Z_][A-Z0-9_]*)\b")


_PART = Unresolved(
    "image", "the container has no image here: it is part of another manifest, whose command and variables are not read",
    "check what `kustomize build` prints", Place(),
)  # fmt: skip


class Pod(NamedTuple):
    """A pod found in a document.

    label  its object's kind and name
    nodes  the members of its group, each such a pod; grouped: the group sets each member's place in it
    model  what is mounted where KServe puts models
    """

    spec: Item
    label: str
    nodes: int = 1
    grouped: bool = False
    model: Given | None = None


def read(pod: Pod, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of a pod's containers and of its init containers that stay (restartPolicy Always), with the devices of their limits."""
    staying = [item for item in pod.spec.get("initContainers") if item.get("restartPolicy").text == "Always"]
    items = [*pod.spec.get("containers"), *staying]
    beyond = [item for item in items if _sees_all(item)]
    for item in items:
        hardware = of_pod(pod.spec, [item], others)
        pulls = list(_pulls([*pod.spec.get("initContainers"), *items]))
        shared = _shared(item, hardware, [other for other in (items if item in beyond else beyond) if other is not item])
        for one, where in start(pod, item, hardware, others, n, source):
            yield pulled(one, pulls, "the pod's containers"), where._replace(findings=(*where.findings, *shared))


def _pulls(items: Sequence[Item]) -> Iterator[Word]:
    """The models that the containers of a pod pull, as they start too."""
    for item in items:
        env = environment([item.get("env")], [], [])
        for run in (item.get("command"), item.get("args"), item.get("lifecycle", "postStart", "exec", "command")):
            text = filled(Word(" ".join([run.text, *(one.text for one in run)]), run.place), env).text
            yield from (Word(model, run.place) for model in PULLED.findall(text))


def _sees_all(item: Item) -> bool:
    """Whether a container asks for no GPU and is let see all of the node's: NVIDIA_VISIBLE_DEVICES (NVIDIA container toolkit)."""
    visible = next((e.get("value").text for e in item.get("env") if e.get("name").text == "NVIDIA_VISIBLE_DEVICES"), "")
    return visible not in ("", "none", "void") and not _has_gpus(item)


def _shared(item: Item, hardware: Hardware, others: Sequence[Item]) -> tuple[Finding, ...]:
    """What is to be said of a container with GPUs of its own beside one of the pod that sees all of the node's, and the other way."""
    if hardware.n_devices is not None and others:
        name = others[0].get("name").text or "another container"
        message = f"{name} asks for no GPU and sees all of the node's, this one's among them; say what it holds with --reserve"
    elif owner := next((one for one in others if hardware.n_devices is None and _has_gpus(one)), None):
        message = (
            f"it asks for no GPU and sees all of the node's, {owner.get('name').text}'s among them; say what that holds with --reserve"
        )
    else:
        return ()
    return (Finding("not-modelled-more", "warning", message, item.place),)


def _has_gpus(item: Item) -> bool:
    return any("/" in name for name, _ in item.get("resources", "limits").items())


def start(
    pod: Pod, item: Item, hardware: Hardware, others: Sequence[Item], n: int, source: str, *, runtime: Item = NOTHING
) -> Iterator[tuple[Start, Site]]:
    """The engines of one container. `runtime` is the container that it completes, where a serving runtime has one."""
    env = environment([runtime.get("env"), item.get("env")], [*item.get("envFrom")], others, pod)
    image = item.get("image") or runtime.get("image")
    entry, args = item.get("command") or runtime.get("command"), item.get("args")
    words = None if not entry else expand(entry, env)
    own = [*expand(runtime.get("args"), env), *expand(args, env)] if runtime else expand(args, env) if args else None
    part = not image and not entry
    if part and own and len(own) == 1 and re.search(r"\s", own[0].text):  # the text of a shell that the whole manifest names
        words = [Word("sh", item.place), Word("-c", item.place)]
    found = container(image.word if image else None, words, own, env, source, item.place, item.end_line, files=config_files(others))
    uri = env.get("STORAGE_URI")
    model = pod.model or (Given(uri.text, "STORAGE_URI", uri.place) if uri and not uri.missing else None)
    for one in found:
        where = site(pod, item, hardware, n, model)
        yield one, where._replace(unresolved=(*where.unresolved, _PART._replace(place=item.place))) if part else where


def site(pod: Pod, item: Item, hardware: Hardware, n: int, model: Given | None) -> Site:
    """Where a container runs."""
    return Site(
        name=pod.label + (f"/{item.get('name').text}" if item.get("name") else ""),
        document=n,
        device=hardware.device,
        n_devices=hardware.n_devices,
        nodes=pod.nodes,
        why=hardware.why,
        place=hardware.place,
        span=item.span,
        model=model,
        findings=(*_not_text(item), *not_quantities(item), *hardware.findings),
        host=f"{n} {pod.label}" if hardware.n_devices is None else "",
        limits=of_container(pod.spec, item),
    )


def _not_text(item: Item) -> Iterator[Finding]:
    """Numbers and truths where the API takes text, a text where it takes a list (core/v1 Container: command, args and env values)."""
    for key in ("command", "args"):
        if isinstance(item.get(key).value, str):
            yield Finding("not-text", "error", f"{key} is no list, and Kubernetes refuses the object; put it in one", item.get(key).place)
    values = [*item.get("command"), *item.get("args"), *(entry.get("value") for entry in item.get("env"))]
    for value in values:
        if isinstance(value.value, (bool, int, float)):
            message = f"{value.text[:60]} is not text, and Kubernetes refuses the object; put it in quotes"
            yield Finding("not-text", "error", message, value.place)


def environment(lists: Sequence[Item], sources: Sequence[Item], others: Sequence[Item], pod: Pod | None = None) -> dict[str, Word]:
    """A container's variables: values with $(NAME) expanded from those before, ConfigMaps of the same file; the rest stays open."""
    env: dict[str, Word] = {}
    if pod and pod.grouped:
        for prefix in ("LWS_", "RBG_LWP_"):
            env[f"{prefix}GROUP_SIZE"] = Word(str(pod.nodes), pod.spec.place)
            for name in (f"{prefix}WORKER_INDEX", f"{prefix}LEADER_ADDRESS"):  # each member's own
                env[name] = Word(f"${name}", pod.spec.place, (name,))
    for source in sources:
        config = _config_map(others, source.get("configMapRef", "name").text)
        prefix = source.get("prefix").text
        for key, item in config.items():
            env[prefix + key] = item.word
    for entries in lists:
        for entry in entries:
            name, value = entry.get("name").text, entry.get("value")
            reference = entry.get("valueFrom", "configMapKeyRef")
            if value:
                env[name] = _expand(value, env)
            elif reference:
                item = _config_map(others, reference.get("name").text).get(reference.get("key").text)
                env[name] = item.word if item else Word(f"${name}", entry.place, (name,))
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
    return [_expand(item, env) for item in items]


def _expand(item: Item, env: Mapping[str, Word]) -> Word:
    missing: list[str] = []
    whole = bool(re.search(r"\s", item.text))  # a script: what looks like a reference may be its own

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        word = env.get(match[2])
        if word is None:
            if not whole:
                missing.append(match[2])
            return match[0]
        missing.extend(word.missing)
        return word.text

    word = replaced(_REFERENCE, replace, Word(item.text, item.body, (), item.breaks))
    if not whole:  # what envsubst or a controller fills in
        missing += [a or b for a, b in _TEMPLATE.findall(word.text)]
    return word._replace(text=word.text[:65_536], missing=tuple(missing))
