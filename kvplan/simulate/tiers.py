"""Tiers of the cache below the pool while requests run: what left the pool is looked for there, each tier in its own pieces.

The rules are those of vLLM 0.32's offloading connector and its CPU manager with the LRU policy (distributed/kv_transfer/kv_connector/v1/
offloading/scheduler.py, v1/kv_offload/cpu/manager.py, policies/lru.py), which other connectors share in outline. Every whole piece that a
request computed or found is written, the pool's own too. When the request ends its pieces are the last used ones, its first of all. A tier
that is full forgets the piece that was used longest ago; a request that is larger than the tier writes nothing. Behind what the pool still
has, the pieces that follow without a gap are read back, from the nearest tier that has each. All tiers are written alike, so that a larger
one has what a smaller one has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.simulate.result import TierFound
from kvplan.simulate.sequence import Sequence as Live

#: A piece: the stream that covers its last token, and its number in the request.
Piece = tuple[int, int]


class TierSize(NamedTuple):
    """One tier of one replica: where it lies, what keeps it, tokens of a piece, how many pieces it holds, and the fewest tokens that it
    reads back (vLLM's connector: a piece)."""

    place: str
    system: str
    piece_tokens: int
    pieces: int
    least: int = 1


class Tiers:
    """The tiers below one pool, nearest first."""

    def __init__(self, sizes: Sequence[TierSize]) -> None:
        self.sizes = tuple(sizes)
        self.hit_tokens = [0] * len(sizes)
        self.evicted = [0] * len(sizes)
        self._held: list[OrderedDict[Piece, None]] = [OrderedDict() for _ in sizes]

    def found(self, s: Live, hit: int) -> list[int]:
        """Tokens of a request that each tier has behind the `hit` tokens that the pool has; its last token is always computed."""
        tokens, at, most = [0] * len(self.sizes), hit, s.known - 1
        while at < most:
            for i, (size, held) in enumerate(zip(self.sizes, self._held, strict=True)):
                n = at // size.piece_tokens
                end = (n + 1) * size.piece_tokens
                if end <= s.known and (s.stream(end - 1), n) in held:
                    tokens[i] += min(end, most) - at
                    at = end
                    break
            else:
                break
        return tokens if at - hit >= max(size.least for size in self.sizes) else [0] * len(tokens)

    def take(self, tokens: Sequence[int]) -> None:
        """These tokens were read back."""
        self.hit_tokens = [had + more for had, more in zip(self.hit_tokens, tokens, strict=True)]

    def keep(self, s: Live, computed: int) -> None:
        """A request leaves with so many tokens computed: its pieces are written, where they are not there, and the last used."""
        for i, (size, held) in enumerate(zip(self.sizes, self._held, strict=True)):
            pieces = list(_pieces(s, computed, size.piece_tokens))
            fits = len(pieces) <= size.pieces
            for piece in reversed(pieces):
                if fits or piece in held:
                    held[piece] = None
                    held.move_to_end(piece)
            while len(held) > size.pieces:
                held.popitem(last=False)
                self.evicted[i] += 1

    def results(self) -> tuple[TierFound, ...]:
        """What each tier gave so far."""
        rows = zip(self.sizes, self.hit_tokens, self.evicted, strict=True)
        return tuple(TierFound(size.place, size.system, size.pieces * size.piece_tokens, *counts) for size, *counts in rows)


def _pieces(s: Live, computed: int, tokens: int) -> Iterator[Piece]:
    """Whole pieces of the first `computed` tokens, each named by the stream that covers its last token."""
    at, last = 0, computed // tokens
    for stream, until in (*s.content, (s.tail, computed)):
        stop = min(until // tokens, last)
        yield from ((stream, n) for n in range(at, stop))
        at = max(at, stop)
