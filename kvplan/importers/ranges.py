"""Bytes by range: what the header parsers need of a file, wherever it is."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self, runtime_checkable

from kvplan.errors import SpecError
from kvplan.files import opened
from kvplan.importers.strict_json import fail_in, parse

MAX_JSON_BYTES = 64 << 20  # the largest published index is a few MB


@runtime_checkable
class Ranges(Protocol):
    """`size` is None where it is not known. `read_range` gives fewer bytes only where the file ends."""

    name: str
    size: int | None

    def read_range(self, start: int, length: int) -> bytes: ...


class FileRanges:
    """A local file. Raises SpecError for what is not a regular, readable file; close it, or use `with`."""

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        with opened(path) as file:
            self._fd = os.dup(file.fileno())
        self.size: int | None = os.fstat(self._fd).st_size

    def read_range(self, start: int, length: int) -> bytes:
        parts = []
        while length > 0 and (part := os.pread(self._fd, min(length, 1 << 30), start)):
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return b"".join(parts)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class StreamRanges:
    """An open binary file that can seek; its size is where it ends."""

    def __init__(self, stream: IO[bytes], name: str | None = None) -> None:
        self._stream = stream
        self.name = name or str(getattr(stream, "name", "stream"))
        self.size: int | None = stream.seek(0, os.SEEK_END)

    def read_range(self, start: int, length: int) -> bytes:
        self._stream.seek(start)
        return self._stream.read(length)


def read_json(path: str | Path) -> Any:
    """Data of one JSON file: bounded in size, no key twice. Raises SpecError or FormatError."""
    with FileRanges(path) as file:
        if (file.size or 0) > MAX_JSON_BYTES:
            raise SpecError(file.name, [("", f"larger than {MAX_JSON_BYTES >> 20} MiB")])
        return parse(file.read_range(0, MAX_JSON_BYTES), fail_in(file.name))
