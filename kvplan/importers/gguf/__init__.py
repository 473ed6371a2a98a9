"""GGUF files -> model spec and stored weights; of a split model any part, with all parts beside it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kvplan.errors import FormatError, SpecError
from kvplan.importers.compared import compared, noted
from kvplan.importers.gguf.contradictions import contradictions
from kvplan.importers.gguf.header import FORMAT, Header, read_header
from kvplan.importers.gguf.spec import spec_data
from kvplan.importers.gguf.tensors import Table
from kvplan.spec import ModelSpec, parse_spec
from kvplan.stored import StoredWeights

_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class Gguf(NamedTuple):
    """One model: what it is, what its files store (None: metadata only), and the first part's header."""

    spec: ModelSpec
    stored: StoredWeights | None
    header: Header


def read_gguf(path: str | Path) -> Gguf:
    """A model from its GGUF file, or from any part of a split one; no tensor data is read.

    Raises SpecError, FormatError, UnsupportedError.
    """
    headers = [read_header(part) for part in parts(path)]
    first = headers[0]
    _check_split(headers)
    table = Table(t for header in headers for t in header.tensors)
    data, h = spec_data(first.metadata, table, str(path))
    spec = parse_spec(data, str(path))
    if table.empty:
        return Gguf(spec, None, first)
    spec, stored = compared(spec, table.stored(h.n_layers))
    if wrong := contradictions(first.metadata, table):
        return Gguf(noted(spec, wrong), replace(stored, unlike=wrong[0]), first)
    return Gguf(spec, stored, first)


def parts(path: str | Path) -> list[Path]:
    """All files of a model, first to last: `name-00001-of-00003.gguf` names its siblings. Raises SpecError where one is missing."""
    path = Path(path)
    match = _PART.search(path.name)
    if match is None:
        return [path]
    n, stem = int(match[2]), path.name[: match.start()]
    if not 1 <= int(match[1]) <= n <= 4096:
        raise SpecError(str(path), [("", f"part {int(match[1])} of {n}: not a name of a split model")])
    files = [path.with_name(f"{stem}-{i:05d}-of-{n:05d}.gguf") for i in range(1, n + 1)]
    missing = [file.name for file in files if not os.path.isfile(file)]
    if missing:
        raise SpecError(str(path), [("", f"{len(missing)} of {n} parts are not there, first {missing[0]}")])
    return files


def _check_split(headers: list[Header]) -> None:
    """llama-model-loader.cpp: every part knows its number, and the first how many tensors there are."""
    total = headers[0].metadata.get("split.tensors.count")
    count = sum(len(header.tensors) for header in headers)
    said = headers[0].metadata.get("split.count", 1)
    if isinstance(said, int) and said > 1 and said != len(headers):
        raise FormatError(headers[0].source, FORMAT, 0, f"split.count is {said}; the name says {len(headers)}")
    for i, header in enumerate(headers):
        if len(headers) > 1 and header.metadata.get("split.no") != i:
            raise FormatError(header.source, FORMAT, 0, f"split.no is {header.metadata.get('split.no')}; the name says {i}")
    if len(headers) > 1 and isinstance(total, int) and total != count:
        raise FormatError(headers[0].source, FORMAT, 0, f"split.tensors.count is {total}; the parts hold {count}")
    names: set[str] = set()
    for header in headers:
        for t in header.tensors:
            if t.name in names:
                raise FormatError(header.source, FORMAT, 0, f"tensor {t.name[:80]!r} is in another part too")
            names.add(t.name)
