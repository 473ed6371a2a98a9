"""Files that name a model, an engine and its options for a service that writes the command: KubeAI, KAITO, BentoVLLM, srt-slurm.

What each makes of them: kubeai internal/modelcontroller/engine_*.go; kaito pkg/workspace/inference (its ConfigMap's `vllm` section);
bentoml/BentoVLLM _src/service.py (args); srt-slurm docs/config-reference.md, both layouts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kvplan import engines
from kvplan.engines.common.words import Finding, Given, Unresolved, Word
from kvplan.manifests import accelerators, images, requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.command import Start
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents
from kvplan.manifests.pods import environment, expand

KUBEAI = {"VLLM": "vllm", "OLlama": "ollama", "FasterWhisper": "FasterWhisper", "Infinity": "Infinity"}
#: srt-slurm's names of engines, and where each reads its options in the older layout.
SRT = {"sglang": ("sglang", "sglang_config"), "vllm": ("vllm", "vllm_config"), "trtllm": ("tensorrt-llm", "trtllm_config")}
CONFIG = "recipe.yaml"
ROLES = ("prefill", "decode", "aggregated", "agg")


def is_service(document: Item) -> bool:
    """One of the four."""
    group = document.get("apiVersion").text
    if "kubeai.org" in group or "kaito.sh" in group:
        return document.get("kind").text in ("Model", "Workspace", "InferenceSet")
    return _is_bento(document) or bool(_srt_engine(document)) or _is_catalog(document)


def _is_bento(document: Item) -> bool:
    return bool(document.get("args", "model_id")) or bool(document.get("engine_config", "model"))


def _is_catalog(document: Item) -> bool:
    return any(item.get("engine") and item.get("url") for _, item in document.get("catalog").items())


def read(document: Item, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines that the service would start."""
    kind = document.get("kind").text
    label = f"{kind}/{document.get('metadata', 'name').text or 'unnamed'}"
    if kind == "Model":
        yield from _kubeai(document.get("spec"), label, n, source)
    elif kind in ("Workspace", "InferenceSet"):
        yield from _kaito(document, label, others, n)
    elif _is_catalog(document):
        for name, item in document.get("catalog").items():
            if item.get("enabled").value is True:
                yield from _kubeai(item, f"catalog/{name}", n, source)
    elif _is_bento(document):
        yield from _bento(document, n)
    else:
        yield from _srt(document, n)


