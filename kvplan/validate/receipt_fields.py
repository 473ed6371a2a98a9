"""What a receipt's file may hold: each field with its type and bounds, checked before anything is computed from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kvplan.fields import Between, Record

Text = Annotated[str, Between(0, 4000)]
Count = Annotated[int, Between(0, 1 << 40)]
Few = Annotated[int, Between(1, 1 << 24)]
Bytes = Annotated[int, Between(-(1 << 60), 1 << 60)]
Second = Annotated[float, Between(1e-12, 1e9)]
Status = Literal["equal", "different", "refused", "out of memory", "killed", "measured"]


class ShapeFields(Record):
    line: Text
    tensor: Text
    element: Annotated[str, Between(1, 40)]
    heads: Few
    width: Few
    tokens: Count
    tokens_per_entry: Few | None
    keep: Literal["all", "window", "chunk", "source"]
    keep_tokens: Count
    sinks: Count
    layout: Literal["contiguous", "growing", "paged"]
    block_tokens: Count
    layers: Few
    sequences: Few


class RowFields(Record):
    name: Text
    predicted_bytes: Bytes | None
    allocated_bytes: Bytes | None
    measured: dict[str, Bytes | None]
    shape: ShapeFields | None
    peak_bytes: Bytes | None
    bookkeeping_bytes: Bytes
    equal: bool | None


class CaseFields(Record):
    name: Text
    status: Status
    rows: Annotated[tuple[RowFields, ...], Between(0, 10_000)]
    predicted_bytes: Bytes
    allocated_bytes: Bytes | None
    measured: dict[str, Bytes | None]
    question: dict[str, Any]
    note: Text
    segments: dict[str, Bytes] | None


class PointFields(Record):
    length: Annotated[int, Between(1, 1 << 40)]
    cache_bytes: Bytes
    with_cache_s: Second
    without_cache_s: Second
    read_s: Second


class ExponentFields(Record):
    with_cache_s: float
    without_cache_s: float
    read_s: float


class SpeedFields(Record):
    points: Annotated[tuple[PointFields, ...], Between(0, 10_000)]
    exponents: ExponentFields | None = None
    copy_bytes_per_s: float | None = None
    read_bytes_per_s: float | None = None


class ReceiptFields(Record):
    schema: Text
    subject: Literal["caches", "kinds", "model", "speed"]
    date: Text
    kvplan: Text
    machine: dict[str, Any]
    cases: Annotated[tuple[CaseFields, ...], Between(0, 10_000)]
    speed: SpeedFields | None
    status: Status
    digest: Annotated[str, Between(64, 64)] | None = None
