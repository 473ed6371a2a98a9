"""Columns of a sweep as CSV, JSON lines or Parquet files that survive being cut off: what is there is whole, and a resumed sweep goes on.

CSV and JSON lines are one file, and beside it FILE.progress says how far it goes; Parquet is a folder of parts, each renamed into place
when it is complete.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any

from kvplan.errors import SpecError
from kvplan.files import locked
from kvplan.report import progress
from kvplan.report.parquet import import_pyarrow
from kvplan.report.progress import Progress

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


def done(path: Path, fmt: str, question: str, size: int) -> int | None:
    """Points of `size` already written to `path` by the same question; None where nothing is there. Raises SpecError for another's file."""
    found = progress.read(path)
    if found is None:
        if os.path.lexists(path):
            raise SpecError(str(path), [("", "exists, and no sweep wrote it; name another file")])
        return None
    if found.question != question or found.format != fmt:
        raise SpecError(str(path), [("", "holds another sweep; name another file, or ask the same again")])
    if found.points > size:
        raise SpecError(str(path), [("", f"holds {found.points:,} of {size:,} points, by its progress; {progress.ANEW}")])
    return found.points


def append(path: Path, fmt: str, question: str, size: int, start: int, ranges: Iterable[tuple[int, Columns]]) -> Iterator[int]:
    """Writes ranges of points behind the first `start`; yields how many points the file holds after each.

    Whatever a broken run left behind the recorded point is cut off first. Raises SpecError where another process writes it, OSError.
    """
    target = Path(os.path.realpath(path))
    with locked(target, seconds=0):
        if (done(target, fmt, question, size) or 0) != start:
            raise SpecError(str(path), [("", "was written to by another sweep just now; ask again")])
        write = _append_parts if fmt == "parquet" else _append_text
        yield from write(target, Progress(question, fmt, start, 0, ""), ranges)


def _append_text(path: Path, so_far: Progress, ranges: Iterable[tuple[int, Columns]]) -> Iterator[int]:
    points = so_far.points
    known = progress.read(path)
    if known is None:  # before the file is there, so that a run killed now is known as ours
        progress.write(path, so_far._replace(tail=sha256().hexdigest()))
    with open(path, "r+b" if os.path.exists(path) else "x+b") as file:
        file.truncate(known.bytes if known else 0)
        file.seek(0, os.SEEK_END)
        for n, columns in ranges:
            file.write(text(columns, so_far.format, header=points == 0).encode())
            file.flush()
            os.fsync(file.fileno())
            points, end = points + n, file.tell()
            progress.write(path, so_far._replace(points=points, bytes=end, tail=progress.tail_of(file, end)))
            yield points


def _append_parts(folder: Path, so_far: Progress, ranges: Iterable[tuple[int, Columns]]) -> Iterator[int]:
    pyarrow, parquet = import_pyarrow()
    points = so_far.points
    if not points:
        progress.write(folder, so_far)
    folder.mkdir(exist_ok=True)
    for left in folder.glob("*.unfinished"):  # of runs that were killed: we hold the lock
        left.unlink()
    for n, columns in ranges:
        table = pyarrow.table({name: pyarrow.array(values.tolist()) for name, values in columns.items()})
        part = folder / f"part-{points:012d}.parquet"
        unfinished = part.with_suffix(".unfinished")
        parquet.write_table(table, unfinished)
        unfinished.replace(part)
        points += n
        progress.write(folder, so_far._replace(points=points))
        yield points
