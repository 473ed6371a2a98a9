"""Measured constants as values: what an engine charges that no shape tells. Files hold them; the shell reads them, engines multiply."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.errors import SpecError

#: What the question's `calibration` may name.
CALIBRATIONS = ("packaged", "user", "none")
MAX_RECORDS = 1000


class Constant(NamedTuple):
    """One constant from a release on. `low` and `high` bound 90 % of the cases it was fitted on; `cases` is their number."""

    name: str
    since: str
    value: float
    low: float
    high: float
    cases: int

    @property
    def ends(self) -> tuple[float, float, float]:
        """The value, the low end and the high end."""
        return self.value, self.low, self.high


class Spread(NamedTuple):
    """How far the budget of a kind of deployment is off, in 90 % of cases: shares of device memory, low below and high above."""

    kind: str
    low: float
    high: float
    cases: int


class Record(NamedTuple):
    """One start that was measured: the question it answers, and the bytes of its lines."""

    engine: str
    release: str
    model: str
    device: str
    tp: int
    pp: int
    max_num_seqs: int
    max_num_batched_tokens: int
    lines: tuple[tuple[str, int], ...]
    source: str

    @property
    def key(self) -> tuple[str | int, ...]:
        return self[:8]


class Constants(NamedTuple):
    """The constants of one engine. `name`: packaged or user; `source`: the file, and what it was fitted on."""

    name: str
    engine: str
    source: str
    values: tuple[Constant, ...]
    spreads: tuple[Spread, ...] = ()
    records: tuple[Record, ...] = ()

    def at(self, name: str, releases: tuple[str, ...], release: str) -> Constant:
        """The constant in force at `release`, one of `releases` (oldest first). Raises SpecError where the set has none."""
        known = [c for c in self.values if c.name == name and c.since in releases and releases.index(c.since) <= releases.index(release)]
        if not known:
            raise SpecError(self.source, [(name, f"no constant of that name for {self.engine} {release}")])
        return max(known, key=lambda c: releases.index(c.since))

    def spread(self, kind: str) -> Spread:
        """The spread of that kind of deployment. Raises SpecError where the set has none."""
        for spread in self.spreads:
            if spread.kind == kind:
                return spread
        raise SpecError(self.source, [("spreads", f"no spread for {kind!r}")])


def parse_constants(data: Any, source: str) -> Constants:
    """Constants from a calibration file's data. Raises SpecError with every fault and its path."""
    faults: list[tuple[str, str]] = []
    values = [
        Constant(
            name=_text(row, "name", where, faults),
            since=_text(row, "since", where, faults),
            value=_number(row, "value", where, faults),
            low=_number(row, "low", where, faults),
            high=_number(row, "high", where, faults),
            cases=int(_number(row, "cases", where, faults)),
        )
        for where, row in _rows(data, "constants", faults)
    ]
    spreads = [
        Spread(
            kind=_text(row, "kind", where, faults),
            low=_number(row, "low", where, faults),
            high=_number(row, "high", where, faults),
            cases=int(_number(row, "cases", where, faults)),
        )
        for where, row in _rows(data, "spreads", faults)
    ]
    engine = _text(data, "engine", "", faults)
    if faults:
        raise SpecError(source, faults)
    return Constants("packaged", engine, source, tuple(values), tuple(spreads))


def parse_records(data: Any, source: str) -> tuple[Record, ...]:
    """The measured starts of a user's file. Raises SpecError with every fault and its path."""
    if data is None:
        return ()
    faults: list[tuple[str, str]] = []
    records = []
    for where, row in _rows(data, "records", faults):
        lines = row.get("lines")
        if not isinstance(lines, dict) or not all(_is_bytes(n) for n in lines.values()):
            faults.append((f"{where}.lines", "a mapping of line names to bytes"))
            continue
        words = {key: _text(row, key, where, faults) for key in ("engine", "release", "model", "device", "source")}
        sizes = {key: int(_number(row, key, where, faults)) for key in ("tp", "pp", "max_num_seqs", "max_num_batched_tokens")}
        values: dict[str, Any] = {**words, **sizes, "lines": tuple((str(name), int(n)) for name, n in lines.items())}
        records.append(Record(**values))
    if faults:
        raise SpecError(source, faults)
    return tuple(records[-MAX_RECORDS:])


def _rows(data: Any, key: str, faults: list[tuple[str, str]]) -> list[tuple[str, dict[str, Any]]]:
    rows = data.get(key) if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        faults.append((key, "a list of mappings"))
        return []
    return [(f"{key}.{i}", row) for i, row in enumerate(rows)]


def _text(row: Any, key: str, where: str, faults: list[tuple[str, str]]) -> str:
    value = row.get(key) if isinstance(row, dict) else None
    if not isinstance(value, str) or not value or len(value) > 1000:
        faults.append((f"{where}.{key}".strip("."), "must be text"))
        return ""
    return value


def _number(row: dict[str, Any], key: str, where: str, faults: list[tuple[str, str]]) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        faults.append((f"{where}.{key}", "must be a number"))
        return 0.0
    return float(value)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50
