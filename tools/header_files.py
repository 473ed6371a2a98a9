"""Tiny writers of safetensors and GGUF files, for tests and measurements: they write what they are told, wrong or right."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any

F32, F16, Q8_0, Q4_K = 0, 1, 8, 12


def safetensors(header: dict[str, Any] | bytes, data_bytes: int | None = None, *, length: int | None = None) -> bytes:
    """A file: 8-byte length, header, zeros. `length` lies about the header's."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    if data_bytes is None:
        data_bytes = max((t["data_offsets"][1] for n, t in json.loads(text).items() if n != "__metadata__"), default=0)
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data_bytes)


def layout(tensors: Iterable[tuple[str, str, list[int], int]]) -> dict[str, Any]:
    """(name, dtype, shape, bytes) one after the other."""
    at, header = 0, {}
    for name, dtype, shape, n_bytes in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n_bytes]}
        at += n_bytes
    return header


def gguf(
    metadata: dict[str, Any], tensors: Iterable[tuple[str, tuple[int, ...], int, int]] = (), *, version: int = 3, order: str = "<"
) -> bytes:
    """A file: tensors are (name, shape in GGUF order, type number, bytes); data are zeros, 32-byte aligned."""
    header, data_bytes = gguf_header(metadata, tensors, version=version, order=order)
    return header + bytes(data_bytes)


def gguf_header(
    metadata: dict[str, Any], tensors: Iterable[tuple[str, tuple[int, ...], int, int]] = (), *, version: int = 3, order: str = "<"
) -> tuple[bytes, int]:
    """What comes before the data, with its padding, and how many bytes of data there are."""
    tensors = list(tensors)
    size = "Q" if version > 1 else "I"

    def text(value: str) -> bytes:
        raw = value.encode()
        return struct.pack(order + size, len(raw)) + raw

    def value(v: Any) -> bytes:
        if isinstance(v, bool):
            return struct.pack(order + "I?", 7, v)
        if isinstance(v, int):
            return struct.pack(order + "II", 4, v) if 0 <= v < 1 << 32 else struct.pack(order + "Iq", 11, v)
        if isinstance(v, float):
            return struct.pack(order + "If", 6, v)
        if isinstance(v, str):
            return struct.pack(order + "I", 8) + text(v)
        head = struct.pack(order + "I", 9)
        if v and isinstance(v[0], str):
            return head + struct.pack(order + "I" + size, 8, len(v)) + b"".join(text(s) for s in v)
        code, kind = ("?", 7) if v and isinstance(v[0], bool) else ("i", 5)
        return head + struct.pack(f"{order}I{size}{len(v)}{code}", kind, len(v), *v)

    out = b"GGUF" + struct.pack(order + "I", version) + struct.pack(order + 2 * size, len(tensors), len(metadata))
    out += b"".join(text(k) + value(v) for k, v in metadata.items())
    at = 0
    for name, shape, kind, n_bytes in tensors:
        out += text(name) + struct.pack(f"{order}I{len(shape)}{size}IQ", len(shape), *shape, kind, at)
        at += -(-n_bytes // 32) * 32
    return (out + bytes(-len(out) % 32), at) if tensors else (out, 0)


def model(arch: str, geometry: dict[str, Any]) -> dict[str, Any]:
    """Metadata of one architecture: its keys get their prefix, general and tokenizer keys stay."""
    keys = {k if k.startswith(("general.", "tokenizer.")) else f"{arch}.{k}": v for k, v in geometry.items()}
    return {"general.architecture": arch, **keys}
