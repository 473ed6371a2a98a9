"""safetensors headers: the format's own rules, strictly, from a file, a stream or ranges; weights are never read.

Rules: huggingface/safetensors README "Format" and safetensors/src/tensor.rs (0.7): an 8-byte little-endian length, at most 100 MB
of JSON that starts with `{`, tensors that tile the data without overlap or gap.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from kvplan.errors import FormatError, SpecError
from kvplan.files import POINTER, POINTER_START
from kvplan.importers.ranges import FileRanges, Ranges, StreamRanges, read_json
from kvplan.importers.strict_json import fail_in, parse
from kvplan.importers.tensor_names import classify
from kvplan.stored import StoredWeights

FORMAT = "safetensors"
INDEX = "model.safetensors.index.json"
MAX_HEADER_BYTES = 100_000_000
MAX_TENSORS = 1 << 18  # in one file; DeepSeek-V3 has 91,991 in all its shards
MAX_ALL_TENSORS = 1 << 20  # in all files of a checkpoint
MAX_FILES = 1 << 12
MAX_METADATA = 1 << 16
MAX_COUNT = 1 << 62

#: dtype -> bits of one element (safetensors/src/tensor.rs, Dtype::bitsize).
DTYPE_BITS: dict[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip

_WS = rb"[ \t\r\n]*+"
_OPEN = re.compile(rb"\{" + _WS)
_KEY = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\.){0,2048}+)"' + _WS + b":" + _WS)
_TEXT = re.compile(rb'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"')
_ENTRY = re.compile(rb"\{[^{}]{0,4096}+\}")
#: An entry as the reference writer writes it; any other JSON spelling goes the slow way.
_PLAIN = re.compile(
    rb'\{"dtype":"(\w{1,16}+)","shape":\[((?:\d{1,19}+(?:,\d{1,19}+){0,31}+)?+)\],"data_offsets":\[(\d{1,19}+),(\d{1,19}+)\]\}'
)
_NEXT = re.compile(_WS + rb"([,}])" + _WS)
_KEYS = {"dtype", "shape", "data_offsets"}


class Tensor(NamedTuple):
    """One entry: `begin` and `end` count from the start of the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def n_bytes(self) -> int:
        return self.end - self.begin


class Header(NamedTuple):
    """A checked header: tensors in data order, the file's `__metadata__`, where the data starts and how long it is."""

    source: str
    tensors: tuple[Tensor, ...]
    metadata: dict[str, str]
    data_offset: int
    data_bytes: int


def read_header(source: str | Path | BinaryIO | Ranges) -> Header:
    """The header of one file. Reads 8 + header bytes, nothing else.

    Raises SpecError where there is no such file, FormatError with the byte offset where it breaks the format.
    """
    if isinstance(source, (str, Path)):
        with FileRanges(source) as file:
            return _read(file)
    return _read(source if isinstance(source, Ranges) else StreamRanges(source))


def _read(file: Ranges) -> Header:
    def fail(offset: int, message: str) -> FormatError:
        return FormatError(file.name, FORMAT, offset, message)

    start = file.read_range(0, 8)
    if len(start) < 8:
        raise fail(len(start), "the file ends inside the 8-byte header length")
    length = int.from_bytes(start, "little")
    if start == POINTER_START:
        raise fail(0, POINTER)
    if length > MAX_HEADER_BYTES:
        raise fail(0, f"header length {length}: the format allows {MAX_HEADER_BYTES}")
    if file.size is not None and 8 + length > file.size:
        raise fail(0, f"header length {length}, but the file has {file.size} bytes")
    data = file.read_range(8, length)
    if len(data) < length:
        raise fail(8 + len(data), f"the file ends inside the header of {length} bytes")
    entries, metadata = _entries(data, file.name)
    tensors = sorted(entries, key=lambda t: (t.begin, t.end))
    end = 0
    for t in tensors:
        if t.begin != end:
            what = "overlaps the tensor before it" if t.begin < end else "leaves a gap before it"
            raise fail(8 + length + min(t.begin, end), f"tensor {t.name[:80]!r} {what}: starts at {t.begin}, not {end}")
        end = t.end
    if file.size is not None and 8 + length + end != file.size:
        raise fail(8 + length + end, f"the tensors end here, the file at {file.size}: truncated, or trailing bytes")
    return Header(file.name, tuple(tensors), metadata, 8 + length, end)


