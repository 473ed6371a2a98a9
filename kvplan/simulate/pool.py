"""Blocks with names: the free list in eviction order, who else holds a block, and which block holds which content.

The decisions are those of vLLM 0.32 `vllm/v1/core/block_pool.py`: block 0 is the null block; blocks without content are reused first,
newest first; blocks with some last, oldest first; of several blocks with one key the first registered is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Any

Key = int  # group, stream and block within the sequence, in one number: see PrefixBlocks
#: Keys looked up at a time.
WALK = 64


class BlockPool:
    """`size` blocks, of which one is the null block. Lists by block number, as far as they were ever taken; no object per block.

    Pages that nobody but their sequence can ask for are only counted: `own`. With content they wait for their turn among the others all
    the same, a row of them at once. A block's number is of a page that can be found; there are as many numbers as pages.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size - 1
        self.refs = [1]  # the null block is nobody's; as long as numbers were ever taken
        self.again = 0  # holders beyond the first, over all blocks
        self.evicted = 0
        self.keys: list[Key | None] = [None]
        self.found: dict[Key, int | dict[int, None]] = {}
        # The free list: blocks without content from the end, then those with content from the start. A block that is found leaves the
        # latter's middle; its entry stays, is counted here and skipped when its turn comes, which is much cheaper than linking them all.
        self.blank = size - 1
        self._spare: list[int] = []  # numbers that no page bears any more; where all pages do, those of the blank ones
        self._kept: deque[int] = deque()  # below zero: so many pages that only their sequence knew
        self._left: dict[int, int] = {}

    def take(self, n: int, table: list[int]) -> None:
        """Append the first n free blocks to a table; what they held is forgotten. There must be as many."""
        table += self.next(n)

    def next(self, n: int) -> list[int]:
        """The first n free blocks, with one holder each; what they held is forgotten. There must be as many."""
        self.free -= n
        some = min(n, self.blank)
        self.blank -= some
        blocks = self._numbers(some)
        if some < n:
            nameless = self._oldest(n - some, blocks)
            blocks += self._numbers(nameless)
        refs = self.refs
        for block in blocks:
            refs[block] = 1
        return blocks

    def _numbers(self, n: int) -> list[int]:
        spare = self._spare
        numbers = spare[: -n - 1 : -1]
        del spare[len(spare) - len(numbers) :]
        if len(numbers) < n:
            new = range(len(self.refs), len(self.refs) + n - len(numbers))
            numbers += new
            self.refs += [0] * len(new)
            self.keys += [None] * len(new)
        return numbers

    def own(self, n: int) -> None:
        """Takes the first n free pages for somebody who tells nobody of them. There must be as many."""
        self.free -= n
        self.blank -= n
        if self.blank < 0:
            n, self.blank = -self.blank, 0
            self._oldest(n, self._spare)

    def _oldest(self, n: int, blocks: list[int]) -> int:
        """Append the blocks among the n pages whose content goes next; how many of these have no number."""
        kept, left, keys, found = self._kept, self._left, self.keys, self.found
        oldest, nameless = kept.popleft, 0
        self.evicted += n
        while n:
            block = oldest()
            if block < 0:
                some = min(n, -block)
                n -= some
                nameless += some
                if block + some:
                    kept.appendleft(block + some)
                continue
            if block in left:
                left[block] -= 1
                if not left[block]:
                    del left[block]
                continue
            n -= 1
            blocks.append(block)
            key = keys[block]
            if key is None:
                continue
            keys[block] = None
            others = found[key]
            if isinstance(others, int) or len(others) == 1:
                del found[key]
            else:
                del others[block]
        return nameless

    def register(self, blocks: Iterable[int], runs: Iterable[range]) -> None:
        """From now on these blocks are found under their keys; 0: no block."""
        for block, key in zip(blocks, chain.from_iterable(runs), strict=True):
            if block:
                self.name(block, key)

    def name(self, block: int, key: Key) -> None:
        """From now on this block is found under its key."""
        self.keys[block] = key
        known = self.found.setdefault(key, block)
        if known == block:
            return
        if isinstance(known, dict):
            known[block] = None
        else:
            self.found[key] = {known: None, block: None}

    def lookup(self, key: Key) -> int:
        """The block that holds this content; 0 where none does."""
        known = self.found.get(key, 0)
        return known if isinstance(known, int) else next(iter(known))

    def walk(self, runs: Iterable[range]) -> list[int]:
        """The blocks of a chain of keys, up to the first that is not there."""
        blocks: list[int] = []
        for run in runs:
            for at in range(0, len(run), WALK):
                keys = run[at : at + WALK]
                if keys[0] not in self.found:
                    return blocks
                known: list[Any] = list(map(self.found.get, keys))
                if None in known:
                    known = known[: known.index(None)]
                blocks += known if dict not in map(type, known) else [one if isinstance(one, int) else next(iter(one)) for one in known]
                if len(known) < len(keys):
                    return blocks
        return blocks

    def idle(self, blocks: Iterable[int]) -> int:
        """How many of these are free."""
        return [self.refs[block] for block in blocks].count(0)

    def touch(self, blocks: Iterable[int]) -> None:
        """One more holder for each found block; a free one leaves the free list."""
        refs = self.refs
        for block in blocks:
            if not block:
                continue
            holders = refs[block]
            if holders:
                self.again += 1
            else:
                self.free -= 1
                self._left[block] = self._left.get(block, 0) + 1
            refs[block] = holders + 1

    def numbered(self, n: int) -> list[int]:
        """Numbers for n pages of a sequence that told nobody of them."""
        blocks = self._numbers(n)
        for block in blocks:
            self.refs[block] = 1
        return blocks

    def disown(self, full: int, blank: int) -> None:
        """Pages that only their sequence knew are free, so many with content and so many without."""
        self.free += full + blank
        self.blank += blank
        if full:
            self._kept.append(-full)

    def release(self, table: list[int], full: int) -> None:
        """One holder less for each block of a table, of which the first `full` have content. The end of a table is reused first."""
        refs, kept = self.refs, self._kept
        before = len(kept)
        if full < len(table):
            for block in table[full:]:  # held by one: only full blocks are found
                refs[block] = 0
            self._spare += table[full:]
            self.blank += len(table) - full
            self.free += len(table) - full
            table = table[:full]
        for block in reversed(table):
            if block:
                holders = refs[block] = refs[block] - 1
                if not holders:
                    kept.append(block)
        given = len(kept) - before
        self.again -= len(table) - table.count(0) - given
        self.free += given
        if len(kept) > 2 * self.size:
            self._kept, self._left = deque(self._waiting()), {}

    def _waiting(self) -> list[int]:
        """Free blocks with content, the next to be reused first."""
        left, found = dict(self._left), []
        for block in self._kept:
            if left.get(block):
                left[block] -= 1
            else:
                found.append(block)
        return found

    def order(self) -> list[int]:
        """The free list from its head, where all pages have numbers."""
        return [*reversed(self._spare), *range(len(self.refs), self.size), *self._waiting()]

    def check(self, tables: Iterable[list[int]], own: int = 0) -> None:
        """AssertionError unless each block is either in the free list once or held as often as it is counted, and `own` pages are taken."""
        held = [0] * self.size
        for table in tables:
            for block in table:
                held[block] += 1
        waiting = self._waiting()
        nameless = -sum(n for n in waiting if n < 0)
        order = [*self._spare, *range(len(self.refs), self.size), *(block for block in waiting if block > 0)]
        free = set(order)
        assert self.blank + nameless + sum(block > 0 for block in waiting) == self.free, "the free list is broken"
        assert len(order) == len(free) == self.free + own, "each number is a page's or spare"
        assert 0 not in order, "the null block is free"
        for block in range(1, self.size):
            counted = self.refs[block] if block < len(self.refs) else 0
            assert counted == held[block], f"block {block} is held {held[block]} times and counted {counted}"
            assert (block in free) == (held[block] == 0), f"block {block} is free and held, or neither"
        assert self.again == sum(max(n - 1, 0) for n in held[1:])
        named = set()
        for key, blocks in self.found.items():
            for block in [blocks] if isinstance(blocks, int) else blocks:
                assert self.keys[block] == key
                named.add(block)
        assert named == {block for block, key in enumerate(self.keys) if key is not None}, "a block has a key and is not found"
        assert named.isdisjoint(self._spare), "a block with content is reused as one without"
