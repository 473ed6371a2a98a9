"""Truss's config.yaml: a server's start command, or a `trt_llm` engine that Baseten builds. docs.baseten.co "config.yaml reference",
"TensorRT-LLM builder configuration"."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kvplan.engines.common.words import Given, Word
from kvplan.manifests import images, requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.command import Start, scripts
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.script import read_script

#: Keys of `build` and `runtime` -> options of trtllm-serve; the later of two wins, as the runtime does over the build.
OPTIONS = {
    "max_batch_size": "--max_batch_size", "max_num_tokens": "--max_num_tokens", "max_seq_len": "--max_seq_len",
    "max_beam_width": "--max_beam_width", "tensor_parallel_count": "--tp_size", "pipeline_parallel_count": "--pp_size",
    "tensor_parallel_size": "--tp_size", "pipeline_parallel_size": "--pp_size", "moe_expert_parallel_option": "--ep_size",
    "kv_cache_free_gpu_mem_fraction": "--kv_cache_free_gpu_memory_fraction",
}  # fmt: skip
CONFIG = "patch_kwargs.yaml"
#: Keys of patch_kwargs that name the model and no option.
NO_OPTIONS = ("model_path", "model", "tokenizer", "served_model_name")


def is_truss(document: Item) -> bool:
    """A start command, or an engine to build."""
    return bool(document.get("docker_server", "start_command")) or isinstance(document.get("trt_llm").value, dict)


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of the command, or the one that is built."""
    item = document.get("resources", "accelerator")
    hardware = requested.hardware(item, "accelerator", requested.BASETEN)
    place = hardware.place if item else document.place
    site = Site(document.get("model_name").text, n, hardware.device, hardware.n_devices, 1, hardware.why, place,
                span=(document.place.line, document.end_line))  # fmt: skip
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
        asked = "\n".join(one.text for one in document.get("requirements"))
        version = start.version or version or requested.installed(f"{asked}\n{command.text}", start.engine)
        words = tuple(_named(word, paths) for word in start.words)
        yield start._replace(words=words, version=version, in_container=True), site


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
    for key, option in OPTIONS.items():
        if item := runtime.get(key) or build.get(key):
            words += [Word(option, item.place), Word(item.text, item.place)]
    kind = build.get("quantization_type") or NOTHING
    if kind.text.endswith("_kv"):
        words += [Word("--kv_cache_dtype", kind.place), Word("fp8", kind.place)]
    files = {}
    if patch:
        words += [Word("--config", patch.place), Word(CONFIG, patch.place)]
        plain = {key: item.plain() for key, item in patch.items() if key not in NO_OPTIONS}
        files[CONFIG] = (json.dumps(plain, default=str), patch.place)
    holder = document.get("trt_llm")
    env = requested.variables(document.get("environment_variables"))
    engine = {"encoder": "", "encoder_bert": ""}.get(build.get("base_model").text, "tensorrt-llm")
    title = "" if engine else "of embeddings (Baseten Embeddings Inference)"
    return Start(engine, tuple(words), env, holder.place, holder.end_line, in_container=True, files=files, foreign=title, weights=_weights(kind))


def _weights(kind: Item) -> Given | None:
    """`quantization_type`: fp8, fp8_kv, fp4, fp4_mlp_only, weights_int4 and their like, as TensorRT-LLM calls them."""
    algorithm = {"fp8": "fp8", "fp4": "nvfp4", "weights": "w8a16", "smooth": "w8a8_int8"}.get(kind.text.partition("_")[0])
    algorithm = "w4a16" if "int4" in kind.text else algorithm
    return Given(algorithm, "quantization_type", kind.place) if algorithm else None
