"""Values of a chart that is not known: an image that serves models, with what stands beside it under the names that charts use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvplan.engines.common.words import Given, Word, words
from kvplan.manifests import foreign, images
from kvplan.manifests.accelerators import of_pod
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents
from kvplan.manifests.pods import environment, expand

#: Keys, at the top or in a section, -> vLLM's options.
OPTIONS = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size", "maxNumSeqs": "--max-num-seqs",
    "pipelineParallelSize": "--pipeline-parallel-size", "gpuMemoryUtilization": "--gpu-memory-utilization",
    "quantization": "--quantization", "kvCacheDtype": "--kv-cache-dtype",
}  # fmt: skip
SECTIONS = ("vllm", "engine", "config", "server", "model", "serving")
MODELS = (("model", "id"), ("model", "name"), ("model", "repository"), ("modelId",), ("modelName",), ("model",), ("huggingface", "model"))


MAX_DEPTH = 8
#: What holds the settings of a pod beside a container's own, as charts spell it.
_PODS = ("pod", "defaultPodOptions", "podOptions")
_PLACED = ("nodeSelector", "affinity", "runtimeClassName")


def holders(document: Item, name: str = "", placed: Mapping[str, Item] = {}, depth: int = 0) -> Iterator[tuple[str, Item, Item]]:
    """The mappings with an image that serves models, each with where its pod may run; none of a part that is turned off."""
    own = [document, *(document.get(key) for key in _PODS)]
    placed = {**placed, **{key: one.get(key) for one in own for key in _PLACED if one.get(key)}}
    image = reference(document.get("image"))
    if image and (images.find(image) or images.like(image) or foreign.of_image(image)):
        yield name, document, Item(dict(placed), "", document.place, document.end_line)
    for key, item in document.items() if depth < MAX_DEPTH else ():
        if isinstance(item.value, dict) and item.get("enabled").value is not False:
            yield from holders(item, key, placed, depth + 1)


def inner(document: Item, source: str) -> list[Item]:
    """The values that a Flux HelmRelease or an Argo CD Application hands to a chart."""
    spec = document.get("spec")
    if document.get("kind").text == "HelmRelease":
        return [spec.get("values")] if spec.get("values") else []
    if document.get("kind").text != "Application" or "argoproj.io" not in document.get("apiVersion").text:
        return []
    found = []
    for one in (spec.get("source"), *spec.get("sources")):
        text = one.get("helm", "values")
        found += [one.get("helm", "valuesObject")] if one.get("helm", "valuesObject") else []
        found += documents(text.text, source, text.body) if isinstance(text.value, str) else []
    return found


def reference(image: Item) -> str:
    """`image: {repository, tag}`, with or without a registry."""
    repository, registry, tag = image.get("repository").text, image.get("registry").text, image.get("tag").text
    whole = f"{registry}/{repository}" if registry and repository else repository
    return f"{whole}:{tag}" if tag and whole else whole


def is_chart(document: Item) -> bool:
    """Whether any mapping in it has such an image, or it is a values file of Ollama's chart."""
    return _is_ollama(document) or next(holders(document), None) is not None


def _is_ollama(document: Item) -> bool:
    """github.com/otwld/ollama-helm, values.yaml."""
    own = document.get("ollama")
    return bool(own.get("models", "pull") or own.get("models", "run") or own.get("gpu", "enabled"))


def _ollama(document: Item, n: int) -> Iterator[tuple[Start, Site]]:
    """The server, with each of the models that the chart runs; what it only pulls is loaded when it is asked for."""
    own, image = document.get("ollama"), reference(document.get("image"))
    known = images.find(image) if image else None
    env = environment([document.get("extraEnv")], [], [])
    gpu, number = own.get("gpu"), own.get("gpu", "number")
    count = Given(int(number.text[:6]) if number.text.isdecimal() else 1, "gpu.number", gpu.place) if gpu.get("enabled").value else None
    pod = Item({key: document.get(key) for key in _PLACED if document.get(key)}, "", document.place, document.end_line)
    hardware = of_pod(pod, [])
    for model in [*own.get("models", "run")] or [NOTHING]:
        run = tuple(words("ollama", "run", model.text, place=model.place))[2:] if model else ()
        start = Start("ollama", run, env, own.place, own.end_line, known.version if known else None, in_container=True)
        span = (own.place.line, own.end_line)
        yield start, Site("ollama", n, hardware.device, count or hardware.n_devices, 1, hardware.why, own.place, span=span)


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engine of every such image that is not turned off."""
    if _is_ollama(document):
        yield from _ollama(document, n)
        return
    for name, item, pod in holders(document):
        if item.get("enabled").value is False:
            continue
        image = Word(reference(item.get("image")), item.get("image").place)
        env = environment([item.get("env"), item.get("extraEnv")], [], [])
        env |= {key: Word(value.text, value.place) for key, value in item.get("env").items()}
        command = item.get("command") or item.get("image", "command")
        entry = expand(command, env) if isinstance(command.value, list) else None
        args = [word for key in ("args", "extraArgs") for word in expand(item.get(key), env)]
        known = images.find(image.text) or images.like(image.text)
        if known and known.engine == "vllm":
            args += _options(item, any(word.text.startswith("--model") for word in args) or entry is not None)
        hardware = of_pod(pod, [item])
        for start in container(image, entry, args or None, env, source, image.place, item.end_line):
            if start.engine == "ollama" and not start.words and (model := _model(item)):
                start = start._replace(words=(Word(model.text, model.place),))
            span = (item.place.line, item.end_line)
            yield start, Site(name or "values", n, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place, span=span)


def _options(item: Item, has_model: bool) -> list[Word]:
    """What stands under the names that charts use, as vLLM's options."""
    model = _model(item)
    own = [] if has_model or not model else [*words("--model", place=model.place), Word(model.text, model.place)]
    for key, option in OPTIONS.items():
        found = next((one for one in (item.get(key), *(item.get(section, key) for section in SECTIONS)) if one), NOTHING)
        if found:
            own += [Word(option, found.place), Word(found.text, found.place)]
    return own


def _model(item: Item) -> Item:
    """The model under one of the names that charts use."""
    return next((found for path in MODELS if isinstance((found := item.get(*path)).value, str) and found.text), NOTHING)
