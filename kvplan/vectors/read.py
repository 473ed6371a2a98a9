"""The files of vectors and of answers: JSON objects, one a line, packed with gzip or not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kvplan import files
from kvplan.errors import SpecError
from kvplan.importers.strict_json import fail_in, parse

MODELS = "models"
ENDINGS = (".jsonl", ".jsonl.gz")
MOST_LINE = 1 << 16
Row = dict[str, Any]


class Vector(NamedTuple):
    """A question and what the engine made of it.

    model     the keys of a config.json, or `arch` and `geometry`, the keys of a GGUF file
    settings  names of kvplan's questions (docs/vectors.md has the engines' own beside them); options: the engine's own
    expect    figures, or `refused`
    """

    id: str
    engine: str
    release: str
    model: Row
    memory_bytes: int | None
    settings: Row
    options: Row
    expect: Row


def rows(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Every object of a file. Raises SpecError or FormatError with the line."""
    name = os.fspath(path)
    for number, line in enumerate(files.lines(files.text(path), name, MOST_LINE), 1):
        if line.strip():
            found = parse(line.encode(), fail_in(f"{name}, line {number}"))
            if not isinstance(found, dict):
                raise SpecError(name, [(f"line {number}", "an object is expected")])
            yield found


def vectors(folder: str | os.PathLike[str], engine: str | None = None) -> Iterator[Vector]:
    """The vectors of a folder, of one engine or of all, in the order of their files. Raises SpecError."""
    here = Path(folder)
    names = sorted(path for path in here.iterdir() if path.name.endswith(ENDINGS)) if os.path.isdir(here) else []
    found = {path.name.split(".jsonl")[0]: path for path in names}
    if MODELS not in found:
        raise SpecError(os.fspath(folder), [("", "no folder of vectors: models.jsonl is not there; a clone of kvplan has one in vectors/")])
    if engine is not None and engine not in found:
        raise SpecError(os.fspath(folder), [("", f"no vectors of {engine}; of {', '.join(sorted(set(found) - {MODELS}))}")])
    models = {row["id"]: row for row in _with(found[MODELS], "id")}
    for name, path in found.items():
        if name != MODELS and engine in (None, name):
            for row in _with(path, "id", "engine", "release", "model", "expect"):
                if row["model"] not in models:
                    raise SpecError(os.fspath(path), [(str(row["id"]), f"model {row['model']!r} is not in {MODELS}.jsonl")])
                yield Vector(
                    row["id"], row["engine"], row["release"], models[row["model"]], row.get("memory_bytes"), row.get("settings", {}),
                    row.get("options", {}), row["expect"],
                )  # fmt: skip


def answers(path: str | os.PathLike[str]) -> dict[str, Row]:
    """Answers by id. Raises SpecError where one has no id or an id comes twice."""
    found: dict[str, Row] = {}
    for row in _with(path, "id"):
        if row["id"] in found:
            raise SpecError(os.fspath(path), [(str(row["id"])[:80], "answered twice")])
        found[row["id"]] = row
    return found


def _with(path: str | os.PathLike[str], *keys: str) -> Iterator[Row]:
    for row in rows(path):
        missing = [key for key in keys if key not in row or (key == "id" and not isinstance(row[key], str))]
        if missing:
            raise SpecError(os.fspath(path), [(str(row.get("id", ""))[:80], f"{missing[0]} is missing")])
        yield row
