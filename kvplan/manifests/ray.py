"""Ray Serve LLM: applications of a RayService or a Serve config, their LLMConfigs with engine_kwargs and accelerator_type."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kvplan.engines.common.words import Given, Word
from kvplan.manifests import accelerators
from kvplan.manifests.command import Start
from kvplan.manifests.found import Site
from kvplan.manifests.marked import NOTHING, Item, documents


def is_ray(document: Item) -> bool:
    """A RayService, a Serve config with applications, or a bare LLMConfig."""
    return document.get("kind").text == "RayService" or bool(document.get("applications")) or bool(document.get("model_loading_config"))


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of the applications."""
    config = document
    if document.get("kind").text == "RayService":
        inner = document.get("spec", "serveConfigV2")
        config = next(iter(documents(inner.text, source, inner.body)), NOTHING) if isinstance(inner.value, str) else inner
    if config.get("model_loading_config"):
        yield from _engine(config, n, "LLMConfig")
    for application in config.get("applications"):
        name = application.get("name").text or application.get("import_path").text or "application"
        for key in ("llm_configs", "prefill_config", "decode_config"):
            found = application.get("args", key)
            for one in found if isinstance(found.value, list) else [found]:
                if one.get("model_loading_config"):
                    yield from _engine(one, n, f"applications/{name}")
                elif isinstance(one.value, str):  # the path of a file with an LLMConfig
                    why = f"the LLMConfig is in {one.text}, which is checked by itself"
                    start = Start("vllm", (), {}, one.place, one.end_line, in_container=True, opaque=why)
                    yield start, Site(f"applications/{name}/{one.text}", n, place=one.place, span=(one.place.line, one.end_line))


def _engine(config: Item, n: int, name: str) -> Iterator[tuple[Start, Site]]:
    loading = config.get("model_loading_config")
    model = loading.get("model_source") or loading.get("model_id")
    if isinstance(model.value, dict):
        model = model.get("bucket_uri")
    words = [Word(model.text, model.place)] if model else []
    for key, item in config.get("engine_kwargs").items():
        option = f"--{key.replace('_', '-')}"
        if item.value is True:
            words.append(Word(option, item.place))
        elif item.value is False:
            words.append(Word(f"--no-{option[2:]}", item.place))
        elif isinstance(item.value, (dict, list)):
            words += [Word(option, item.place), Word(json.dumps(item.plain(), default=str), item.place)]
        elif item.value is not None:
            words += [Word(option, item.place), Word(item.text, item.place)]
    engine = "sglang" if "sglang" in config.get("server_cls").text.lower() else "vllm"
    device, why = _accelerator(config.get("accelerator_type"))
    place = config.get("accelerator_type").place if config.get("accelerator_type") else config.place
    env = {key: Word(item.text, item.place) for key, item in config.get("runtime_env", "env_vars").items()}
    start = Start(engine, tuple(words), env, config.place, config.end_line, in_container=True)
    yield start, Site(f"{name}/{loading.get('model_id').text}", n, device, why=why, place=place, span=(config.place.line, config.end_line))


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
