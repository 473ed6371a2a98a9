"""Configuration files of engines: long options as keys (a --config), or keys that the engine's table names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.engines import facts
from kvplan.engines.common.arguments import Argument, Arguments
from kvplan.engines.common.environment import open_variable
from kvplan.engines.common.kinds import KINDS
from kvplan.engines.common.words import Finding, Given, Place, Unresolved, Word
from kvplan.manifests.marked import Item, documents

_OPEN = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")


def config_words(text: str, source: str, base: Place | None) -> list[Word]:
    """The options of a --config YAML as words; the command line comes after them and wins.

    vllm/utils/argparse_utils.py load_config_file: true is the bare option, false is left out, a list follows its option, a mapping is JSON.
    """
    return [word for document in documents(text, source, base or Place()) for word in option_words(document, placed=base is not None)]


def option_words(document: Item, *, placed: bool) -> list[Word]:
    """The keys of a mapping as long options. `placed`: whether its lines are those of the checked file."""
    out: list[Word] = []
    for key, item in document.items():
        place = item.place if placed else Place()
        name = f"--{key.replace('_', '-')}"
        if item.value is True:
            out.append(Word(name, place))
        elif isinstance(item.value, list):
            out += [Word(name, place), *(Word(part.text, place) for part in item)]
        elif open_names(item):
            out += [Word(name, place), Word(item.text, place, open_names(item))]
        elif isinstance(item.value, dict):
            out += [Word(name, place), Word(json.dumps(item.plain(), default=str), place)]
        elif item.value is not False and item.value is not None:
            out += [Word(name, place), Word(str(item.value) if isinstance(item.value, int) else item.text, place)]
    return out


def open_names(item: Item) -> tuple[str, ...]:
    """The variables in a value that nothing filled in: a here-document leaves `$NAME` where the script does not set it."""
    return tuple(a or b for a, b in _OPEN.findall(item.text))


def key_options(table: Arguments, text: str, source: str, base: Place | None) -> tuple[dict[str, Given], list[Finding], list[Unresolved]]:
    """What a file whose keys are rows of the table sets, by the same names as the command line."""
    rows = {one.key: one for one in table.rows if one.key}
    title = facts(table.name).title
    given: dict[str, Given] = {}
    findings: list[Finding] = []
    unresolved: list[Unresolved] = []
    for document in documents(text, source, base or Place()):
        for path, item in _leaves(document, rows):
            place = item.place if base else Place()
            row = rows.get(path)
            if row is None:
                findings.append(Finding("unknown-option", "warning", f"{path} is no option of {title} that we know", place))
            elif row.effect:
                findings += _unmodelled(row, path, item, place)
            elif row.to and (missing := open_names(item)):
                unresolved.append(open_variable(row.to, path, missing, place))
            elif row.to:
                try:
                    value = _value(row, item)
                except ValueError as error:
                    findings.append(Finding("bad-value", "error", f"{path}: {error}; the engine would stop with an error", place))
                    continue
                if value is not None or row.kind == "json":
                    given[row.to] = Given(value, path, place)
    return given, findings, unresolved


def _unmodelled(row: Argument, path: str, item: Item, place: Place) -> list[Finding]:
    """What is to be said of a key whose memory is not modelled; a key that is off is as one that is not there."""
    if item.value in (None, False) or item.text in ("auto", "false"):
        return []
    means = {"more": "takes more memory", "less": "takes less memory on the device"}.get(row.effect, "may change memory")
    return [Finding(f"not-modelled-{row.effect}", "warning", f"{path} {means} in a way that is not modelled", place)]


def _value(row: Argument, item: Item) -> Any:
    """A value of the row's kind. Raises ValueError for another."""
    if row.kind == "json":
        return item.plain()
    if isinstance(item.value, list) and row.kind == "counts":
        return KINDS["counts"].read(",".join(part.text for part in item))
    if isinstance(item.value, (list, dict)):
        raise ValueError("a list or mapping where a value is meant")
    return None if item.value is None else KINDS["truth" if row.takes == "flag" else row.kind].read(item.text)


def _leaves(document: Item, rows: Mapping[str, Argument]) -> Iterator[tuple[str, Item]]:
    """Keys, those of a mapping by their path where rows have such."""
    groups = {key.partition(".")[0] for key in rows if "." in key}
    for key, item in document.items():
        if key in groups and isinstance(item.value, dict):
            for inner, leaf in item.items():
                yield f"{key}.{inner}", leaf
        else:
            yield key, item
