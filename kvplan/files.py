"""Files from people: only regular ones are read and never more than a bound; what is written is there whole or not at all.

Every fault is a SpecError that names the file. Nothing here follows a FIFO or a device, which would never end.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from kvplan.errors import SpecError

MAX_FILE_BYTES = 4 << 20
MAX_NODES, MAX_DEPTH = 100_000, 32
MAX_NUMBER = 400  # characters of a YAML scalar that is no text
CHUNK = 1 << 16
MAX_LINE = 1 << 20
LOCK_SECONDS = 60.0
SPEC = "a spec is a few kilobytes of YAML"

#: How a Git LFS pointer begins, its first eight bytes, and what is said of one that stands where a file's data should be.
POINTER_START = b"version "
POINTER = "a Git LFS pointer, not the file itself; fetch it with git lfs pull"


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """A regular file, open for reading."""
    name = os.fspath(path)
    try:
        number = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))  # a FIFO without a writer opens
        mode = os.fstat(number).st_mode
    except FileNotFoundError:
        raise SpecError(name, [("", "no such file")]) from None
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None
    if stat.S_ISREG(mode):
        return os.fdopen(number, "rb")
    os.close(number)
    what = "a directory; name a file inside it" if stat.S_ISDIR(mode) else "no regular file; only those are read"
    raise SpecError(name, [("", what)])


def unreadable(name: str, error: Exception) -> SpecError:
    """The error for a file that the system does not give."""
    return SpecError(name, [("", f"can not be read: {getattr(error, 'strerror', None) or error}")])


def unwritable(path: str | os.PathLike[str], error: Exception) -> SpecError:
    """The error for a file that the system does not take."""
    return SpecError(os.fspath(path), [("", f"can not be written: {getattr(error, 'strerror', None) or error}")])


def read_bytes(path: str | os.PathLike[str], most: int = MAX_FILE_BYTES, what: str = SPEC) -> bytes:
    """All of a small file. `what` tells in the error for a larger one what such a file is."""
    with opened(path) as file:
        try:
            data = file.read(most + 1) or b""
        except OSError as error:
            raise unreadable(os.fspath(path), error) from None
    return bounded(data, os.fspath(path), most, what)


def bounded(data: bytes, name: str, most: int, what: str) -> bytes:
    """The data, of which one byte more than the most was asked for."""
    if len(data) > most:
        raise SpecError(name, [("", f"larger than {most >> 20} MiB; {what}")])
    return data


def read_text(path: str | os.PathLike[str], most: int = MAX_FILE_BYTES, what: str = SPEC) -> str:
    """A small UTF-8 text file."""
    return decoded(read_bytes(path, most, what), os.fspath(path))


def decoded(data: bytes, name: str) -> str:
    """Bytes as text, without a byte order mark."""
    if b"\0" in data:
        at = data.index(0)
        raise SpecError(name, [(_line_at(data, at), f"a binary file (zero byte at offset {at}), not text")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(name, [(_line_at(data, error.start), f"not UTF-8 at byte {error.start}; save it as UTF-8")]) from None


def _line_at(data: bytes, offset: int) -> str:
    return f"line {data.count(10, 0, offset) + 1}"


def chunks(path: str | os.PathLike[str], *, whole: bool = True) -> Iterator[bytes]:
    """A file of any size in pieces of at most CHUNK bytes, unpacked where it is gzip. whole=False: what a broken archive still holds."""
    import gzip
    import zlib

    name = os.fspath(path)
    with opened(path) as file:
        try:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            source: Any = gzip.GzipFile(fileobj=file) if zipped else file
            while piece := source.read(CHUNK):
                yield piece
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            if whole:
                raise SpecError(name, [("", f"a gzip file that is broken or cut off: {error}")]) from None
        except OSError as error:
            raise unreadable(name, error) from None


def text(path: str | os.PathLike[str]) -> Iterator[str]:
    """A UTF-8 text of any size in pieces, unpacked where it is gzip; bytes that are no UTF-8 come as U+FFFD."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    for piece in chunks(path):
        if read := decoder.decode(piece):
            yield read


