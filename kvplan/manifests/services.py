"""Files that name a model, an engine and its options for a service that writes the command: KubeAI, KAITO, BentoVLLM, srt-slurm, LLMKube,
Truss.

What each makes of them: kubeai internal/modelcontroller/engine_*.go; kaito pkg/workspace/inference (its ConfigMap's `vllm` section);
bentoml/BentoVLLM _src/service.py (args); srt-slurm docs/config-reference.md, both layouts; LLMKube internal/controller/runtime_*_args.go;
docs.baseten.co "config.yaml reference", "TensorRT-LLM builder configuration".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from kvplan import engines
from kvplan.engines.common.words import Finding, Given, Unresolved, Word
from kvplan.manifests import accelerators, images, requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.command import Start, scripts
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents
from kvplan.manifests.pods import environment, expand
from kvplan.manifests.script import read_script
from kvplan.manifests.weights import by_name

KUBEAI = {"VLLM": "vllm", "OLlama": "ollama", "FasterWhisper": "FasterWhisper", "Infinity": "Infinity"}
#: srt-slurm's names of engines, and where each reads its options in the older layout.
SRT = {"sglang": ("sglang", "sglang_config"), "vllm": ("vllm", "vllm_config"), "trtllm": ("tensorrt-llm", "trtllm_config")}
CONFIG = "recipe.yaml"
#: LLMKube's runtimes: the engine, what it calls otherwise than it, and where its options stand, if not in the spec itself.
_OWN = {"kvCacheCustomDtype": "kv-cache-dtype", "cacheTypeCustomK": "cache-type-k", "cacheTypeCustomV": "cache-type-v"}
_LLAMA = {
    **_OWN, "contextSize": "ctx-size", "parallelSlots": "parallel", "flashAttention": "flash-attn", "uBatchSize": "ubatch-size",
    "batchSize": "batch-size", "moeCPUOffload": "cpu-moe", "moeCPULayers": "n-cpu-moe", "tensorOverrides": "override-tensor",
    "cacheTypeK": "cache-type-k", "cacheTypeV": "cache-type-v", "noKvOffload": "no-kv-offload",
}  # fmt: skip
#: Switches of it that are an option with a value of the engine.
SAID_ON = ("flashAttention",)
LLMKUBE = {
    "llamacpp": ("llama.cpp", _LLAMA, ""),
    "vllm": ("vllm", {**_OWN, "parallelSlots": "max-num-seqs", "cpuOffloadGB": "cpu-offload-gb"}, "vllmConfig"),
    "sglang": ("sglang", {**_OWN, "tensorParallelSize": "tp", "expertParallelSize": "ep", "dataParallelSize": "dp"}, "sglangConfig"),
}
#: Keys of `build` and `runtime` -> options of trtllm-serve; the later of two wins, as the runtime does over the build.
TRUSS = {
    "max_batch_size": "--max_batch_size", "max_num_tokens": "--max_num_tokens", "max_seq_len": "--max_seq_len",
    "max_beam_width": "--max_beam_width", "tensor_parallel_count": "--tp_size", "pipeline_parallel_count": "--pp_size",
    "tensor_parallel_size": "--tp_size", "pipeline_parallel_size": "--pp_size", "moe_expert_parallel_option": "--ep_size",
    "kv_cache_free_gpu_mem_fraction": "--kv_cache_free_gpu_memory_fraction",
}  # fmt: skip
PATCH = "patch_kwargs.yaml"
#: Keys of patch_kwargs that name the model and no option.
NO_OPTIONS = ("model_path", "model", "tokenizer", "served_model_name")
ROLES = ("prefill", "decode", "aggregated", "agg")


def is_service(document: Item) -> bool:
    """One of them."""
    group = document.get("apiVersion").text
    if "kubeai.org" in group or "kaito.sh" in group:
        return document.get("kind").text in ("Model", "Workspace", "InferenceSet")
    if "llmkube.dev" in group:
        return document.get("kind").text == "InferenceService"
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
    elif kind == "InferenceService":
        yield from _llmkube(document.get("spec"), others, label, n)
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
    env = {name: item.word for name, item in spec.get("env").items()}
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


def _llmkube(spec: Item, others: Sequence[Item], label: str, n: int) -> Iterator[tuple[Start, Site]]:
    asked, reference = spec.get("runtime").text or "llamacpp", spec.get("modelRef").text
    models = (one.get("spec") for one in others if (one.get("kind").text, one.get("metadata", "name").text) == ("Model", reference))
    model = next(models, NOTHING)
    device, source = model.get("hardware", "gpu"), model.get("source")
    count = spec.get("resources", "gpu") or device.get("count")
    site = _site(label, n, Hardware(None, count.count("resources.gpu"), "LLMKube names no GPU product", spec.place), spec)
    if asked not in LLMKUBE:
        yield Start("", (), {}, spec.place, spec.end_line, in_container=True, foreign=f"of LLMKube's runtime {asked}"), site
        return
    engine, called, where = LLMKUBE[asked]
    options = {
        key: item for key, item in (spec.get(where) if where else spec).items() if (where or key in called) and item.value is not False
    }
    words = [Word("--model", source.place), _of_files(model, source)] if source else []
    if engine == "llama.cpp" and (count.number(0) or device.get("resourceClaims")):  # claims say elsewhere how many
        words += [Word("--n-gpu-layers", device.place), Word(str(max(device.get("layers").number(0), 0) or 99), device.place)]
    if engine == "llama.cpp" and (projector := model.get("mmproj")):
        words += [Word("--mmproj", projector.place), projector.word]
    if engine == "vllm" and count.number() > 1 and "tensorParallelSize" not in options:
        words += [Word("--tensor-parallel-size", count.place), count.word]
    for key, item in options.items():
        option = Word(f"--{called.get(key) or re.sub(r'(?<=[a-z])(?=[A-Z])', '-', key).lower()}", item.place)
        for one in [*item] if isinstance(item.value, list) else [item] if not isinstance(item.value, dict) else []:
            bare = one.value is True and key not in SAID_ON
            words += [option] if bare else [option, Word("on", one.place) if one.value is True else one.word]
    words += [item.word for item in spec.get("extraArgs")]
    image = images.find(spec.get("image").text)
    version = image.version if image and image.engine == engine else None
    yield Start(engine, tuple(words), {}, spec.place, spec.end_line, version, in_container=True), site


def _of_files(model: Item, source: Item) -> Word:
    """A repository of GGUF files with the type of the one that is loaded: the first of `files` that is no projector."""
    projector = model.get("mmproj").text
    names = [one.text for one in model.get("files") if one.text.endswith(".gguf") and one.text != projector and "mmproj" not in one.text]
    type_ = by_name(names[0]) if names else None
    return source.word._replace(text=f"{source.text}:{type_}") if type_ and source.text.startswith("hf://") else source.word


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
    words = [preset.word, *requested.option_words(chosen)]
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
    words = [model.word, *requested.option_words(config, ("model",))]
    words += args.options({"tp": "--tensor-parallel-size", "max_model_len": "--max-model-len"})
    words += [item.word for item in args.get("cli_args")]
    env = environment([args.get("envs"), document.get("extra_envs")], [], [])
    kind = args.get("gpu_type") or resources.get("gpu_type")
    hardware = _bento_device(kind, resources.get("gpu") or args.get("tp"), document)
    start = Start("vllm", tuple(words), env, model.place, document.end_line, in_container=True)
    yield start, _site(args.get("name").text or document.get("project").text, n, hardware, document)


def _bento_device(kind: Item, count: Item, document: Item) -> Hardware:
    n = count.count("gpu")
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
        nodes = (
            1
            if own
            else (v2.get("nodes") or resources.get(f"{role}_nodes")).number()
            // max((v2.get("workers") or resources.get(f"{role}_workers")).number(), 1)
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
    off = [key for key, one in options.items() if one.value is False]  # left out (srtctl backends/sglang.py, vllm.py _config_to_cli_args)
    return [*first, *requested.option_words(options, ("model-path", "model_path", "model", *off))]


def _precision(item: Item) -> tuple[Finding, ...]:
    return (Finding("note", "note", f"the recipe says that the weights are {item.text[:20]}", item.place),) if item else ()


def _site(label: str, n: int, hardware: Hardware, holder: Item) -> Site:
    place = hardware.place if hardware.why or hardware.device else holder.place
    return Site(label, n, hardware.device, hardware.n_devices, 1, hardware.why, place, span=holder.span)


def is_truss(document: Item) -> bool:
    """A start command, or an engine to build."""
    return bool(document.get("docker_server", "start_command")) or isinstance(document.get("trt_llm").value, dict)


def read_truss(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of the command, or the one that is built."""
    item = document.get("resources", "accelerator")
    hardware = requested.hardware(item, "accelerator", requested.BASETEN)
    place = hardware.place if item else document.place
    site = Site(document.get("model_name").text, n, hardware.device, hardware.n_devices, 1, hardware.why, place,
                span=document.span)  # fmt: skip
    if document.get("trt_llm"):
        yield _built(document, hardware), site
        return
    command = document.get("docker_server", "start_command")
    env = requested.variables(document.get("environment_variables"))
    image = images.find(document.get("base_image", "image").text)
    paths = _paths(document)
    script = read_script(command.text, source, base=command.body, breaks=command.breaks, env=env)
    for start in scripts(script, source):
        version = image.version if image and image.engine == start.engine else None
        words = tuple(_named(word, paths) for word in start.words)
        yield start._replace(words=words, version=start.version or version, in_container=True), site


