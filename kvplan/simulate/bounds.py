"""Beside least recently used: the most that any eviction could find (Belady's optimum), and first in, first out, at given sizes.

Both as `stack`: requests one after another, each holding all its pages while it runs, hits that are prefixes. The optimum evicts the page
whose next use is farthest; a page is never used without those before it, so the pages kept for one coming request are a prefix of it,
and their number is all there is to know. First in, first out evicts in the order in which pages were computed (a request's last first),
whatever was found since; a page whose beginning is gone takes room and is not found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from kvplan.simulate.stack import Chain, Touches

#: By request: (next request that can find them, how many pages) of the pages it leaves.
Uses = list[list[tuple[int, int]]]


def next_uses(chains: Sequence[Chain]) -> Uses:
    """Which request finds each page next: who touched it last, with time turned round."""
    touches, uses = Touches(), []
    for now in range(len(chains) - 1, -1, -1):
        found = touches.touch(chains[now].runs, now)
        spans = [(who, min(end, chains[who].asked) - start) for who, start, end in found]
        uses.append([(who, pages) for who, pages in spans if pages > 0])
    return uses[::-1]


def optimum(chains: Sequence[Chain], uses: Uses, size: int) -> int:
    """Pages found by a pool of `size` blocks that knows what comes."""
    kept = [0] * len(chains)  # by the request that uses them next
    farthest: list[int] = []
    content = useful = hits = 0  # pages with content, and those of them that are used again: the others are the first to go
    for now, one in enumerate(chains):
        hits += kept[now]
        content -= kept[now]
        useful -= kept[now]
        kept[now] = 0
        over = content + one.held - size
        if over > 0:
            content -= over
            while useful > content:
                who = -farthest[0]
                gone = min(kept[who], useful - content)
                kept[who] -= gone
                useful -= gone
                if not kept[who]:
                    heappop(farthest)
        content += one.full
        for who, pages in uses[now]:
            if not kept[who]:
                heappush(farthest, -who)
            kept[who] += pages
            useful += pages
    return hits


def first_in(chains: Iterable[Chain], size: int) -> int:
    """Pages found by a pool of `size` blocks that evicts what was computed first, but nothing that the running request holds."""
    line: OrderedDict[int, int] = OrderedDict()  # pages by name, in the order of their turn; a request's own ones are one entry
    content = hits = 0
    for now, one in enumerate(chains):
        names = list(_names(one))
        hit = next((n for n, name in enumerate(names[: one.asked]) if name not in line), min(len(names), one.asked))
        hits += hit
        for name in names[hit:]:
            content -= line.pop(name, 0)  # computed again: the new copy counts
        over, held = content - hit + one.held - size, set(names[:hit])
        spared = []
        while over > 0:
            name, pages = line.popitem(last=False)
            if name in held:
                spared.append(name)
                continue
            gone = min(over, pages)
            over, content = over - gone, content - gone
            if gone < pages:
                line[name] = pages - gone
                line.move_to_end(name, last=False)
        for name in reversed(spared):
            line[name] = 1
            line.move_to_end(name, last=False)
        if one.full > len(names):
            line[-now - 1] = one.full - len(names)
        line.update((name, 1) for name in reversed(names[hit:]))
        content += one.full - hit
    return hits


def _names(one: Chain) -> Iterator[int]:
    """A page is its stream and number."""
    at = 0
    for stream, stop in one.runs:
        first = stream << 32
        yield from range(first + at, first + stop)
        at = stop
