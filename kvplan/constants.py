"""Measured constants as values: what an engine charges that no shape tells. Files hold them; the shell reads them, engines multiply."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.errors import SpecError


class Constant(NamedTuple):
    """One constant from a release on. `low` and `high` bound 90 % of the cases it was fitted on; `cases` is their number."""

    name: str
    since: str
    value: float
    low: float
    high: float
    cases: int


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
