"""Helm values that name engines: the vLLM production stack (servingEngineSpec), llm-d's modelservice (modelArtifacts, decode, prefill),
Ollama's chart; of a chart that is not known an image that serves models, with what stands beside it under the names that charts use.

What their templates make of the values: production-stack helm/templates/deployment-vllm-multi.yaml; llm-d-modelservice
templates/_helpers.tpl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvplan import engines
from kvplan.engines.common.words import Finding, Given, Place, Word, words
from kvplan.manifests import foreign, images, requested
from kvplan.manifests.accelerators import Hardware, of_pod
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents, made
from kvplan.manifests.pods import environment, expand
from kvplan.manifests.words import replaced

#: vllmConfig keys of the production stack -> options.
STACK = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size", "maxNumSeqs": "--max-num-seqs",
    "pipelineParallelSize": "--pipeline-parallel-size", "gpuMemoryUtilization": "--gpu-memory-utilization", "maxLoras": "--max-loras",
}  # fmt: skip
#: `parallelism` of llm-d's charts.
PARALLEL = {"tensor": "--tensor-parallel-size", "data": "--data-parallel-size", "dataLocal": "--data-parallel-size-local"}
#: The other keys that deployment-vllm-multi.yaml and ray-cluster.yaml read; --pipeline-parallel-size is of the latter alone.
STACK_OTHERS = frozenset({"v0", "v1", "enableChunkedPrefill", "enablePrefixCaching", "extraArgs", "prometheusMultiprocDir", "runner"})
OF_RAY = "pipelineParallelSize"
#: Sections of a chart that is not known, which hold an engine's options under their names, as its own top does.
SECTIONS = ("vllm", "engine", "config", "server", "model", "serving")
MODELS = (
    ("model", "id"),
    ("model", "repoId"),
    ("model", "modelId"),
    ("model", "huggingfaceId"),
    ("model", "name"),
    ("model", "repository"),
    ("modelId",),
    ("modelName",),
    ("model",),
    ("huggingface", "model"),
)
NAMING = ("@model", "@path", "@hub", "@config")  # options that name files
MAX_DEPTH = 8
_VALUE = re.compile(r"\{\{-?\s*\.Values\.([\w.]+)\s*-?\}\}")
#: Parts that fetch a model with the engine's image, or ask a server: they load none.
_FETCHES = re.compile(r"(?i:(^|[a-z_-])(down|pre)load)|^(?i:init|pull|fetch|bench|benchmark|test|tests|probe|exporter)(?![a-z])")
#: What holds the settings of a pod beside a container's own, as charts spell it.
_PODS = ("pod", "defaultPodOptions", "podOptions")
_PLACED = ("nodeSelector", "affinity", "runtimeClassName")


def is_values(document: Item) -> bool:
    """Values of one of the two charts."""
    return bool(document.get("servingEngineSpec", "modelSpec")) or bool(document.get("modelArtifacts"))


def _stacks(document: Item, depth: int = 0) -> Iterator[Item]:
    """Values of the two charts below the name that a chart of one's own gives them."""
    for _, item in document.items() if depth < MAX_DEPTH else ():
        if item.get("enabled").value is not False:
            yield from (item,) if is_values(item) else _stacks(item, depth + 1)


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines that the chart would start."""
    specs = document.get("servingEngineSpec", "modelSpec")
    for spec in [specs] if isinstance(specs.value, dict) else specs:  # one mapping in charts made after it
        if document.get("servingEngineSpec", "enableEngine").value is not False and spec.get("enabled").value is not False:
            yield from _stack(document, spec, n, source)
    if document.get("modelArtifacts"):
        for role in ("decode", "prefill"):
            part = document.get(role)
            if part and part.get("create").value is not False:
                yield from _llm_d(document, part, role, n, source)


def _stack(document: Item, spec: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    config = spec.get("vllmConfig")
    model = spec.get("modelURL")
    words = [Word("vllm", spec.place), Word("serve", spec.place)] + ([model.word] if model else [])
    read = {*STACK, *STACK_OTHERS} - (set() if spec.get("raySpec") else {OF_RAY})
    idle = [key for key, _ in config.items() if key not in read]
    words += config.options({key: option for key, option in STACK.items() if key not in idle})
    if item := config.get("enableChunkedPrefill"):
        words.append(Word("--enable-chunked-prefill" if item.value else "--no-enable-chunked-prefill", item.place))
    caching = config.get("enablePrefixCaching")
    if config:
        words.append(
            Word("--enable-prefix-caching" if caching.value else "--no-enable-prefix-caching", caching.place if caching else config.place)
        )
    if spec.get("enableLoRA").value:
        words.append(Word("--enable-lora", spec.get("enableLoRA").place))
    if spec.get("lmcacheConfig", "enabled").value:
        place = spec.get("lmcacheConfig").place
        words += [Word("--kv-transfer-config", place), Word('{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}', place)]
    words += [item.word for item in config.get("extraArgs")]
    env = environment([spec.get("env")], [], [])
    if item := spec.get("lmcacheConfig", "cudaVisibleDevices"):
        env["CUDA_VISIBLE_DEVICES"] = item.word
    reference = f"{spec.get('repository').text}:{spec.get('tag').text}" if spec.get("tag") else spec.get("repository").text
    hardware = _requested(document, spec)
    nodes = spec.get("raySpec", "headNode") and spec.get("replicaCount")
    image = Word(reference, spec.get("repository").place)
    for start in container(image, words, None, env, source, spec.place, spec.end_line):
        span = spec.span
        name = f"servingEngineSpec/{spec.get('name').text}"
        several = nodes.number()
        yield start, Site(name, n, hardware.device, hardware.n_devices, several, hardware.why, hardware.place, span=span,
                          findings=(*hardware.findings, *(_idle(key, config) for key in idle)))  # fmt: skip


def _idle(key: str, config: Item) -> Finding:
    """A value that no template of the chart reads."""
    return Finding("no-effect", "warning", f"vllmConfig.{key} is read by no template of the chart and has no effect", config.get(key).place)


def _requested(document: Item, spec: Item) -> Hardware:
    """requestGPU and requestGPUType; node labels from nodeSelectorTerms or nodeSelector."""
    terms = spec.get("nodeSelectorTerms") or document.get("servingEngineSpec", "nodeSelectorTerms")
    affinity = _affinity(terms) if terms else NOTHING
    gpu, kind = spec.get("requestGPU"), spec.get("requestGPUType").text or "nvidia.com/gpu"
    pod = made({"affinity": affinity, "nodeSelector": spec.get("nodeSelector")}, spec)
    return of_pod(pod, [made({"resources": {"limits": {kind: gpu}}}, spec) if gpu else spec])


def _affinity(terms: Item) -> Item:
    """Terms that a chart puts into its pods' affinity."""
    return made({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}, terms)


