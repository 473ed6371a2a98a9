"""Receipts: what was predicted and what was measured, on which device, when; written whole or not at all, and checked again later."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kvplan.errors import SpecError
from kvplan.validate.description import CacheShape, shape_of

SCHEMA = "kvplan.receipt/1"
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
    """One run of `kvplan validate`. `machine` names the device, driver and torch, never a host or a path."""

    subject: Literal["caches", "kinds", "model", "speed"]
    date: str
    kvplan: str
    machine: dict[str, Any]
    cases: tuple[Case, ...] = ()
    speed: dict[str, Any] | None = None

    @property
    def status(self) -> Status:
        """equal only if every case is; else the first other one."""
        return next((case.status for case in self.cases if case.status not in ("equal", "measured")), "equal" if self.cases else "measured")

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as it is written to a file."""
        return {"schema": SCHEMA, **_plain(self), "status": self.status}


def receipt(subject: Literal["caches", "kinds", "model", "speed"], machine: dict[str, Any], **parts: Any) -> Receipt:
    """A receipt of today."""
    try:
        release = version("kvplan-llm")
    except PackageNotFoundError:
        release = "not installed"
    return Receipt(subject, date.today().isoformat(), release, machine, **parts)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return {name: _plain(getattr(value, name)) for name in value._fields} | {"equal": value.equal}
    if hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def write(found: Receipt, path: str | Path) -> None:
    """The receipt as JSON, put in place in one step: a process killed at any moment leaves the old file or the new one."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    number, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".partial")
    try:
        with os.fdopen(number, "w") as file:
            json.dump(found.as_dict(), file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def read(path: str | Path) -> Receipt:
    """A receipt from its file. Raises SpecError for a file that is none."""
    try:
        data = json.loads(Path(path).read_text())
        if data["schema"] != SCHEMA:
            raise SpecError(str(path), [("schema", f"{data['schema']!r}; this kvplan reads {SCHEMA}")])
        cases = tuple(_case(case) for case in data["cases"])
        return Receipt(data["subject"], data["date"], data["kvplan"], data["machine"], cases, data["speed"])
    except OSError as error:
        raise SpecError(str(path), [("", error.strerror or "can not be read")]) from None
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(str(path), [("", f"not a receipt: {type(error).__name__}: {error}")]) from None


def _case(data: dict[str, Any]) -> Case:
    rows = []
    for row in data["rows"]:
        row = {name: value for name, value in row.items() if name != "equal"}
        rows.append(Row(**row | {"shape": row["shape"] and shape_of(row["shape"])}))
    return Case(**data | {"rows": tuple(rows)})


def faults(found: Receipt) -> list[str]:
    """What does not hold in a receipt, checked with today's formulas: empty for a sound one. Needs no torch and allocates nothing.

    Every row's prediction is made again from its shape, every verdict again from its numbers.
    """
    from kvplan.validate.predict import predict

    wrong = []
    for case in found.cases:
        for row in case.rows:
            if row.shape is not None and (again := predict(row.shape)) != row.predicted_bytes:
                wrong.append(f"{case.name}, {row.name}: the receipt predicts {row.predicted_bytes:,} B, today's formula {again:,} B")
        sums = (
            sum(row.predicted_bytes or 0 for row in case.rows if row.shape),
            sum(row.allocated_bytes or 0 for row in case.rows if row.shape),
        )
        if case.status in ("equal", "different") and any(row.shape for row in case.rows):
            if sums != (case.predicted_bytes, case.allocated_bytes):
                wrong.append(f"{case.name}: the rows sum to {sums}, the receipt says {(case.predicted_bytes, case.allocated_bytes)}")
            if case.status != verdict(case.rows, case.predicted_bytes):
                wrong.append(f"{case.name}: the rows do not make it {case.status!r}")
    return wrong


def verdict(rows: tuple[Row, ...], predicted_bytes: int) -> Status:
    """equal where every tensor row took exactly what was predicted and they sum to the plan's own line."""
    tensors = [row for row in rows if row.shape is not None]
    same = all(row.equal for row in tensors) and sum(row.allocated_bytes or 0 for row in tensors) == predicted_bytes
    return "equal" if same else "different"
