"""KServe: InferenceService with its ServingRuntime, and LLMInferenceService with what the controller's own templates run.

What they run: config/runtimes/kserve-huggingfaceserver*.yaml and config/llmisvcconfig/*.yaml of kserve/kserve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvplan.engines.common.words import Finding, Given, Unresolved, Word, words
from kvplan.manifests import foreign, images, pods
from kvplan.manifests.accelerators import GPUS, Hardware, of_pod
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import MOUNTED, Site
from kvplan.manifests.helm import PARALLEL
from kvplan.manifests.lexer import split
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.pods import Pod

RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
KINDS = ("InferenceService", "LLMInferenceService", "LLMInferenceServiceConfig", *RUNTIMES)
#: Formats whose models KServe's own runtime for language models takes.
LANGUAGE_FORMATS = ("huggingface", "vLLM", "vllm")
#: Fields of an LLMInferenceService (pkg/apis/serving/v1alpha2, and v1alpha1's); its LoRA's -> options; what offloading adds.
FIELDS = frozenset({
    "model", "storageInitializer", "router", "prefill", "tracing", "baseRefs", "replicas", "scaling", "parallelism", "labels",
    "annotations", "template", "worker", "kvCacheOffloading", "runtime",
})  # fmt: skip
LORA = {"maxRank": "--max-lora-rank", "maxAdapters": "--max-loras", "maxCpuAdapters": "--max-cpu-loras"}
OFFLOADING = '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}'
_OPTION = re.compile(r"MODEL|ARGS|_LEN|PARALLEL|MEMORY_UTIL|_SEQS|QUANT|DTYPE|CONTEXT")  # variables that name an option
MANAGED = "serving.kserve.io/exp-dra-device-"


def is_kserve(document: Item) -> bool:
    return document.get("kind").text in KINDS and "kserve" in document.get("apiVersion").text


def read(document: Item, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of one object; `others` are the file's objects."""
    kind, name = document.get("kind").text, document.get("metadata", "name").text or "unnamed"
    label = f"{kind}/{name}"
    if kind == "LLMInferenceServiceConfig" and not _says_options(document.get("spec")):
        return  # a template of the controller's own
    if kind.startswith("LLMInferenceService"):
        yield from _llm(document, label, others, n, source)
    elif kind in RUNTIMES:
        if not any(_runtime(d) == name for d in others):  # else read with the InferenceService that uses it
            yield from pods.read(Pod(document.get("spec"), label), others, n, source)
    elif document.get("spec", "predictor", "model"):
        yield from _model(document, label, others, n, source)
    else:
        yield from pods.read(Pod(document.get("spec", "predictor"), label), others, n, source)


def _says_options(spec: Item) -> bool:
    """Whether a part of a configuration hands the engine options, and no command of its own."""
    containers = list(spec.get("template", "containers"))
    return any(one.get("args") for one in containers) and not any(one.get("command") for one in containers)


def _runtime(document: Item) -> str:
    return document.get("spec", "predictor", "model", "runtime").text


