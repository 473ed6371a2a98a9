"""Ray Serve: applications of a RayService or a Serve config. Ray Serve LLM's LLMConfigs with engine_kwargs and accelerator_type; a module
of one's own by its code, where a ConfigMap of the file holds it, else by the variables that it is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from kvplan import engines
from kvplan.engines.common.words import Finding, Given, Unresolved, Word
from kvplan.errors import SpecError
from kvplan.manifests import accelerators, python, requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.command import Start
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents, moved


def is_ray(document: Item) -> bool:
    """A RayService, a Serve config with applications, or a bare LLMConfig."""
    return document.get("kind").text == "RayService" or bool(document.get("applications")) or bool(document.get("model_loading_config"))


def read(
    document: Item, others: Sequence[Item], n: int, source: str, beside: Callable[[str], str | None] = lambda _: None
) -> Iterator[tuple[Start, Site]]:
    """The engines of the applications; `others` are the file's documents, for ConfigMaps with code."""
    config = document
    if document.get("kind").text == "RayService":
        inner = document.get("spec", "serveConfigV2")
        config = next(iter(documents(inner.text, source, inner.body)), NOTHING) if isinstance(inner.value, str) else inner
    if config.get("model_loading_config"):
        yield from _engine(config, n, "LLMConfig")
    for application in config.get("applications"):
        name = application.get("name").text or application.get("import_path").text or "application"
        if not application.get("args") or not application.get("import_path").text.startswith("ray.serve.llm"):
            yield from _own_code(document, application, f"applications/{name}", others, n, source)
        for key in ("llm_configs", "prefill_config", "decode_config"):
            found = application.get("args", key)
            for one in found if isinstance(found.value, list) else [found]:
                if one.get("model_loading_config"):
                    yield from _engine(one, n, f"applications/{name}")
                elif isinstance(one.value, str) and (text := beside(one.text.removeprefix("./"))) is not None:
                    note = Finding("config-read", "note", f"{one.text} is read from beside this file", one.place)
                    try:
                        configs = list(documents(text, one.text))
                    except SpecError as error:
                        start = Start("vllm", (), {}, one.place, one.end_line, in_container=True, opaque=f"{one.text}: {error}"[:200])
                        yield start, Site(f"applications/{name}/{one.text}", n, place=one.place, span=one.span)
                        continue
                    for config_ in configs:
                        for start, site in _engine(moved(config_, one.place), n, f"applications/{name}"):
                            yield start, site._replace(findings=(*site.findings, note))
                elif isinstance(one.value, str):  # the path of a file with an LLMConfig
                    why = f"the LLMConfig is in {one.text}, which is checked by itself"
                    start = Start("vllm", (), {}, one.place, one.end_line, in_container=True, opaque=why)
                    yield start, Site(f"applications/{name}/{one.text}", n, place=one.place, span=one.span)


def _engine(config: Item, n: int, name: str) -> Iterator[tuple[Start, Site]]:
    loading = config.get("model_loading_config")
    model = loading.get("model_source") or loading.get("model_id")
    if isinstance(model.value, dict):
        model = model.get("bucket_uri")
    words = [*([model.word] if model else []), *requested.option_words(config.get("engine_kwargs"))]
    if degree := config.get("tensor_parallelism", "degree"):  # before engine_kwargs said it (RayLLM)
        words += [Word("--tensor-parallel-size", degree.place), degree.word]
    engine = "sglang" if "sglang" in config.get("server_cls").text.lower() else "vllm"
    bound = config.get("max_request_context_length")  # RayLLM's, of the requests
    said = f"max_request_context_length {bound.text} is not read: {engine}'s own length is max_model_len in engine_kwargs"
    unread = (Finding("not-read", "note", said, bound.place),) if bound else ()
    device, why = _accelerator(config.get("accelerator_type"))
    place = config.get("accelerator_type").place if config.get("accelerator_type") else config.place
    env = {key: item.word for key, item in config.get("runtime_env", "env_vars").items()}
    start = Start(engine, tuple(words), env, config.place, config.end_line, in_container=True)
    yield (
        start,
        Site(
            f"{name}/{loading.get('model_id').text}",
            n,
            device,
            why=why,
            place=place,
            findings=unread,
            span=config.span,
            unresolved=_lora(config, words),
        ),
    )


