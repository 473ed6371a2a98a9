"""Prompt pages found in a prefix cache of every size, in one pass: stack distances of least recently used pages (Mattson and others 1970).

For one pool of full attention, requests one after another, blocks named and freed as vLLM does (see pool.py: a request's last block is
reused first, blocks without content before all others). Then what a pool of C blocks holds between two requests is the top of one stack,
whatever C is: the pages of the last request from its first on, below them what the requests before it left there. It is C blocks high,
or C - 1 where the last request ended inside a block, which is free and empty. A page's prefix always lies above it, so that the pages
found are a prefix without further rules, and what one request left is a row of consecutive pages: one weight in a Fenwick tree.
Not of this kind: a prompt that ends with a block and is asked for again. Its last block is computed a second time beside the first, of
which a larger pool uses the older one: `Stack.again` counts these, and as many blocks at most is the height off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from kvplan.errors import SpecError
from kvplan.simulate.workload import Request
from kvplan.units import cdiv


class Chain(NamedTuple):
    """A request in pages.

    runs    (stream, first page after it) for the pages that others may ask for: the rest is its own
    asked   pages of its prompt that could be found; the last token is always computed
    full    pages with content when it ends; `held`: with the one that is not full
    prompt  tokens
    """

    runs: tuple[tuple[int, int], ...]
    asked: int
    full: int
    held: int
    prompt: int


def chain(request: Request, block: int) -> Chain:
    """The pages of a request that ran to its end: its last token is never stored."""
    stored = request.prompt + request.output - 1
    full, at, runs = stored // block, 0, []
    last = len(request.content) - 1
    for n, (stream, until) in enumerate(request.content):
        stop = full if n == last and request.continues else min(until // block, full)
        if stop > at:
            runs.append((stream, stop))
            at = stop
    return Chain(tuple(runs), (request.prompt - 1) // block, full, cdiv(stored, block), request.prompt)


class Touches:
    """Who touched each page last. Requests touch prefixes, so that along a stream the toucher is ever older: a list of ends by stream."""

    def __init__(self) -> None:
        self._streams: dict[int, tuple[int, int, list[tuple[int, int]]]] = {}

    def touch(self, runs: tuple[tuple[int, int], ...], now: int) -> list[tuple[int, int, int]]:
        """(last toucher, first page, end) of the pages that were there before, in order; `now` is their toucher from here on."""
        found: list[tuple[int, int, int]] = []
        at, before = 0, -1
        for stream, stop in runs:
            known = self._streams.get(stream)
            if known is None:
                self._streams[stream] = at, before, [(stop, now)]
            else:
                start, parent, ends = known
                if (start, parent) != (at, before):
                    raise SpecError(
                        "workload", [("", f"shared content {stream} follows different beginnings; its id must name all before it")]
                    )
                here = at
                while ends and ends[-1][0] <= stop:
                    end, who = ends.pop()
                    _add(found, who, here, end)
                    here = end
                if ends and here < stop:
                    _add(found, ends[-1][1], here, stop)
                ends.append((stop, now))
            at, before = stop, stream
        return found


def _add(found: list[tuple[int, int, int]], who: int, start: int, end: int) -> None:
    if found and found[-1][0] == who:
        found[-1] = who, found[-1][1], end
    else:
        found.append((who, start, end))


class Weights:
    """A Fenwick tree that grows: pages that each request left in the stack."""

    def __init__(self) -> None:
        self._tree = [0]
        self.total = 0

    def append(self, pages: int) -> None:
        n = len(self._tree)
        self.total += pages
        low, at = n - (n & -n), n - 1
        while at > low:
            pages += self._tree[at]
            at -= at & -at
        self._tree.append(pages)

    def take(self, who: int, pages: int) -> None:
        tree, at = self._tree, who + 1
        self.total -= pages
        while at < len(tree):
            tree[at] -= pages
            at += at & -at

    def down_to(self, who: int) -> int:
        """Pages of `who` and of all after it."""
        tree, at, below = self._tree, who, 0
        while at:
            below += tree[at]
            at -= at & -at
        return self.total - below


class Stack(NamedTuple):
    """Pages found by size of the pool: exact for every size from `largest` on, which the largest request needs.

    sizes, hits   where the count changes, and pages found from there on
    asked_tokens  of all prompts; `references`: blocks that the requests held
    working_set   blocks beyond which nothing more is found
    again         last blocks computed beside an equal one, see above
    """

    sizes: np.ndarray[tuple[int], np.dtype[np.int64]]
    hits: np.ndarray[tuple[int], np.dtype[np.int64]]
    requests: int
    asked_tokens: int
    references: int
    largest: int
    again: int

    def found(self, size: int) -> int:
        """Pages found by a pool of so many blocks."""
        n = int(np.searchsorted(self.sizes, size, side="right"))
        return int(self.hits[n - 1]) if n else 0

    @property
    def working_set(self) -> int:
        return max(int(self.sizes[-1]) if len(self.sizes) else 0, self.largest)


def stack(chains: Iterable[Chain]) -> Stack:
    """Pages found at every size. Work: requests and the branches they pass, each times a logarithm; memory: distinct blocks at most."""
    touches, weights = Touches(), Weights()
    fulls: list[int] = []
    change: defaultdict[int, int] = defaultdict(int)
    requests = asked_tokens = references = largest = again = empty = 0
    for one in chains:
        taken = 0
        for who, start, end in touches.touch(one.runs, requests):
            again += max(end - max(start, one.asked), 0)
            end = min(end, one.asked)
            if start >= end:
                continue
            # up from the last page that `who` left: what it left behind this one is all still there
            depth = weights.down_to(who) + taken - (fulls[who] - start) + 1
            change[depth + empty] += 1
            change[depth + empty + end - start] -= 1
            weights.take(who, end - start)
            taken += end - start
        weights.append(one.full)
        fulls.append(one.full)
        requests += 1
        asked_tokens += one.prompt
        references += one.held
        largest = max(largest, one.held)
        empty = one.held - one.full
    return Stack(*_summed(change), requests, asked_tokens, references, largest, again)


def _summed(change: dict[int, int]) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """From changes of the number of pages that need exactly so many blocks: sizes, and pages found with each."""
    marks = sorted(change)
    rates = list(accumulate(change[mark] for mark in marks))
    spans = [(a, b, rate) for a, b, rate in zip(marks, marks[1:], rates, strict=False) if rate]
    sizes = np.concatenate([np.arange(a, b) for a, b, _ in spans] or [np.zeros(0, np.int64)])
    each = np.concatenate([np.full(b - a, rate) for a, b, rate in spans] or [np.zeros(0, np.int64)])
    return sizes.astype(np.int64), np.cumsum(each, dtype=np.int64)


def accepted(requests: Iterable[Request], longest: int) -> Iterator[Request]:
    """Those that the model's longest request leaves in."""
    return (request for request in requests if request.prompt + request.output <= longest)
