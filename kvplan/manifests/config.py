"""Configuration files of engines: vLLM's and SGLang's --config (long options as keys), TensorRT-LLM's LLM API options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.manifests.arguments.table import Given
from kvplan.manifests.arguments.tensorrt_llm import CONFIG, CONFIG_EITHER, CONFIG_QUIET
from kvplan.manifests.marked import Item, documents
from kvplan.manifests.numbers import READERS
from kvplan.manifests.values import Finding, Place
from kvplan.manifests.words import Word


def config_words(text: str, source: str, base: Place | None) -> list[Word]:
    """The options of a --config YAML as words; the command line comes after them and wins.

    vllm/utils/argparse_utils.py load_config_file: true is the bare option, false is left out, a list follows its option, a mapping is JSON.
    """
    import json

    out: list[Word] = []
    for document in documents(text, source, base or Place()):
        for key, item in document.items():
            place = item.place if base else Place()
            name = f"--{key.replace('_', '-')}"
            if item.value is True:
                out.append(Word(name, place))
            elif isinstance(item.value, list):
                out += [Word(name, place), *(Word(part.text, place) for part in item)]
            elif isinstance(item.value, dict):
                out += [Word(name, place), Word(json.dumps(item.plain(), default=str), place)]
            elif item.value not in (False, None):
                out += [Word(name, place), Word(item.text, place)] if key != "model" else [Word("--model", place), Word(item.text, place)]
    return out


def trtllm_options(text: str, source: str, base: Place | None) -> tuple[dict[str, Given], list[Finding]]:
    """What the YAML of --config sets, by the same names as the command line."""
    given: dict[str, Given] = {}
    findings: list[Finding] = []
    for document in documents(text, source, base or Place()):
        for path, item in _leaves(document):
            place = item.place if base else Place()
            to = CONFIG.get(path)
            top = path.split(".")[0]
            if to:
                try:
                    value = _value(to, item)
                except ValueError as error:
                    findings.append(Finding("bad-value", "error", f"{path}: {error}; the engine would stop with an error", place))
                    continue
                if value is not None or to == "@graphs":
                    given[to] = Given(value, path, place)
            elif top in CONFIG_EITHER and path == top:
                findings.append(Finding("not-modelled-either", "warning", f"{path} may change memory in a way that is not modelled", place))
            elif top not in CONFIG_QUIET and top not in CONFIG_EITHER and path not in _QUIET_PATHS:
                findings.append(Finding("unknown-option", "warning", f"{path} is no option of TensorRT-LLM that we know", place))
    return given, findings


def _value(to: str, item: Item) -> Any:
    """A value of the kind that the name takes. Raises ValueError for another."""
    kind = "float" if to == "memory_fraction" else "int" if to in _COUNTS else "text"
    if to in ("@graphs", "@speculative", "@attention_dp"):
        return item.plain()
    if isinstance(item.value, list) and to == "option:max_attention_window":
        return ",".join(str(READERS["int"](part.text)) for part in item)
    if isinstance(item.value, (list, dict)):
        raise ValueError("a list or mapping where a value is meant")
    return None if item.value is None else READERS[kind](item.text)


_COUNTS = frozenset({"max_num_seqs", "max_num_batched_tokens", "max_model_len", "tp", "pp", "ep", "block_size", "kv_memory", "@beams"})
_QUIET_PATHS = frozenset({
    "kv_cache_config.enable_partial_reuse", "kv_cache_config.copy_on_partial_reuse", "kv_cache_config.event_buffer_max_size",
    "kv_cache_config.host_cache_size", "kv_cache_config.secondary_offload_min_priority", "kv_cache_config", "speculative_config",
})  # fmt: skip


def _leaves(document: Item) -> Iterator[tuple[str, Item]]:
    for key, item in document.items():
        if key == "kv_cache_config" and isinstance(item.value, dict):
            for inner, leaf in item.items():
                yield f"{key}.{inner}", leaf
        else:
            yield key, item
