"""RunPod's worker for vLLM: a container whose variables are the engine's options.

runpod-workers/worker-vllm: src/args_builder.py (2.24 on, 2026-08: `vllm serve` with an option for each variable that is named as one),
src/engine_args.py (before: defaults of its own, every GPU that it sees, from 2.12 on batches as long as the longest request), Dockerfile of
each tag for the release of vLLM.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from kvplan import engines
from kvplan.engines.common.words import Finding, Given, Place, Word

_WORKER = re.compile(r"(^|/)(runpod|runpod-workers)/worker-(v1-)?vllm(:v?(?P<release>\d+\.\d+)[^/]*)?$")
_ALIASES = {"MODEL_NAME": "--model", "CUSTOM_CHAT_TEMPLATE": "--chat-template", "VLLM_CONFIG_FILE": "--config"}
#: The worker's own, or kept from the engine.
_OWN = frozenset({"HOST", "PORT", "API_KEY", "MODEL", "CONFIG", "HELP"})
_EXTRA = "VLLM_EXTRA_ARGS"
_SERVES_SINCE, _LONG_BATCHES_SINCE = (2, 24), (2, 12)
_BEFORE = {"GPU_MEMORY_UTILIZATION": "0.95", "BLOCK_SIZE": "16", "MAX_NUM_SEQS": "256", "ENABLE_PREFIX_CACHING": "false"}


def is_worker(reference: str) -> bool:
    """Whether an image is that worker's."""
    return _WORKER.search(reference) is not None


def options(reference: str, env: Mapping[str, Word], gpus: Given | None, place: Place) -> tuple[list[Word], list[Finding]]:
    """The words that the worker hands to the engine, and what it decides that no variable says."""
    release = _WORKER.search(reference)
    assert release is not None
    number = tuple(map(int, release["release"].split("."))) if release["release"] else _SERVES_SINCE
    asked, findings = {name: word for name, word in env.items() if word.text}, list[Finding]()
    if number < _SERVES_SINCE:
        asked = {**{name: Word(text, place) for name, text in _BEFORE.items()}, **asked}
        if gpus and gpus.value > 1:
            asked["TENSOR_PARALLEL_SIZE"] = Word(str(gpus.value), gpus.place)
        elif gpus is None:
            message = "this release of the worker shards over every GPU that it sees, and how many is not said: give --tp where not 1"
            findings.append(Finding("every-gpu", "warning", message, place))
        if number >= _LONG_BATCHES_SINCE and asked.get("MAX_NUM_BATCHED_TOKENS", Word("0")).text == "0":
            longest = asked.get("MAX_MODEL_LEN", Word("0"))
            asked["MAX_NUM_BATCHED_TOKENS"] = longest if longest.text != "0" else Word("$MAX_MODEL_LEN", place, ("MAX_MODEL_LEN",))
    table = engines.arguments("vllm")
    rows = {name[2:].replace("-", "_").upper(): (name, row) for row in table.rows for name in row.names if name.startswith("--")}
    words: list[Word] = []
    for name, word in asked.items():
        option, row = rows.get(_ALIASES.get(name, name).lstrip("-").replace("-", "_").upper(), ("", None))
        if row is None or name in _OWN or word.text in ("None", "none") or (word.text == "0" and name.startswith("MAX_")):
            continue
        if row.takes in ("flag", "switch"):
            holds = word.text.lower() in ("true", "1", "yes", "on")
            words += [word._replace(text=option if holds else f"--no-{option[2:]}")] if holds or row.takes == "switch" else []
        else:
            words += [Word(option, word.place), word]
    extra = env.get(_EXTRA)
    if extra and extra.missing:
        words.append(extra)
    elif extra:
        words += [Word(text, extra.place) for text in shlex.split(extra.text)]
    return words, findings


def own(name: str) -> bool:
    """Whether a variable is the worker's, though it begins as the engine's do."""
    return name in (_EXTRA, "VLLM_CONFIG_FILE", "VLLM_PORT", "VLLM_STARTUP_TIMEOUT")