def _paths(document: Item) -> dict[str, str]:
    """Where the weights are put -> the model that they are."""
    paths = {}
    for one in document.get("weights"):
        source = one.get("source").text
        if source.startswith("hf://") and one.get("mount_location"):
            paths[one.get("mount_location").text.rstrip("/")] = source[5:].partition("@")[0]
    for one in document.get("model_cache"):
        if one.get("volume_folder") and one.get("repo_id"):
            paths[f"/app/model_cache/{one.get('volume_folder').text}"] = one.get("repo_id").text
    return paths


def _named(word: Word, paths: dict[str, str]) -> Word:
    name, equals, value = word.text.rpartition("=")
    found = paths.get(value.rstrip("/"))
    return word._replace(text=f"{name}{equals}{found}") if found else word


def _built(document: Item, hardware: Hardware) -> Start:
    """The engine that a `trt_llm` section builds, as trtllm-serve would be told."""
    build, runtime = document.get("trt_llm", "build"), document.get("trt_llm", "runtime")
    patch = runtime.get("patch_kwargs")
    cached = _paths(document).get(patch.get("model_path").text.rstrip("/")) if patch.get("model_path") else None
    repository = build.get("checkpoint_repository", "repo")
    place = repository.place if repository else build.place
    words = [Word(cached or repository.text, place)] if cached or repository else []
    for key, option in TRUSS.items():
        if item := runtime.get(key) or build.get(key):
            words += [Word(option, item.place), item.word]
    kind = build.get("quantization_type") or NOTHING
    if kind.text.endswith("_kv"):
        words += [Word("--kv_cache_dtype", kind.place), Word("fp8", kind.place)]
    files = {}
    if patch:
        words += [Word("--config", patch.place), Word(PATCH, patch.place)]
        plain = {key: item.plain() for key, item in patch.items() if key not in NO_OPTIONS}
        files[PATCH] = (json.dumps(plain, default=str), patch.place)
    holder = document.get("trt_llm")
    env = requested.variables(document.get("environment_variables"))
    engine = {"encoder": "", "encoder_bert": ""}.get(build.get("base_model").text, "tensorrt-llm")
    title = "" if engine else "of embeddings (Baseten Embeddings Inference)"
    return Start(
        engine, tuple(words), env, holder.place, holder.end_line, in_container=True, files=files, foreign=title, weights=_weights(kind)
    )


def _weights(kind: Item) -> Given | None:
    """`quantization_type`: fp8, fp8_kv, fp4, fp4_mlp_only, weights_int4 and their like, as TensorRT-LLM calls them."""
    algorithm = {"fp8": "fp8", "fp4": "nvfp4", "weights": "w8a16", "smooth": "w8a8_int8"}.get(kind.text.partition("_")[0])
    algorithm = "w4a16" if "int4" in kind.text else algorithm
    return Given(algorithm, "quantization_type", kind.place) if algorithm else None