def _entries(data: bytes, source: str) -> tuple[list[Tensor], dict[str, str]]:
    """The JSON object, scanned entry by entry, so that nothing nested or endless is ever built."""
    opened = _OPEN.match(data)
    if opened is None:
        raise FormatError(source, FORMAT, 8, "the header is not a JSON object; it must start with {")
    if data.count(b'"data_offsets"') > MAX_TENSORS:
        raise FormatError(source, FORMAT, 8, f"more than {MAX_TENSORS} tensors")
    tensors: list[Tensor] = []
    metadata: dict[str, str] = {}
    seen: set[str] = set()
    at = opened.end()
    last = data[at : at + 1] == b"}"
    if last:
        at += 1
    while not last:
        key = _KEY.match(data, at)
        if key is None:
            raise FormatError(source, FORMAT, 8 + at, "expected a tensor name in quotes and a colon")
        name = _text(key, source)
        if name in seen:
            raise FormatError(source, FORMAT, 8 + at, f"{name[:80]!r} is there twice")
        seen.add(name)
        if len(seen) > MAX_TENSORS:
            raise FormatError(source, FORMAT, 8 + at, f"more than {MAX_TENSORS} tensors")
        if name == "__metadata__":
            metadata, at = _metadata(data, key.end(), source)
        else:
            entry = _ENTRY.match(data, key.end())
            if entry is None:
                raise FormatError(source, FORMAT, 8 + key.end(), f"tensor {name[:80]!r}: expected {{dtype, shape, data_offsets}}")
            tensors.append(_tensor(name, _value(entry[0], source, 8 + key.end()), source, 8 + key.end()))
            at = entry.end()
        following = _NEXT.match(data, at)
        if following is None:
            raise FormatError(source, FORMAT, 8 + at, "expected , or } after an entry")
        last, at = following[1] == b"}", following.end()
    if rest := data[at:].strip(b" \t\r\n"):
        raise FormatError(source, FORMAT, 8 + data.index(rest, at), "text after the header's closing }")
    return tensors, metadata


def _text(key: re.Match[bytes], source: str) -> str:
    return str(parse(b'"' + key[1] + b'"', fail_in(source, FORMAT, 7 + key.start(1)))) if b"\\" in key[1] else _utf8(key, source)


def _utf8(key: re.Match[bytes], source: str) -> str:
    try:
        return key[1].decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(source, FORMAT, 8 + key.start(1) + error.start, "not UTF-8") from None


def _value(entry: bytes, source: str, at: int) -> dict[str, Any]:
    plain = _PLAIN.fullmatch(entry)
    if plain is None:
        found: dict[str, Any] = parse(entry, fail_in(source, FORMAT, at))
        return found
    shape = [int(n) for n in plain[2].split(b",")] if plain[2] else []
    return {"dtype": plain[1].decode(), "shape": shape, "data_offsets": [int(plain[3]), int(plain[4])]}


def _metadata(data: bytes, at: int, source: str) -> tuple[dict[str, str], int]:
    """`__metadata__`, a flat map of text: string by string, braces inside strings allowed."""
    opened = _OPEN.match(data, at)
    if opened is None:
        raise FormatError(source, FORMAT, 8 + at, "__metadata__ must be an object of strings")
    found: dict[str, str] = {}
    at = opened.end()
    if data[at : at + 1] == b"}":
        return found, at + 1
    while True:
        key = _KEY.match(data, at)
        value = _TEXT.match(data, key.end()) if key else None
        if key is None or value is None:
            raise FormatError(source, FORMAT, 8 + at, "__metadata__ must be an object of strings")
        name = _text(key, source)
        if name in found or len(found) == MAX_METADATA:
            what = f"{name[:80]!r} is there twice" if name in found else f"more than {MAX_METADATA} keys"
            raise FormatError(source, FORMAT, 8 + at, f"__metadata__: {what}")
        found[name] = parse(value[0], fail_in(source, FORMAT, 8 + value.start()))
        following = _NEXT.match(data, value.end())
        if following is None:
            raise FormatError(source, FORMAT, 8 + value.end(), "expected , or } in __metadata__")
        at = following.end()
        if following[1] == b"}":
            return found, following.end(1)


def _tensor(name: str, entry: dict[str, Any], source: str, at: int) -> Tensor:
    def fail(message: str) -> FormatError:
        return FormatError(source, FORMAT, at, f"tensor {name[:80]!r}: {message}")

    if set(entry) != _KEYS:
        raise fail(f"keys are {', '.join(sorted(entry))[:80]}, not data_offsets, dtype, shape")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    bits = DTYPE_BITS.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        raise fail(f"dtype {json.dumps(dtype)[:40]} is none of {', '.join(DTYPE_BITS)}")
    if not (_counts(shape) and _counts(offsets) and len(offsets) == 2):
        raise fail(f"shape and the two data_offsets are whole numbers from 0 to {MAX_COUNT}")
    elems = 1
    for n in shape:
        elems *= n
        if elems > MAX_COUNT:
            raise fail(f"shape {shape!s:.80} has more than {MAX_COUNT} elements")
    begin, end = offsets
    if elems * bits % 8:
        raise fail(f"{elems} elements of {bits} bits are not whole bytes")
    if end - begin != elems * bits // 8:
        raise fail(f"data_offsets {begin} to {end} hold {end - begin} bytes, {dtype} {shape!s:.80} takes {elems * bits // 8}")
    return Tensor(name, dtype, tuple(shape), begin, end)


