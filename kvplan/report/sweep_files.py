"""Columns of a sweep as CSV, JSON lines or Parquet files that survive being cut off: what is there is whole, and a resumed sweep goes on.

CSV and JSON lines are one file, and beside it FILE.progress says how far it goes; Parquet is a folder of parts, each renamed into place
when it is complete.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from kvplan.errors import SpecError
from kvplan.report.parquet import import_pyarrow

Columns = dict[str, Any]


def text(columns: Columns, fmt: str, *, header: bool) -> str:
    """One range of points as CSV or JSON lines."""
    names, rows = list(columns), zip(*(values.tolist() for values in columns.values()), strict=True)
    if fmt == "jsonl":
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(names)
    writer.writerows(rows)
    return out.getvalue()


def done(path: Path, fmt: str, question: str) -> int:
    """Points already written to `path` by the same question; 0 where nothing is there. Raises SpecError for another question's file."""
    state = _read_state(path)
    if state is None:
        if path.exists():
            raise SpecError(str(path), [("", "exists, and no sweep wrote it; name another file")])
        return 0
    if state["question"] != question or state["format"] != fmt:
        raise SpecError(str(path), [("", "holds another sweep; name another file, or ask the same again")])
    return int(state["points"])


def append(path: Path, fmt: str, question: str, start: int, ranges: Iterable[tuple[int, Columns]]) -> Iterator[int]:
    """Writes ranges of points behind the first `start`; yields how many points the file holds after each.

    Whatever a broken run left behind the recorded point is cut off first.
    """
    if fmt == "parquet":
        yield from _append_parts(path, question, start, ranges)
        return
    state = _read_state(path) or {"bytes": 0}
    with open(path, "r+b" if path.exists() else "x+b") as file:
        file.truncate(state["bytes"])
        file.seek(0, os.SEEK_END)
        points = start
        for n, columns in ranges:
            file.write(text(columns, fmt, header=points == 0).encode())
            file.flush()
            os.fsync(file.fileno())
            points += n
            _write_state(path, {"question": question, "format": fmt, "points": points, "bytes": file.tell()})
            yield points


def _append_parts(folder: Path, question: str, start: int, ranges: Iterable[tuple[int, Columns]]) -> Iterator[int]:
    pyarrow, parquet = import_pyarrow()
    folder.mkdir(exist_ok=True)
    points = start
    for n, columns in ranges:
        table = pyarrow.table({name: pyarrow.array(values.tolist()) for name, values in columns.items()})
        part = folder / f"part-{points:012d}.parquet"
        unfinished = part.with_suffix(".unfinished")
        parquet.write_table(table, unfinished)
        unfinished.replace(part)
        points += n
        _write_state(folder, {"question": question, "format": "parquet", "points": points, "bytes": 0})
        yield points


def _state_path(path: Path) -> Path:
    return path.with_name(path.name + ".progress")


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        state = json.loads(_state_path(path).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SpecError(
            str(_state_path(path)), [("", f"can not be read: {error}; remove it and the file beside it to begin anew")]
        ) from None
    if not isinstance(state, dict) or not {"question", "format", "points", "bytes"} <= state.keys():
        raise SpecError(str(_state_path(path)), [("", "is no progress of a sweep; remove it to begin anew")])
    return state


def _write_state(path: Path, state: dict[str, Any]) -> None:
    unfinished = _state_path(path).with_name(_state_path(path).name + ".unfinished")
    unfinished.write_text(json.dumps(state))
    unfinished.replace(_state_path(path))
