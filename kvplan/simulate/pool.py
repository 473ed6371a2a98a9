"""Blocks with names: the free list in eviction order, who else holds a block, and which block holds which content.

The decisions are those of vLLM 0.32 `vllm/v1/core/block_pool.py`: block 0 is the null block; blocks without content are reused first,
newest first; blocks with some last, oldest first; of several blocks with one key the first registered is found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import chain

Key = int  # group, stream and block within the sequence, in one number: see PrefixBlocks


class BlockPool:
    """`size` blocks, of which one is the null block. Lists by block number, as far as blocks were ever taken; no object per block.

    Content that nobody can ask for has no key; its block waits for its turn among those with content all the same.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size - 1
        self.refs = [1]  # the null block is nobody's
        self.again = 0  # holders beyond the first, over all blocks
        self.evicted = 0
        self.keys: list[Key | None] = [None]
        self.found: dict[Key, int | dict[int, None]] = {}
        # The free list: blocks without content from the end, those never taken, then those with content from the start. A block that is
        # found leaves the latter's middle; its entry stays, is counted here and skipped when its turn comes, which is much cheaper than
        # linking them all.
        self._blank: list[int] = []
        self._kept: deque[int] = deque()
        self._left: dict[int, int] = {}

    def take(self, n: int, table: list[int]) -> None:
        """Append the first n free blocks to a table; what they held is forgotten. There must be as many."""
        table += self.next(n)

    def next(self, n: int) -> list[int]:
        """The first n free blocks, with one holder each; what they held is forgotten. There must be as many."""
        self.free -= n
        blank, refs = self._blank, self.refs
        blocks = blank[: -n - 1 : -1]
        del blank[len(blank) - len(blocks) :]
        if len(blocks) < n:
            fresh = range(len(refs), min(len(refs) + n - len(blocks), self.size))
            blocks += fresh
            refs += [0] * len(fresh)
            self.keys += [None] * len(fresh)
        if len(blocks) < n:
            self._oldest(n - len(blocks), blocks)
        for block in blocks:
            refs[block] = 1
        return blocks

    def _oldest(self, n: int, blocks: list[int]) -> None:
        """Append the n blocks whose content goes next."""
        oldest, left, keys, found = self._kept.popleft, self._left, self.keys, self.found
        self.evicted += n
        while n:
            block = oldest()
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
        found, blocks = self.found, []
        for key in chain.from_iterable(runs):
            known = found.get(key)
            if known is None:
                break
            blocks.append(known if isinstance(known, int) else next(iter(known)))
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
            if refs[block]:
                self.again += 1
            else:
                self.free -= 1
                self._left[block] = self._left.get(block, 0) + 1
            refs[block] += 1

    def release(self, table: list[int], full: int) -> None:
        """One holder less for each block of a table, of which the first `full` have content. The end of a table is reused first."""
        refs, kept, before = self.refs, self._kept, len(self._kept)
        for block in table[full:]:  # held by one: only full blocks are found
            refs[block] = 0
        self._blank += table[full:]
        held = 0
        for block in reversed(table[:full]):
            if not block:
                continue
            refs[block] -= 1
            if refs[block]:
                held += 1
            else:
                kept.append(block)
        self.again -= held
        self.free += len(table) - full + len(kept) - before
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
        """The free list from its head."""
        return [*reversed(self._blank), *range(len(self.refs), self.size), *self._waiting()]

    def check(self, tables: Iterable[list[int]]) -> None:
        """AssertionError unless each block is either in the free list once or held as often as it is counted."""
        held = [0] * len(self.refs)
        for table in tables:
            for block in table:
                held[block] += 1
        order = self.order()
        free = set(order)
        assert len(order) == len(free) == self.free, "the free list is broken"
        assert 0 not in order, "the null block is free"
        for block in range(1, len(self.refs)):
            assert self.refs[block] == held[block], f"block {block} is held {held[block]} times and counted {self.refs[block]}"
            assert (block in free) == (held[block] == 0), f"block {block} is free and held, or neither"
        assert self.again == sum(max(n - 1, 0) for n in held[1:])
        named = set()
        for key, blocks in self.found.items():
            for block in [blocks] if isinstance(blocks, int) else blocks:
                assert self.keys[block] == key
                named.add(block)
        assert named == {block for block, key in enumerate(self.keys) if key is not None}, "a block has a key and is not found"
        assert named.isdisjoint(self._blank), "a block with content is reused as one without"