def _counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n <= MAX_COUNT for n in values)


def shard_names(index: Any, source: str) -> list[str]:
    """The files that a parsed `model.safetensors.index.json` names, sorted. Raises SpecError."""
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise SpecError(source, [("weight_map", "an index maps tensor names to file names")])
    names = {name if isinstance(name, str) else f"{name!s:.80}/" for name in weight_map.values()}
    if len(names) > MAX_FILES:
        raise SpecError(source, [("weight_map", f"{len(names)} files; at most {MAX_FILES} are read")])
    for name in names:
        if not re.fullmatch(r"[\w][\w .+=-]{0,254}", name):
            raise SpecError(source, [("weight_map", f"{name[:80]!r} is not a plain file name")])
    return sorted(names)


def checkpoint_files(path: str | Path) -> list[Path]:
    """The safetensors files of a checkpoint: of one file, an index, or a folder (its index first). Raises SpecError."""
    path = Path(path)
    if os.path.isdir(path):
        if os.path.isfile(path / INDEX):
            return checkpoint_files(path / INDEX)
        names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(".safetensors") and not is_adapter(entry.name))
        indexes = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(".safetensors.index.json"))
        if "model.safetensors" in names:
            names = ["model.safetensors"]
        elif len(indexes) == 1:
            return checkpoint_files(path / indexes[0])
        elif any(name.startswith("model-") for name in names):  # shards whose index is missing
            names = [name for name in names if name.startswith("model-")]
        if not names:
            raise SpecError(str(path), [("", "no .safetensors file in this folder")])
        _all_there(names, str(path))
        return [path / name for name in names]
    if path.name.endswith(".json"):
        names = shard_names(read_json(path), str(path))
        missing = [name for name in names if not os.path.isfile(path.parent / name)]
        if missing:
            raise SpecError(str(path), [("weight_map", f"{len(missing)} of {len(names)} files are not there, first {missing[0]}")])
        return [path.parent / name for name in names]
    return [path]


def is_adapter(name: str) -> bool:
    """A file of peft's (utils/constants.py, SAFETENSORS_WEIGHTS_NAME), which holds no weights of the model that lies beside it."""
    return name.startswith("adapter_model")


_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})\.safetensors")


def _all_there(names: list[str], folder: str) -> None:
    """Shards say how many there are of them: fewer are a download that did not end. Raises SpecError."""
    shards = [match for name in names if (match := _SHARD.fullmatch(name))]
    for stem, of in {(match[1], match[2]) for match in shards}:
        here = sum((match[1], match[2]) == (stem, of) for match in shards)
        if here < int(of):
            raise SpecError(
                folder, [("", f"{here} of {int(of)} files {stem}-*-of-{of}.safetensors are here; fetch the rest, or name config.json")]
            )


def read_checkpoint(path: str | Path, n_layers: int | None = None) -> StoredWeights:
    """What a checkpoint stores, exactly: a .safetensors file, an index, or a folder.

    n_layers  the model's own layers, where known: those from there on are draft (MTP) modules
    Raises SpecError, FormatError.
    """
    found = stored_weights(map(read_header, checkpoint_files(path)), n_layers)
    if not found.tensors:
        raise SpecError(str(path), [("", "no tensor in any of its safetensors; fetch them again, or name config.json")])
    return found


def stored_weights(headers: Iterable[Header], n_layers: int | None = None) -> StoredWeights:
    """The tensors of all headers, each with its role. Raises FormatError where two files hold one tensor."""
    tensors: dict[str, Tensor] = {}
    for header in headers:
        for t in header.tensors:
            if t.name in tensors:
                raise FormatError(header.source, FORMAT, 8, f"tensor {t.name[:80]!r} is in another file of this checkpoint too")
            tensors[t.name] = t
        if len(tensors) > MAX_ALL_TENSORS:
            raise FormatError(header.source, FORMAT, 8, f"more than {MAX_ALL_TENSORS} tensors in this checkpoint")
    shapes = {t.name: (t.dtype, t.shape, t.n_bytes) for t in tensors.values()}
    return StoredWeights(source="safetensors headers", tensors=classify(shapes, n_layers))