def _kubeai(spec: Item, label: str, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    engine, url = KUBEAI.get(spec.get("engine").text, spec.get("engine").text), spec.get("url")
    env = {name: Word(item.text, item.place) for name, item in spec.get("env").items()}
    hardware = _profile(spec.get("resourceProfile"))
    if engine not in engines.served():
        start = Start("", (), env, spec.place, spec.end_line, in_container=True, foreign=engine or "of this Model")
    else:
        model = url.text.partition("://")[2].partition("?")[0] if url.text.startswith(("hf://", "ollama://")) else url.text
        words = [Word(model, url.place), *expand(spec.get("args"), env)]
        image = images.find(spec.get("image").text)
        version = image.version if image and image.engine == engine else None
        start = Start(engine, tuple(words), env, spec.place, spec.end_line, version, in_container=True)
    yield start, _site(label, n, hardware, spec)


def _profile(item: Item) -> Hardware:
    """`nvidia-gpu-l4:1`: a profile of the chart's values, named after its GPU, and how many."""
    name, _, count = item.text.partition(":")
    n = Given(int(count[:6]), "resourceProfile", item.place) if count.isdecimal() else None
    if name.startswith("cpu"):
        return Hardware(None, None, f"resourceProfile {item.text}: it runs on a processor, which is not modelled", item.place)
    found = requested.device(name.removeprefix("nvidia-gpu-").removeprefix("amd-gpu-"))
    if found:
        return Hardware(Given(found, "resourceProfile", item.place), n, "", item.place)
    return Hardware(None, n, f"resourceProfile {item.text or 'is not given'}: names no one device", item.place)


def _kaito(document: Item, label: str, others: Sequence[Item], n: int) -> Iterator[tuple[Start, Site]]:
    spec = document.get("spec", "template") or document
    inference, resource = spec.get("inference"), spec.get("resource")
    preset, name = inference.get("preset", "name"), inference.get("config").text
    if not preset:
        return
    chosen = _section(others, name)
    label_, instance = "instanceType", resource.get("instanceType")
    device, why = accelerators.instance(instance, label_) if instance else (None, "")
    hardware = Hardware(device, None, why or f"{label_} {instance.text or 'is not given'}", instance.place if instance else spec.place)
    site = _site(label, n, hardware, document)
    if not chosen:
        title = f"of KAITO's preset {preset.text[:60]}, whose options its controller sets,"
        yield Start("", (), {}, preset.place, document.end_line, in_container=True, foreign=title), site
        return
    words = [Word(preset.text, preset.place), *requested.option_words(chosen)]
    start = Start("vllm", tuple(words), {}, preset.place, document.end_line, in_container=True)
    tp = "KAITO's controller sets it to the GPUs of a node"
    if not chosen.get("tensor-parallel-size"):
        site = site._replace(unresolved=(Unresolved("tp", tp, "give it with --tp N", resource.place if resource else preset.place),))
    yield start, site


def _section(others: Sequence[Item], name: str) -> Item:
    """The vLLM options of the ConfigMap that a Workspace names."""
    for one in others:
        if one.get("kind").text == "ConfigMap" and one.get("metadata", "name").text == name and name:
            text = one.get("data", "inference_config.yaml")
            return next((d.get("vllm") for d in documents(text.text, name, text.body)), NOTHING)
    return NOTHING


def _bento(document: Item, n: int) -> Iterator[tuple[Start, Site]]:
    args, config = document.get("args"), document.get("engine_config")
    resources = document.get("service_config", "resources")
    model = config.get("model") or args.get("model_id")
    words = [Word(model.text, model.place), *requested.option_words(config, ("model",))]
    for key, option in (("tp", "--tensor-parallel-size"), ("max_model_len", "--max-model-len")):
        if item := args.get(key):
            words += [Word(option, item.place), Word(item.text, item.place)]
    words += [Word(item.text, item.place) for item in args.get("cli_args")]
    env = environment([args.get("envs"), document.get("extra_envs")], [], [])
    kind = args.get("gpu_type") or resources.get("gpu_type")
    hardware = _bento_device(kind, resources.get("gpu") or args.get("tp"), document)
    start = Start("vllm", tuple(words), env, model.place, document.end_line, in_container=True)
    yield start, _site(args.get("name").text or document.get("project").text, n, hardware, document)


def _bento_device(kind: Item, count: Item, document: Item) -> Hardware:
    n = Given(int(count.text[:6]), "gpu", count.place) if count.text.isdecimal() else None
    found = requested.device(kind.text) if kind else None
    if found:
        return Hardware(Given(found, "gpu_type", kind.place), n, "", kind.place)
    return Hardware(None, n, f"gpu_type {kind.text or 'is not given'}", kind.place if kind else document.place)


def _srt_engine(document: Item) -> str:
    if not document.get("model", "path") or not document.get("resources"):
        return ""
    if document.get("roles") and document.get("engine").text in SRT:
        return document.get("engine").text
    backend = document.get("backend")
    named = backend.get("type").text or next((name for name, (_, key) in SRT.items() if backend.get(key)), "")
    return named if named in SRT and backend else ""


def _srt(document: Item, n: int) -> Iterator[tuple[Start, Site]]:
    named = _srt_engine(document)
    engine, key = SRT[named]
    resources, model, backend = document.get("resources"), document.get("model"), document.get("backend")
    per_node = resources.get("gpus_per_node")
    for role in ROLES:
        v2 = document.get("roles", role)
        options = v2.get("args") or v2.get("config") if v2 else backend.get(key, role)
        if not options and not v2:
            continue
        own = v2.get("gpus") or resources.get(f"gpus_per_{role}")
        count = own or per_node
        kind = resources.get("gpu_type")
        hardware = requested.hardware(kind, "gpu_type", count=count) if kind else Hardware(why="the recipe names no gpu_type")
        env = requested.variables(v2.get("env") or backend.get(f"{role}_environment"))
        words = _srt_words(engine, model.get("path"), options)
        nodes = 1 if own else _number(v2.get("nodes") or resources.get(f"{role}_nodes")) // _number(
            v2.get("workers") or resources.get(f"{role}_workers")
        )
        holder = options or v2
        start = Start(engine, tuple(words), env, holder.place, holder.end_line, in_container=True)
        if engine == "tensorrt-llm":
            start = start._replace(files={CONFIG: (json.dumps(options.plain(), default=str), options.place)})
        site = _site(f"{document.get('name').text or 'recipe'}/{role}", n, hardware, holder)
        yield start, site._replace(nodes=max(nodes, 1), findings=_precision(model.get("precision")))


def _srt_words(engine: str, model: Item, options: Item) -> list[Word]:
    name = Word(model.text.removeprefix("hf:"), model.place)
    if engine == "tensorrt-llm":
        return [name, Word("--config", options.place), Word(CONFIG, options.place)]
    first = [Word("--model-path", model.place), name] if engine == "sglang" else [name]
    return [*first, *requested.option_words(options, ("model-path", "model_path", "model"))]


def _precision(item: Item) -> tuple[Finding, ...]:
    return (Finding("note", "note", f"the recipe says that the weights are {item.text[:20]}", item.place),) if item else ()


def _number(item: Item) -> int:
    return max(int(item.text[:6]), 1) if item.text.isdecimal() else 1


def _site(label: str, n: int, hardware: Hardware, holder: Item) -> Site:
    place = hardware.place if hardware.why or hardware.device else holder.place
    return Site(label, n, hardware.device, hardware.n_devices, 1, hardware.why, place, span=(holder.place.line, holder.end_line))