def _model(document: Item, label: str, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """A predictor with a model: the runtime's container with the model's arguments after its own."""
    predictor, runtime = document.get("spec", "predictor"), _runtime(document)
    model = predictor.get("model")
    uri = model.get("storageUri") or model.get("storage", "path") or model.get("uri")
    worker = predictor.get("workerSpec")
    pod = Pod(predictor, label, (worker.get("pipelineParallelSize").number() or 1), model=_given(uri, "storageUri"))
    found = next((d for d in others if d.get("kind").text in RUNTIMES and d.get("metadata", "name").text == runtime), NOTHING)
    base = next(iter(found.get("spec", "containers")), NOTHING)
    hardware = of_pod(predictor, [model, base], others)
    if base:
        yield from pods.start(pod, model, hardware, others, n, source, runtime=base)
        return
    named = model.get("runtime")
    own = not runtime or runtime.startswith("kserve-huggingfaceserver")
    if own and model.get("modelFormat", "name").text not in LANGUAGE_FORMATS and not runtime:
        return
    env = pods.environment([model.get("env")], [*model.get("envFrom")], others, pod)
    given = pods.expand(model.get("args"), env)
    absent = f"the runtime {runtime} is not in this file: what it sets itself is not read"
    for_it = ", ".join(name for name in env if _OPTION.search(name))
    absent += f", nor what it makes of {for_it[:160]}" if for_it and not given else ""
    site = pods.site(pod, model, hardware, n, pod.model)._replace(name=label, span=predictor.span)
    engine = None if own else _told(runtime, model.get("modelFormat", "name").text, given)
    if engine == "":
        title = foreign.of_image(runtime) or f"of {absent}; it"
        yield Start("", (), env, named.place, predictor.end_line, in_container=True, foreign=title), site
        return
    if not own:
        more = Unresolved("options", absent, "put it into the same file, or give --tp N and --max-model-len N", named.place)
        site = site._replace(unresolved=(*site.unresolved, more))
    entry = words(*(("kserve-huggingfaceserver",) if own else images.STARTS[engine or "vllm"]), place=model.place)
    entry += worker.options({"tensorParallelSize": "--tensor-parallel-size", "pipelineParallelSize": "--pipeline-parallel-size"})
    for start in container(None, [*entry, *given], None, env, source, model.place, model.end_line):
        yield start, site


def _told(runtime: str, model_format: str, given: Sequence[Word]) -> str:
    """The engine of a runtime that is not in the file: by its name, its format or the options it is handed; empty where none tells it."""
    like = images.like(runtime)
    if like or foreign.of_image(runtime):
        return like.engine if like else ""
    return "vllm" if model_format in LANGUAGE_FORMATS else images.by_options(given)


def _llm(document: Item, label: str, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """An LLMInferenceService: its own pods, and those of a prefill pool."""
    spec = document.get("spec")
    model = _given(spec.get("model", "uri"), "model.uri")
    open_, idle = _based(spec), _idle(spec)
    for part, name in ((spec, label), (spec.get("prefill"), f"{label}/prefill")):
        if not part:
            continue
        template = part.get("template")
        own = list(template.get("containers"))
        main = next((c for c in own if c.get("name").text == "main"), own[0] if own else NOTHING)
        parallel = part.get("parallelism")
        nodes = 1 if parallel.get("dataLocal") else (parallel.get("pipeline").number() or 1)
        pod = Pod(template, name, nodes, model=model)
        hardware = of_pod(template, [main], others)
        if count := _devices(document):
            hardware = hardware._replace(n_devices=hardware.n_devices or count, why=hardware.why and f"{MANAGED}class names no product")
        if main.get("command"):
            found = pods.start(pod, main, hardware, others, n, source)
        else:
            found = _templated(spec, part, main, pod, hardware, others, n, source)
        for start, site in found:
            yield start, site._replace(unresolved=(*site.unresolved, *open_), findings=(*site.findings, *idle))


def _templated(
    spec: Item, part: Item, main: Item, pod: Pod, hardware: Hardware, others: Sequence[Item], n: int, source: str
) -> Iterator[tuple[Start, Site]]:
    """What the controller's own template runs, with what the spec adds to its options."""
    holder = main or part
    env = pods.environment([main.get("env")], [*main.get("envFrom")], others, pod)
    more = env.pop("VLLM_ADDITIONAL_ARGS", None)  # the template's script alone reads it
    if spec.get("runtime").text == "sglang":
        entry = words("python3", "-m", "sglang.launch_server", "--model-path", MOUNTED, place=holder.place)
    else:
        entry = words("vllm", "serve", MOUNTED, place=holder.place)
        entry += [*_parallel(part.get("parallelism")), *_added(spec, part), *(split(more, source) if more else ())]
    image = main.get("image")
    for start in container(
        image.word if image else None, entry, pods.expand(main.get("args"), env), env, source, holder.place, holder.end_line,
        files=pods.config_files(others),
    ):  # fmt: skip
        yield start, pods.site(pod, main, hardware, n, pod.model)._replace(span=holder.span)


def _added(spec: Item, part: Item) -> list[Word]:
    """The options of `kvCacheOffloading` and of `model.lora` (config_merge.go, workload_lora.go)."""
    offloading, lora = part.get("kvCacheOffloading"), spec.get("model", "lora")
    added = words("--kv-transfer-config", OFFLOADING, place=offloading.place) if offloading else []
    if list(lora.get("adapters")):
        added += [*words("--enable-lora", place=lora.place), *lora.options(LORA)]
    return added


def _based(spec: Item) -> tuple[Unresolved, ...]:
    """What the configurations that a service is merged with may set."""
    names = ", ".join(one.get("name").text for one in spec.get("baseRefs"))
    why = f"what the configurations of baseRefs set is not read ({names})"
    return (Unresolved("options", why, "give --tp N and --max-model-len N", spec.get("baseRefs").place),) if names else ()


def _idle(spec: Item) -> tuple[Finding, ...]:
    """Fields that a service does not have: the API server drops them."""
    said = "is no field of an LLMInferenceService that is known here: it has no effect, or one that is not read"
    return tuple(Finding("no-effect", "warning", f"spec.{key} {said}", item.place) for key, item in spec.items() if key not in FIELDS)


def _devices(document: Item) -> Given | None:
    """How many devices the controller claims for a container (annotations of its managed DRA); one where only their class is named."""
    notes = document.get("metadata", "annotations")
    kind, count = notes.get(f"{MANAGED}class"), notes.get(f"{MANAGED}count")
    return Given(count.number(), f"{MANAGED}count", (count or kind).place) if kind.text in GPUS else None


def _parallel(parallel: Item) -> list[Word]:
    alone = words("--enable-expert-parallel", place=parallel.place) if parallel.get("expert").value is True else []
    return [*parallel.options({"pipeline": "--pipeline-parallel-size", **PARALLEL}), *alone]


def _given(uri: Item, spelled: str) -> Given | None:
    return Given(uri.text, spelled, uri.place) if uri else None
