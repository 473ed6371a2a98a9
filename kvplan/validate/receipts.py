"""Receipts: what was predicted and what was measured, on which device, when; written whole or not at all, and checked again later."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic_core import ValidationError

from kvplan.errors import FEW, KvplanError, SpecError
from kvplan.files import read_text, write_text
from kvplan.validate.description import CacheShape, shape_of
from kvplan.validate.receipt_fields import ReceiptFields

SCHEMA = "kvplan.receipt/1"
Subject = Literal["caches", "kinds", "model", "speed"]
Status = Literal["equal", "different", "refused", "out of memory", "killed", "measured"]


class Row(NamedTuple):
    """One line: predicted beside allocated bytes. `allocated_bytes` is None where it was never allocated; `equal` then too.

    measured   what each of the device's own figures grew by; `measured_bytes` is the first of them
    name       where the row is no cache tensor (a model's weights, a peak)
    """

    name: str
    predicted_bytes: int | None
    allocated_bytes: int | None
    measured: dict[str, int | None]
    shape: CacheShape | None = None
    peak_bytes: int | None = None
    bookkeeping_bytes: int = 0

    @property
    def equal(self) -> bool | None:
        if self.predicted_bytes is None or self.allocated_bytes is None:
            return None
        return self.predicted_bytes == self.allocated_bytes

    @property
    def measured_bytes(self) -> int | None:
        return next((n for n in self.measured.values() if n is not None), None)


class Case(NamedTuple):
    """Caches held together: one plan, or one kind of layer. `note` says what went wrong, with the bytes at which it happened.

    segments   on a GPU: torch's allocator as predicted from the single sizes ({allocated, reserved} bytes)
    """

    name: str
    status: Status
    rows: tuple[Row, ...]
    predicted_bytes: int
    allocated_bytes: int | None
    measured: dict[str, int | None]
    question: dict[str, Any]
    note: str = ""
    segments: dict[str, int] | None = None


class Receipt(NamedTuple):
    """One run of `kvplan validate`. `machine` names the device, driver and torch, never a host or a path.

    changed   read from a file whose figures are not those it was written with
    """

    subject: Subject
    date: str
    kvplan: str
    machine: dict[str, Any]
    cases: tuple[Case, ...] = ()
    speed: dict[str, Any] | None = None
    changed: bool = False

    @property
    def status(self) -> Status:
        """equal only if every case is; else the first other one."""
        return next((case.status for case in self.cases if case.status not in ("equal", "measured")), "equal" if self.cases else "measured")

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as it is written to a file. `digest` is the SHA-256 of all the rest: a changed figure no longer matches."""
        data = {"schema": SCHEMA, **_plain(self), "status": self.status}
        del data["changed"]
        return data | {"digest": digest(data)}


def receipt(subject: Subject, machine: dict[str, Any], **parts: Any) -> Receipt:
    """A receipt of today."""
    try:
        release = version("kvplan-llm")
    except PackageNotFoundError:
        release = "not installed"
    return Receipt(subject, date.today().isoformat(), release, machine, **parts)


def digest(data: dict[str, Any]) -> str:
    """SHA-256 of a receipt's data without its digest: JSON, keys sorted, no spaces."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(getattr(value, name)) for name in value._fields} | {"equal": value.equal}
    if hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def write(found: Receipt, path: str | Path) -> None:
    """The receipt as JSON, put in place in one step: a process killed at any moment leaves the old file or the new one."""
    write_text(path, json.dumps(found.as_dict(), indent=1) + "\n")


def read(path: str | Path) -> Receipt:
    """A receipt from its file, every field of the type and in the bounds it has. Raises SpecError for a file that is none."""
    name = str(path)
    try:
        data = json.loads(read_text(path, what="a receipt is smaller"))
    except (ValueError, RecursionError) as error:
        raise SpecError(name, [("", f"not a receipt: not JSON: {str(error)[:100]}")]) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise SpecError(name, [("schema", f"{str(schema)[:60]!r}; this kvplan reads {SCHEMA}")])
    try:
        ReceiptFields.check(data)
    except ValidationError as error:
        wrong = [(".".join(map(str, e["loc"])), f"not a receipt: {e['msg']}") for e in error.errors(include_url=False, include_input=False)]
        raise SpecError(name, wrong[:FEW]) from None
    cases = tuple(Case(**case | {"rows": tuple(map(_row, case["rows"]))}) for case in data["cases"])
    found = Receipt(data["subject"], data["date"], data["kvplan"], data["machine"], cases, data["speed"])
    kept = data.get("digest")
    return found._replace(changed=kept != digest(data) or kept != digest(found.as_dict()))


def _row(data: dict[str, Any]) -> Row:
    fields = {name: value for name, value in data.items() if name != "equal"}
    return Row(**fields | {"shape": data["shape"] and shape_of(data["shape"])})


def faults(found: Receipt) -> list[str]:
    """What does not hold in a receipt, checked with today's formulas: empty for a sound one. Needs no torch and allocates nothing.

    Every row's prediction is made again from its shape, every verdict again from its numbers, exponents again from their points.
    """
    wrong = ["changed since it was written: its digest is not that of its figures"] if found.changed else []
    for case in found.cases:
        wrong += [f"{case.name}, {row.name}: {text}" for row in case.rows if row.shape is not None and (text := _predicted_again(row))]
        if case.status in ("equal", "different"):
            wrong += [f"{case.name}: {text}" for text in _added_again(case)]
        elif not case.note:
            wrong.append(f"{case.name}: {case.status!r} without a word of why")
    if found.speed:
        wrong += _fitted_again(found.speed)
    return wrong


def _predicted_again(row: Row) -> str:
    from kvplan.validate.predict import predict

    assert row.shape is not None
    try:
        again = predict(row.shape)
    except (KvplanError, ArithmeticError, LookupError, ValueError) as error:
        return f"no cache has this shape: {error}"
    said = "nothing" if row.predicted_bytes is None else f"{row.predicted_bytes:,} B"
    return "" if again == row.predicted_bytes else f"the receipt predicts {said}, today's formula {again:,} B"


def _added_again(case: Case) -> list[str]:
    rows = _cache_rows(case.rows)
    sums = (sum(row.predicted_bytes or 0 for row in rows), sum(row.allocated_bytes or 0 for row in rows))
    wrong = []
    if sums != (case.predicted_bytes, case.allocated_bytes):
        wrong.append(f"the rows sum to {sums}, the receipt says {(case.predicted_bytes, case.allocated_bytes)}")
    if case.status != verdict(case.rows, case.predicted_bytes):
        wrong.append(f"the rows do not make it {case.status!r}")
    return wrong


def _fitted_again(speed: dict[str, Any]) -> list[str]:
    try:
        points = speed["points"]
        lengths = [p["length"] for p in points]
        again = {name: exponent(lengths, [p[name] for p in points]) for name in speed.get("exponents") or ()}
        return [
            f"{name} grows with exponent {again[name]:.3f}, the receipt says {said:.3f}"
            for name, said in (speed.get("exponents") or {}).items()
            if not abs(again[name] - said) < 1e-6
        ]
    except (LookupError, ArithmeticError, AttributeError, TypeError, ValueError):
        return ["the points do not make exponents"]


def exponent(lengths: list[int], seconds: list[float]) -> float:
    """The p of seconds = c x length^p that fits best (least squares of the logarithms): 0 flat, 1 linear, 2 quadratic."""
    xs, ys = [math.log(n) for n in lengths], [math.log(s) for s in seconds]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def verdict(rows: tuple[Row, ...], predicted_bytes: int) -> Status:
    """equal where every compared row took exactly what was predicted and the cache's rows sum to the plan's own line."""
    compared = [row for row in rows if row.equal is not None or row.shape is not None]
    same = all(row.equal for row in compared) and sum(row.allocated_bytes or 0 for row in _cache_rows(rows)) == predicted_bytes
    return "equal" if same else "different"


def _cache_rows(rows: tuple[Row, ...]) -> list[Row]:
    """The rows of the cache: its tensors, or of a real model what is named so."""
    return [row for row in rows if row.shape is not None] or [row for row in rows if row.name.startswith("cache: ")]