def lines(pieces: Iterable[str], name: str, most: int = MAX_LINE) -> Iterator[str]:
    """The lines of a text in pieces, each with its end. Raises SpecError for one longer than `most` characters."""
    held, number = "", 1
    for piece in pieces:
        *ended, rest = piece.split("\n")
        for part in ended:
            if len(held) + len(part) > most:
                raise SpecError(name, [(f"line {number}", f"longer than {most:,} characters")])
            yield f"{held}{part}\n"
            held, number = "", number + 1
        held += rest
        if len(held) > most:
            raise SpecError(name, [(f"line {number}", f"longer than {most:,} characters")])
    if held:
        yield held


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a whole file in one step: whoever is killed leaves the old file or the new one."""
    update(path, lambda: text)


def update(path: str | os.PathLike[str], change: Callable[[], str]) -> None:
    """Writes what `change` returns, which may read the file first: no other kvplan writes it in between."""
    target = Path(os.path.realpath(path))
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            raise SpecError(
                os.fspath(path), [("", "a directory; name a file" if os.path.isdir(target) else "no regular file; name another")]
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target):
            _replace(target, change())
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None


def _replace(target: Path, text: str) -> None:
    import tempfile

    for left in target.parent.glob(f".{_literal(target.name)}.*.partial"):  # of processes that were killed: we hold the lock
        left.unlink(missing_ok=True)
    number, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        with os.fdopen(number, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, stat.S_IMODE(target.stat().st_mode) if os.path.exists(target) else 0o644)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


def _literal(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


@contextmanager
def locked(path: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Holds the only lock on a file among all kvplans of this machine; waits `seconds` for it. The lock is a file beside it.

    Raises SpecError where another process keeps it, OSError where none can be had. A killed holder's lock is free at once.
    """
    beside, end = path.with_name(f".{path.name}.lock"), time.monotonic() + seconds
    while True:
        number = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if _taken(number) and _is_still(beside, number):
                break
            if time.monotonic() > end:
                raise SpecError(str(path), [("", "another kvplan is writing it; try again when that one is done")])
        except BaseException:
            os.close(number)
            raise
        os.close(number)
        time.sleep(0.01)
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(beside)  # whoever waits for this one sees that it is gone, and makes a new one
        os.close(number)


def _is_still(beside: Path, number: int) -> bool:
    """Whether the file at this path is the one that is open."""
    try:
        return os.path.samestat(os.stat(beside), os.fstat(number))
    except FileNotFoundError:
        return False


def _taken(number: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def parse_yaml(text: str, source: str) -> Any:
    """Plain data of one YAML document: no aliases, no duplicate keys, bounded in size and depth. Raises SpecError with the line."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = nodes = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.AliasEvent):
                raise SpecError(
                    source, [(_line(event), f"alias *{event.anchor}: aliases are not read; write the value out, or name a block")]
                )
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            nodes += 1
            if depth > MAX_DEPTH or nodes > MAX_NODES:
                raise SpecError(source, [(_line(event), "nested too deep or too large for a spec")])
        return _construct(yaml.compose(text, Loader=loader), loader(""), source)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SpecError(source, [(where, yaml_problem(error, "nested too deep or too large for a spec"))]) from None


def yaml_problem(error: Exception, too_deep: str) -> str:
    """What is wrong, in a parser's words; `too_deep` for a nesting that libyaml itself bounds (from 0.2.6 on) before its events come."""
    said = str(getattr(error, "problem", None) or str(error).splitlines()[0])
    return too_deep if "maximum nesting depth" in said else f"not YAML: {said}"


def _line(part: Any) -> str:
    return f"line {part.start_mark.line + 1}"


def _construct(node: Any, loader: Any, source: str) -> Any:
    import yaml

    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _construct(key_node, loader, source)
            if not isinstance(key, str):
                raise SpecError(source, [(_line(key_node), f"{str(key)[:60]!r}: keys are text")])
            if key in result:
                raise SpecError(source, [(_line(key_node), f"{key!r} is there twice; keep one")])
            result[key] = _construct(value_node, loader, source)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, loader, source) for item in node.value]
    if node is None:
        return None
    try:
        return scalar(node, loader)
    except ValueError as error:
        raise SpecError(source, [(_line(node), str(error))]) from None


def scalar(node: Any, loader: Any) -> Any:
    """The value of a YAML scalar. Raises ValueError for a text that its tag does not fit, or a number of more digits than are read."""
    import yaml

    tag = str(node.tag).removeprefix("tag:yaml.org,2002:")
    if tag != "str" and len(node.value) > MAX_NUMBER:
        raise ValueError(f"a number or tagged value of {len(node.value):,} characters; at most {MAX_NUMBER} are read")
    try:
        return loader.construct_object(node)
    except (ValueError, OverflowError, LookupError, AttributeError, TypeError, yaml.constructor.ConstructorError) as error:
        # PyYAML on a tag that its text does not bear out (!!bool maybe, !!int "", !!timestamp foo), or on one that is not known
        detail = str(error).splitlines()[0].split(";")[0] if isinstance(error, ValueError | OverflowError) else ""
        message = f"{node.value[:60]!r} can not be read as the YAML tag !!{tag[:60]}"
        raise ValueError(message + (f": {detail}" if detail else "")) from None
