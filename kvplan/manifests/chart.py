"""Values of a chart that is not known: an image that serves models, with what stands beside it under the names that charts use."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engines.common.words import Word, words
from kvplan.manifests import foreign, images
from kvplan.manifests.accelerators import of_pod
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.pods import environment, expand

#: Keys, at the top or in a section, -> vLLM's options.
OPTIONS = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size", "maxNumSeqs": "--max-num-seqs",
    "pipelineParallelSize": "--pipeline-parallel-size", "gpuMemoryUtilization": "--gpu-memory-utilization",
    "quantization": "--quantization", "kvCacheDtype": "--kv-cache-dtype",
}  # fmt: skip
SECTIONS = ("vllm", "engine", "config", "server", "model", "serving")
MODELS = (("model", "id"), ("model", "name"), ("model", "repository"), ("modelId",), ("modelName",), ("model",), ("huggingface", "model"))


def holders(document: Item) -> Iterator[tuple[str, Item]]:
    """The mappings, at the top or one level below, with an image that serves models."""
    for name, item in (("", document), *document.items()):
        image = reference(item.get("image"))
        if image and (images.find(image) or images.like(image) or foreign.of_image(image)):
            yield name, item


def reference(image: Item) -> str:
    """`image: {repository, tag}`, with or without a registry."""
    repository, registry, tag = image.get("repository").text, image.get("registry").text, image.get("tag").text
    whole = f"{registry}/{repository}" if registry and repository else repository
    return f"{whole}:{tag}" if tag and whole else whole


def is_chart(document: Item) -> bool:
    """Whether any mapping in it has such an image."""
    return next(holders(document), None) is not None


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engine of every such image that is not turned off."""
    for name, item in holders(document):
        if item.get("enabled").value is False:
            continue
        image = Word(reference(item.get("image")), item.get("image").place)
        env = environment([item.get("env"), item.get("extraEnv")], [], [])
        env |= {key: Word(value.text, value.place) for key, value in item.get("env").items()}
        entry = expand(item.get("command"), env) if isinstance(item.get("command").value, list) else None
        args = [word for key in ("args", "extraArgs") for word in expand(item.get(key), env)]
        known = images.find(image.text) or images.like(image.text)
        if known and known.engine == "vllm":
            args += _options(item, any(word.text.startswith("--model") for word in args) or entry is not None)
        pod = Item({k: item.get(k) for k in ("nodeSelector", "affinity") if item.get(k)}, "", item.place, item.end_line)
        hardware = of_pod(pod, [item])
        for start in container(image, entry, args or None, env, source, image.place, item.end_line):
            span = (item.place.line, item.end_line)
            yield start, Site(name or "values", n, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place, span=span)


def _options(item: Item, has_model: bool) -> list[Word]:
    """What stands under the names that charts use, as vLLM's options."""
    model = next((found for path in MODELS if isinstance((found := item.get(*path)).value, str) and found.text), NOTHING)
    own = [] if has_model or not model else [*words("--model", place=model.place), Word(model.text, model.place)]
    for key, option in OPTIONS.items():
        found = next((one for one in (item.get(key), *(item.get(section, key) for section in SECTIONS)) if one), NOTHING)
        if found:
            own += [Word(option, found.place), Word(found.text, found.place)]
    return own
