"""Every byte is a named line: what one rank holds, as an ordered list of entries."""

from __future__ import annotations

from typing import Literal, NamedTuple

Basis = Literal["exact", "modelled", "measured"]


class Entry(NamedTuple):
    """One line. `low` and `high` bound 90 % of cases; on an exact line both equal `bytes`."""

    name: str
    bytes: int
    low: int
    high: int
    basis: Basis
    source: str


def exact(name: str, n_bytes: int, source: str) -> Entry:
    """A line that is arithmetic on declared shapes."""
    return Entry(name=name, bytes=n_bytes, low=n_bytes, high=n_bytes, basis="exact", source=source)


class Ledger(NamedTuple):
    """What each of `ranks` (identical ranks share one ledger) holds, in bytes, against `limit_bytes` (none: no device given)."""

    ranks: tuple[int, ...]
    device: str | None
    cache_bytes: int
    cache_bytes_per_token: int | float
    entries: tuple[Entry, ...]
    limit_bytes: int | None

    @property
    def total_bytes(self) -> int:
        return sum(entry.bytes for entry in self.entries)

    @property
    def low_bytes(self) -> int:
        return sum(entry.low for entry in self.entries)

    @property
    def high_bytes(self) -> int:
        return sum(entry.high for entry in self.entries)
