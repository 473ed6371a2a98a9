"""Helm values that name engines: the vLLM production stack (servingEngineSpec) and llm-d's modelservice (modelArtifacts, decode, prefill).

What their templates make of the values: production-stack helm/templates/deployment-vllm-multi.yaml; llm-d-modelservice
templates/_helpers.tpl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.engines.common.words import Finding, Given, Place, Word
from kvplan.manifests.accelerators import Hardware, of_pod
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.pods import environment, expand

#: vllmConfig keys of the production stack -> options.
STACK = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "maxLoras": "--max-loras",
}
#: The other keys that deployment-vllm-multi.yaml and ray-cluster.yaml read; --pipeline-parallel-size is of the latter alone.
STACK_OTHERS = frozenset({"v0", "v1", "enableChunkedPrefill", "enablePrefixCaching", "extraArgs", "prometheusMultiprocDir", "runner"})
OF_RAY = "pipelineParallelSize"


def is_values(document: Item) -> bool:
    """Values of one of the two charts."""
    return bool(document.get("servingEngineSpec", "modelSpec")) or bool(document.get("modelArtifacts"))


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines that the chart would start."""
    for spec in (
        document.get("servingEngineSpec", "modelSpec") if document.get("servingEngineSpec", "enableEngine").value is not False else ()
    ):
        if spec.get("enabled").value is not False:
            yield from _stack(document, spec, n, source)
    if document.get("modelArtifacts"):
        for role in ("decode", "prefill"):
            part = document.get(role)
            if part and part.get("create").value is not False:
                yield from _llm_d(document, part, role, n, source)


def _stack(document: Item, spec: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    config = spec.get("vllmConfig")
    model = spec.get("modelURL")
    words = [Word("vllm", spec.place), Word("serve", spec.place)] + ([Word(model.text, model.place)] if model else [])
    idle = [
        key for key, _ in config.items() if (key not in STACK and key not in STACK_OTHERS) or (key == OF_RAY and not spec.get("raySpec"))
    ]
    for key, option in STACK.items():
        if key not in idle and (item := config.get(key)):
            words += [Word(option, item.place), Word(item.text, item.place)]
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
    words += [Word(item.text, item.place) for item in config.get("extraArgs")]
    env = environment([spec.get("env")], [], [])
    if item := spec.get("lmcacheConfig", "cudaVisibleDevices"):
        env["CUDA_VISIBLE_DEVICES"] = Word(item.text, item.place)
    reference = f"{spec.get('repository').text}:{spec.get('tag').text}" if spec.get("tag") else spec.get("repository").text
    hardware = _requested(document, spec)
    nodes = spec.get("raySpec", "headNode") and spec.get("replicaCount")
    image = Word(reference, spec.get("repository").place)
    for start in container(image, words, None, env, source, spec.place, spec.end_line):
        span = (spec.place.line, spec.end_line)
        name = f"servingEngineSpec/{spec.get('name').text}"
        several = int(nodes.text[:6]) if nodes and nodes.text.isdecimal() else 1
        yield start, Site(name, n, hardware.device, hardware.n_devices, several, hardware.why, hardware.place, span=span,
                          findings=(*hardware.findings, *(_idle(key, config) for key in idle)))  # fmt: skip


def _idle(key: str, config: Item) -> Finding:
    """A value that no template of the chart reads."""
    return Finding("no-effect", "warning", f"vllmConfig.{key} is read by no template of the chart and has no effect", config.get(key).place)


def _requested(document: Item, spec: Item) -> Hardware:
    """requestGPU and requestGPUType; node labels from nodeSelectorTerms or nodeSelector."""
    terms = spec.get("nodeSelectorTerms") or document.get("servingEngineSpec", "nodeSelectorTerms")
    affinity = Item({"nodeSelectorTerms": terms}, "", spec.place, spec.end_line)
    required = Item({"requiredDuringSchedulingIgnoredDuringExecution": affinity}, "", spec.place, spec.end_line)
    node = Item({"nodeAffinity": required}, "", spec.place, spec.end_line)
    gpu, kind = spec.get("requestGPU"), spec.get("requestGPUType").text or "nvidia.com/gpu"
    limits = Item({"limits": Item({kind: gpu} if gpu else {}, "", spec.place, spec.end_line)}, "", spec.place, spec.end_line)
    holder = Item({"resources": limits}, "", spec.place, spec.end_line)
    pod = Item({"affinity": node if terms else NOTHING, "nodeSelector": spec.get("nodeSelector")}, "", spec.place, spec.end_line)
    return of_pod(pod, [holder])


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
            args = [*([Word(str(model.value), model.place)] if model else []), *_parallel(parallel), *args]
        elif kind == "imageDefault":
            entry, args = None, [*([Word("--model", item.place), Word(str(model.value), model.place)] if model else []), *args]
        else:
            entry = expand(item.get("command"), env) if item.get("command") else None
        hardware = _llm_d_hardware(document, part, item, parallel)
        found = container(Word(image.text, image.place) if image else None, entry, args or None, env, source, item.place, item.end_line)
        workers = _count(parallel.get("workers"), 1) if document.get("multinode").value else 1
        for start in found:
            name = f"{role}/{item.get('name').text or 'vllm'}"
            span = (item.place.line, item.end_line)
            yield start, Site(name, n, hardware.device, hardware.n_devices, workers, hardware.why, hardware.place, span=span, model=model)


def _parallel(parallel: Item) -> list[Word]:
    words = []
    for key, option in (
        ("tensor", "--tensor-parallel-size"),
        ("data", "--data-parallel-size"),
        ("dataLocal", "--data-parallel-size-local"),
    ):
        if item := parallel.get(key):
            words += [Word(option, item.place), Word(item.text, item.place)]
    return words


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
        n = _count(parallel.get("tensor"), 1) * _count(local, 1)
        hardware = hardware._replace(n_devices=Given(n, "parallelism", parallel.place if parallel else Place(part.place.line)))
        if hardware.device is None and not labels:
            hardware = hardware._replace(why="the values name no acceleratorTypes")
    return hardware


def _count(item: Item, default: int) -> int:
    return int(item.text[:6]) if item.text.isdecimal() else default