def _lora(config: Item, words: Sequence[Word]) -> tuple[Unresolved, ...]:
    """Slots that an LLMConfig asks for, where its engine_kwargs do not say their rank and number."""
    lora = config.get("lora_config")
    if not lora or any(word.text.startswith(("--enable-lora", "--max-loras")) for word in words):
        return ()
    why = "lora_config loads adapters while it serves, and engine_kwargs say neither max_loras nor max_lora_rank"
    return (Unresolved("lora", why, "--lora RANKxADAPTERS", lora.place),)


def _own_code(document: Item, application: Item, name: str, others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engine that a module of one's own makes."""
    path = application.get("import_path")
    env = {key: item.word for key, item in application.get("runtime_env", "env_vars").items()}
    hardware = _cluster(document)
    span = application.span
    site = Site(name, n, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place, span=span)
    file = PurePosixPath(path.text.partition(":")[0].replace(".", "/")).name + ".py"
    code = next((one.get("data", file) for one in others if one.get("kind").text == "ConfigMap" and one.get("data", file)), NOTHING)
    if code:
        for start, own in python.read(code.text, source, code.body, env):
            held = own if own.device else site
            yield start, site._replace(device=held.device, n_devices=held.n_devices, why=held.why, place=held.place)
    elif (guessed := _by_variables(document, path, env)) is not None:
        message = f"{path.text[:60]} is not at hand: its options are read by the names of the variables it is given"
        yield guessed, site._replace(findings=(Finding("by-variables", "warning", message, path.place),))


def _cluster(document: Item) -> Hardware:
    """The hardware of the cluster's workers, or of its head where there are none."""
    cluster = document.get("spec", "rayClusterConfig")
    groups = [*cluster.get("workerGroupSpecs"), cluster.get("headGroupSpec")]
    found = [accelerators.of_pod(pod, list(pod.get("containers"))) for group in groups if (pod := group.get("template", "spec"))]
    first = next((one for one in found if one.device), next(iter(found), Hardware(why="the file does not say which GPU it runs on")))
    return first._replace(n_devices=None)  # of all workers, of which one replica takes as many as it asks for


def _by_variables(document: Item, path: Item, env: Mapping[str, Word]) -> Start | None:
    """The options that variables of the same names stand for: MAX_MODEL_LEN is --max-model-len."""
    pods = document.get("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "containers")
    named = " ".join([path.text, *env, *(one.get("image").text for one in pods)]).lower()
    engine = next((one for one in ("vllm", "sglang") if re.search(rf"(^|[^a-z0-9]){one}", named)), "")
    model = next((env[name] for name in ("MODEL_ID", "MODEL_NAME", "MODEL_PATH", "MODEL") if name in env), None)
    if not engine or model is None:
        return None
    known = {name.lstrip("-") for row in engines.arguments(engine).rows if row.to for name in row.names}
    words = [Word("--model-path" if engine == "sglang" else "--model", model.place), model]
    for name, word in env.items():
        option = name.lower().replace("_", "-")
        option = option if option in known else f"{option}s"
        if option in known and word.text not in ("True", "False") and option not in ("model", "model-path"):
            words += [Word(f"--{option}", word.place), word]
    return Start(engine, tuple(words), {}, path.place, path.end_line, in_container=True)


def _accelerator(item: Item) -> tuple[Given | None, str]:
    if not item:
        return None, "the LLMConfig names no accelerator_type"
    text = item.text
    if text in accelerators.RAY:
        device = accelerators.RAY[text]
        if device is None:
            return None, f"accelerator_type {text} comes with more than one size of memory"
        return Given(device, "accelerator_type", item.place), ""
    return accelerators.named(item, "accelerator_type")