def _llm_d(document: Item, part: Item, role: str, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    parallel = part.get("parallelism")
    artifacts = document.get("modelArtifacts")
    model = _artifact(artifacts)
    for item in part.get("containers"):
        env = environment([item.get("env")], [*item.get("envFrom")], [])
        kind = item.get("modelCommand").text
        image = item.get("image")
        args = expand(item.get("args"), env)
        entry: list[Word] | None
        if kind == "vllmServe":
            entry = [Word("vllm", item.place), Word("serve", item.place)]
            args = [*([Word(str(model.value), model.place)] if model else []), *parallel.options(PARALLEL), *args]
        elif kind == "imageDefault":
            entry, args = None, [*([Word("--model", item.place), Word(str(model.value), model.place)] if model else []), *args]
        else:
            entry = expand(item.get("command"), env) if item.get("command") else None
        hardware = _llm_d_hardware(document, part, item, parallel)
        found = container(image.word if image else None, entry, args or None, env, source, item.place, item.end_line)
        workers = parallel.get("workers").number() if document.get("multinode").value else 1
        for start in found:
            name = f"{role}/{item.get('name').text or 'vllm'}"
            span = item.span
            yield start, Site(name, n, hardware.device, hardware.n_devices, workers, hardware.why, hardware.place, span=span, model=model)


def _artifact(artifacts: Item) -> Given | None:
    """hf://org/model, pvc+hf://claim/cache/org/model; pvc:// and oci:// are a volume."""
    name, uri = artifacts.get("name"), artifacts.get("uri")
    text = re.sub(r"\{\{\s*\.Values\.modelArtifacts\.name\s*\}\}", name.text, uri.text).replace('"', "")
    if text.startswith("hf://"):
        return Given(text[5:], "modelArtifacts.uri", uri.place)
    if text.startswith("pvc+hf://"):
        return Given("/".join(text.split("/")[-2:]), "modelArtifacts.uri", uri.place)
    if text:
        return Given(text, "modelArtifacts.uri", uri.place)
    return Given(name.text, "modelArtifacts.name", name.place) if name else None


def _llm_d_hardware(document: Item, part: Item, item: Item, parallel: Item) -> Hardware:
    types = part.get("acceleratorTypes")
    labels: dict[str, Item] = {}
    values = list(types.get("labelValues"))
    if types.get("labelKey").text and len(values) == 1:
        labels[types.get("labelKey").text] = values[0]
    selector = part.get("extraConfig", "nodeSelector") or part.get("nodeSelector")
    node = Item(
        {**labels, **(selector.value if isinstance(selector.value, dict) else {})}, "", types.place if types else part.place, part.end_line
    )
    pod = Item({"nodeSelector": node, "affinity": part.get("extraConfig", "affinity")}, "", part.place, part.end_line)
    hardware = of_pod(pod, [item])
    if hardware.n_devices is None and document.get("accelerator", "type").text in ("", "nvidia", "amd"):
        local = parallel.get("dataLocal") or parallel.get("data")
        n = parallel.get("tensor").number() * local.number()
        hardware = hardware._replace(n_devices=Given(n, "parallelism", parallel.place if parallel else Place(part.place.line)))
        if hardware.device is None and not labels:
            hardware = hardware._replace(why="the values name no acceleratorTypes")
    return hardware


def holders(document: Item, name: str = "", placed: Mapping[str, Item] = {}, depth: int = 0) -> Iterator[tuple[str, Item, Item]]:
    """The mappings with an image that serves models, each with where its pod may run; none of a part that is turned off."""
    own = [document, *(document.get(key) for key in _PODS)]
    placed = {**placed, **{key: one.get(key) for one in own for key in _PLACED if one.get(key)}}
    if terms := document.get("nodeAffinity", "nodeSelectorTerms") or document.get("nodeSelectorTerms"):
        placed["affinity"] = _affinity(terms)
    image = reference(document.get("image"))
    if image and (images.find(image) or images.like(image) or foreign.of_image(image)):
        yield name, document, Item(dict(placed), "", document.place, document.end_line)
    for key, item in document.items() if depth < MAX_DEPTH else ():
        if isinstance(item.value, dict) and item.get("enabled").value is not False and not _FETCHES.search(key):
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


def reference(image: Item, own: str = "") -> str:
    """`image: {repository, tag}`, with or without a registry. `own`: the chart's repository."""
    repository, registry, tag = image.get("repository").text or own, image.get("registry").text, image.get("tag").text
    whole = f"{registry}/{repository}" if registry and repository else repository
    return f"{whole}:{tag}" if tag and whole else whole


def is_chart(document: Item) -> bool:
    """Whether any mapping in it has such an image, or it is a values file of Ollama's chart."""
    return _is_ollama(document) or next(holders(document), None) is not None or any(_stacks(document))


def _is_ollama(document: Item) -> bool:
    """github.com/otwld/ollama-helm, values.yaml."""
    own = document.get("ollama")
    return bool(own.get("models", "pull") or own.get("models", "run") or (own.get("gpu", "enabled") and not own.get("gpu", "image")))


def _ollama(document: Item, n: int) -> Iterator[tuple[Start, Site]]:
    """The server, with each of the models that the chart runs; what it only pulls is loaded when it is asked for."""
    own, image = document.get("ollama"), reference(document.get("image"), "ollama/ollama")
    known = images.find(image)
    env = environment([document.get("extraEnv")], [], [])
    gpu, number = own.get("gpu"), own.get("gpu", "number")
    count = Given(int(number.text[:6]) if number.text.isdecimal() else 1, "gpu.number", gpu.place) if gpu.get("enabled").value else None
    pod = Item({key: document.get(key) for key in _PLACED if document.get(key)}, "", document.place, document.end_line)
    hardware = of_pod(pod, [])
    for model in [*own.get("models", "run")] or [NOTHING]:
        run = tuple(words("ollama", "run", model.text, place=model.place))[2:] if model else ()
        start = Start("ollama", run, env, own.place, own.end_line, known.version if known else None, in_container=True)
        span = own.span
        yield start, Site("ollama", n, hardware.device, count or hardware.n_devices, 1, hardware.why, own.place, span=span)


def read_other(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engine of every such image that is not turned off."""
    if _is_ollama(document):
        yield from _ollama(document, n)
        return
    for part in _stacks(document):
        yield from read(part, n, source)
    for name, item, pod in holders(document):
        if item.get("enabled").value is False:
            continue
        image = Word(reference(item.get("image")), item.get("image").place)
        env = environment([item.get("env"), item.get("extraEnv")], [], [])
        env |= {key: value.word for key, value in item.get("env").items()}
        own = [item, *(part for section in ("image", *SECTIONS) if not reference((part := item.get(section)).get("image")))]
        command = next((one.get("command") for one in own if one.get("command")), NOTHING)
        entry = expand(command, env) if isinstance(command.value, list) else None
        args = [_valued(word, document) for one in own for key in ("args", "extraArgs") for word in expand(one.get(key), env)]
        known = images.find(image.text) or images.like(image.text)
        if known and known.engine != "ollama":
            args += _named_options(item, known.engine, any(re.match("--model|-m$", word.text) for word in args) or entry is not None)
        hardware = of_pod(pod, [item])
        for start in container(image, entry, args or None, env, source, image.place, item.end_line):
            if start.engine == "ollama" and not start.words and (model := _model(item)):
                start = start._replace(words=(model.word,))
            span = item.span
            yield start, Site(name or "values", n, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place, span=span)


def _valued(word: Word, document: Item) -> Word:
    """`{{ .Values.vllm.model }}` in a value that the chart hands to `tpl`: what stands there."""
    return replaced(_VALUE, lambda match: document.get(*match[1].split(".")).text or match[0], word)


def _named_options(item: Item, engine: str, has_model: bool) -> list[Word]:
    """What stands under the names of the engine's options that size its memory, in camel case too; a chart leaves out what is false."""
    table, model = engines.arguments(engine), _model(item)
    own = [] if has_model or not model else [*words(*table.model_option(model.text), place=model.place), model.word]
    names = {name.replace("_", "-"): name for row in table.rows if row.to and row.to not in NAMING for name in row.names}
    found: dict[str, Item] = {}
    for part in (item, *(item.get(section) for section in SECTIONS)):
        for key, one in requested.dashed(part).items():
            name, plain = names.get(f"--{key.replace('_', '-')}"), isinstance(one.value, (str, int, float))
            if name and plain and one.text and one.value is not False:
                found.setdefault(name.lstrip("-"), one)
    return own + requested.option_words(Item(found, "", item.place, item.end_line))


def _model(item: Item) -> Item:
    """The model under one of the names that charts use."""
    return next((found for path in MODELS if isinstance((found := item.get(*path)).value, str) and found.text), NOTHING)
