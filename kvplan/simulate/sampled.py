"""Spatially hashed samples of a workload (SHARDS: Waldspurger and others, FAST 2015), for caches that are no stack algorithm.

A page is kept by a hash of what it is, so that it is kept in every request that holds it: what requests share they share in the sample, a
prefix stays one, and nodes of a tree, windows and the pool shrink alike. A pool of C pages is then one of C times the rate. Pages that are
found are counted against the pages asked for in the sample itself, which takes out most of its luck (the paper's adjustment).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.stack import Chain, chain
from kvplan.simulate.workload import Request

#: Pages of a workload from which on it is sampled, and least pages of the sample; a window keeps at least so many: with 16 the share
#: found was 3 points off, with 64 a third of one (docs/simulate.md).
MANY, ENOUGH, WINDOW = 1 << 20, 1 << 18, 64
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_MASK = (1 << 64) - 1


def rate_for(references: int, geometry: Geometry) -> int:
    """One page in so many is kept, a power of two; 1: all, as there are few, or windows would shrink to nothing."""
    one_in = 1
    if references < MANY:
        return one_in
    widths = [group.span // group.block_tokens for group in geometry.groups if group.span]
    while references // (2 * one_in) >= ENOUGH and min(widths, default=1 << 40) // (2 * one_in) >= WINDOW:
        one_in *= 2
    return one_in


def shrunk(geometry: Geometry, one_in: int) -> Geometry:
    """The pool in pages of the sample, each a token long."""
    groups = tuple(
        PageGroup(g.kind, 1, max(round(g.span / g.block_tokens / one_in), 1) if g.span else 0, g.copies) for g in geometry.groups
    )
    return geometry._replace(groups=groups, pages=max(round(geometry.pages / one_in), 1), max_model_len=1 << 40)


class Sample:
    """Requests of a workload as requests of a sample; `asked` and `kept` count pages of prompts, whole and in the sample."""

    def __init__(self, block: int, one_in: int) -> None:
        self.block, self.one_in = block, one_in
        self.asked = self.kept = 0

    def requests(self, whole: Iterable[Request]) -> Iterator[Request]:
        for number, request in enumerate(whole):
            one = chain(request, self.block)
            tail = request.content[-1][0] if request.continues and request.content else -number - 1
            ends, asked = self._counts(one, tail)
            full = ends[-1][1] if ends else 0
            self.asked += one.asked
            self.kept += asked
            content = tuple((stream, end) for stream, end in ends[: len(one.runs)])
            yield Request(request.arrival, asked + 1, max(full - asked, 1), content, request.continues)

    def share(self, hits: float) -> float:
        """Of the whole workload's prompt pages, by those found of the sample's."""
        return hits / self.kept if self.kept else 0.0

    def _counts(self, one: Chain, tail: int) -> tuple[list[tuple[int, int]], int]:
        """(stream, kept pages up to its end), the rest last; kept pages of those that can be found."""
        ends: list[tuple[int, int]] = []
        at = kept = asked = 0
        for stream, stop in (*one.runs, (tail, one.full)):
            if stop > at or stream == tail:
                marks = self.keep(stream, at, stop)
                asked += int(np.count_nonzero(marks[: max(one.asked - at, 0)]))
                kept += int(np.count_nonzero(marks))
                at = max(stop, at)
            ends.append((stream, kept))
        return ends, asked

    def keep(self, stream: int, start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which pages of a stream are kept: a hash of the stream and the page's number (splitmix64), its lowest bits 0."""
        seed = np.uint64((stream * 0x9E3779B97F4A7C15 ^ 0xD1B54A32D192ED03) & _MASK)
        x = (np.arange(start, max(stop, start), dtype=np.uint64) + np.uint64(1)) * _MIX[0] ^ seed
        x = (x ^ (x >> np.uint64(30))) * _MIX[1]
        x = (x ^ (x >> np.uint64(27))) * _MIX[2]
        kept: np.ndarray[tuple[int], np.dtype[np.bool_]] = (x ^ (x >> np.uint64(31))) & np.uint64(self.one_in - 1) == 0
        return kept
