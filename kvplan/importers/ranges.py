"""Bytes by range: what the header parsers need of a file, wherever it is."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self, runtime_checkable

from kvplan.errors import FormatError, SpecError

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
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise SpecError(self.name, [("", "not a regular file")])
            self._fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise SpecError(self.name, [("", "no such file")]) from None
        except (OSError, ValueError) as error:
            raise SpecError(self.name, [("", f"can not be read: {getattr(error, 'strerror', None) or error}")]) from None
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
        return parse_json(file.read_range(0, MAX_JSON_BYTES), file.name)


def parse_json(data: bytes, source: str, format_name: str = "JSON", offset: int = 0) -> Any:
    """Plain data. Raises FormatError with the byte offset (`offset` is where `data` starts) for anything that is not JSON."""
    text = ""
    try:
        text = data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise FormatError(source, format_name, offset + error.start, "not UTF-8") from None
    except json.JSONDecodeError as error:
        at = offset + len(text[: error.pos].encode("utf-8"))
        raise FormatError(source, format_name, at, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise FormatError(source, format_name, offset, "nested too deep") from None
    except ValueError as error:
        raise FormatError(source, format_name, offset, str(error)[:200]) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {key[:60]!r} is there twice")
            seen.add(key)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
