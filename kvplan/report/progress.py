"""How far a sweep's file goes: FILE.progress beside it, always checked against the file it describes before anything is added to that."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from kvplan import files
from kvplan.errors import SpecError
from kvplan.report.parquet import import_pyarrow

TAIL = 1 << 16  # bytes before the end that are remembered by their digest
ANEW = "remove both to begin anew"


class Progress(NamedTuple):
    """Points and bytes written; `tail` is the SHA-256 of the last TAIL of these bytes, `check` that of all the other fields."""

    question: str
    format: str
    points: int
    bytes: int
    tail: str


def path_of(out: Path) -> Path:
    return out.with_name(out.name + ".progress")


def write(out: Path, progress: Progress) -> None:
    """Puts it in place whole."""
    state = progress._asdict()
    files.write_text(path_of(out), json.dumps(state | {"check": digest(state)}))


def read(out: Path) -> Progress | None:
    """The progress of a sweep; None where there is none. Raises SpecError where it is no such, or its file another."""
    place = path_of(out)
    if not os.path.lexists(place):
        return None
    try:
        state = json.loads(files.read_text(place, what="a sweep's progress is a few lines"))
        check = state.pop("check")
        found = Progress(**state)
        whole = [type(value) for value in found] == [str, str, int, int, str] and found.points >= 0 <= found.bytes
        if check != digest(state) or not whole:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SpecError(str(place), [("", "is no progress of a sweep, or was changed; remove it to begin anew")]) from None
    fault = _parts_fault(out, found) if found.format == "parquet" else _fault(out, found)
    if fault:
        raise SpecError(str(out), [("", f"{fault}, of which {place.name} tells nothing; {ANEW}")])
    return found


def tail_of(file: Any, end: int) -> str:
    """The digest of the last bytes before `end` of an open file; leaves the file there."""
    file.seek(max(end - TAIL, 0))
    return sha256(file.read(min(end, TAIL))).hexdigest()


def digest(state: dict[str, Any]) -> str:
    """Of all fields but `check`, which says it."""
    return sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _fault(out: Path, found: Progress) -> str:
    """What a file of text has that its progress does not say; what a broken run left behind the recorded bytes is none."""
    if not os.path.lexists(out):
        return "is gone" if found.bytes else ""
    with files.opened(out) as file:
        if os.fstat(file.fileno()).st_size < found.bytes:
            return "is shorter than it was"
        return "" if tail_of(file, found.bytes) == found.tail else "was changed"


def _parts_fault(out: Path, found: Progress) -> str:
    if not os.path.isdir(out):
        return "is gone" if found.points else ""
    parquet, points = import_pyarrow()[1], 0
    for part in sorted(out.glob("part-*.parquet")):
        start = part.stem.removeprefix("part-")
        if points == found.points and start == f"{points:012d}":
            continue  # whole, and killed before it was recorded: it is written again
        try:
            rows = parquet.read_metadata(part).num_rows
        except (OSError, ValueError):  # pyarrow's own errors are ValueErrors
            return f"has a broken {part.name}"
        if start != f"{points:012d}" or points + rows > found.points:
            return f"has another {part.name}"
        points += rows
    return "" if points == found.points else "lacks parts"
