"""Every byte is a named line: what one rank holds, as an ordered list of entries."""

from __future__ import annotations

from typing import Literal, NamedTuple

Basis = Literal["exact", "modelled", "measured"]
Kind = Literal["weights", "cache", "activations", "graphs", "process", "tables", "transient", "others"]
"""What a line is. process: what contexts, libraries and links hold; tables: an engine's own books; others: who else is on the device."""


class Entry(NamedTuple):
    """One line. `low` and `high` bound 90 % of cases; on an exact line both equal `bytes`. Code joins on `kind`; `name` is for people."""

    name: str
    bytes: int
    low: int
    high: int
    basis: Basis
    source: str
    kind: Kind


def exact(name: str, n_bytes: int, source: str, kind: Kind) -> Entry:
    """A line that is arithmetic on declared shapes."""
    return Entry(name, n_bytes, n_bytes, n_bytes, "exact", source, kind)


def held_by_others(n_bytes: int) -> Entry:
    """What the question says that others hold on the device."""
    return exact("held by others", n_bytes, "the question", "others")


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

    def bytes_of(self, *kinds: Kind) -> int:
        """The lines of these kinds together."""
        return sum(entry.bytes for entry in self.entries if entry.kind in kinds)

    @property
    def low_bytes(self) -> int:
        return sum(entry.low for entry in self.entries)

    @property
    def high_bytes(self) -> int:
        return sum(entry.high for entry in self.entries)
