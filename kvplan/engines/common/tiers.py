"""Tiers of the cache beside the devices: what keeps pages that left them, in which pieces, and how many of those it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from kvplan.ledger import Entry, exact
from kvplan.units import cdiv, longest

Kind = Literal["full", "window", "chunk", "state"]
Place = Literal["cpu", "disk"]
#: Of vLLM itself; reads nothing back that is less than a piece.
OFFLOADING = "vLLM's offloading connector"


class Part(NamedTuple):
    """Equal page groups of a tier: what one prefix keeps of them there, and what of that comes back.

    kind        full: a piece for every `tokens` tokens; window, chunk: the same, but only the last `span` tokens come back;
                state: a piece for every `tokens` tokens (0: one at the end of a prefix), of which the last comes back
    groups      how many such groups
    load_bytes  of one piece, that one rank reads back
    """

    kind: Kind
    tokens: int
    groups: int
    load_bytes: int
    span: int = 0

    def kept(self, prefix: int) -> int:
        """Pieces that a prefix of so many tokens leaves: only whole ones have a name."""
        return self.groups * (prefix // self.tokens if self.tokens else 1)

    def back(self, prefix: int) -> int:
        """Pieces of it that come back."""
        whole = prefix // self.tokens if self.tokens else 1
        if self.kind == "state":
            return self.groups * min(whole, 1)
        return self.groups * (whole if self.kind == "full" else min(whole, cdiv(self.span, self.tokens)))


class Tier(NamedTuple):
    """One pool of one tier, of one server: all its ranks together.

    place         where it lies; system: what keeps it; what: of the model's cache, where a pool keeps a part
    setting       what sizes it, as its own flag, option or variable is called; empty: nothing was asked, the engine's own
    asked_bytes   that setting in bytes, of all ranks; bytes: what the pieces take
    pieces        chunks, blocks or pages: it holds so many, of `piece_bytes` on the machine, all ranks' copies together
    ranks         that read from it; shared: they read one copy
    """

    place: Place
    system: str
    what: str
    setting: str
    asked_bytes: int
    bytes: int
    pieces: int
    piece_bytes: int
    ranks: int
    shared: bool
    parts: tuple[Part, ...]

    @property
    def piece_tokens(self) -> int:
        """Tokens of a piece; of several groups the most."""
        return max(part.tokens for part in self.parts)

    def kept(self, prefix: int) -> int:
        """Pieces that a prefix leaves in it."""
        return sum(part.kept(prefix) for part in self.parts)

    def load_bytes(self, prefix: int) -> int:
        """Bytes that one rank reads back of a prefix."""
        return sum(part.back(prefix) * part.load_bytes for part in self.parts)

    @property
    def tokens(self) -> int | None:
        """The longest prefix that it holds whole; None where it keeps no tokens."""
        if not self.piece_tokens:
            return None
        return longest(lambda n: self.kept(n) <= self.pieces) // self.piece_tokens * self.piece_tokens


def pool(
    place: Place, system: str, setting: str, asked_bytes: int, piece_bytes: int, parts: Iterable[Part], ranks: int,
    *, shared: bool = False, pieces: int | None = None, what: str = "cache",
) -> Tier:  # fmt: skip
    """A pool of as many whole pieces as the bytes hold, or of so many."""
    held = asked_bytes // piece_bytes if pieces is None else pieces
    return Tier(place, system, what, setting, asked_bytes, held * piece_bytes, held, piece_bytes, ranks, shared, tuple(parts))


def of_each(ranks: int) -> str:
    """Behind a size that every rank has: ` of each of 4 ranks`; nothing where there is one."""
    return f" of each of {ranks:,} ranks" if ranks > 1 else ""


def tier_lines(tiers: Iterable[Tier]) -> list[Entry]:
    """What they take of host memory: a disk takes none."""
    return [
        exact(
            "KV cache offloaded" + (f": {tier.what}" if tier.what != "cache" else ""), tier.bytes, f"{tier.setting}; {tier.system}", "cache"
        )
        for tier in tiers
        if tier.place == "cpu"
    ]
