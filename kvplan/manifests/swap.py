"""llama-swap's config.yaml: models, each with the command that serves it. https://github.com/mostlygeek/llama-swap"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.engines.common.words import Word
from kvplan.manifests.command import Start, scripts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import Item
from kvplan.manifests.script import read_script
from kvplan.manifests.words import replaced

_MACRO = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")
#: What llama-swap itself fills in.
OWN = {"PORT": "8080", "MODEL_ID": "model", "PID": "1"}


def is_swap(document: Item) -> bool:
    """Models that have commands."""
    return any(item.get("cmd") for _, item in document.get("models").items())


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engine of every model."""
    macros = {name: item.text for name, item in document.get("macros").items()}
    for name, item in document.get("models").items():
        own = {**OWN, **macros, **{key: value.text for key, value in item.get("macros").items()}}
        command = item.get("cmd")
        word = Word(command.text, command.body, (), command.breaks)
        for _ in range(4):  # macros of macros
            word = replaced(_MACRO, lambda m, own=own: own.get(m[1], m[0]), word)  # type: ignore[misc]
        env = {pair[0]: Word(pair[2], entry.place) for entry in item.get("env") if (pair := entry.text.partition("="))[1]}
        text = re.sub(r"(?<!\\)\n", " \\\n", word.text.rstrip())  # one command, whatever its lines
        for start in scripts(read_script(text, source, base=word.place, breaks=word.breaks, env=env), source):
            span = (item.place.line, item.end_line)
            yield start, Site(f"models/{name}", n, why=NO_DEVICE, place=item.place, span=span)
