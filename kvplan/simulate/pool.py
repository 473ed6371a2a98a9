"""Blocks with names: the free list in eviction order, reference counts, and which block holds which content.

The decisions are those of vLLM 0.32 `vllm/v1/core/block_pool.py`: block 0 is the null block; blocks without a key are reused first,
newest first; blocks with one last, oldest first; of several blocks with one key the first registered is found.
"""

from __future__ import annotations

from collections.abc import Iterable

Key = tuple[int, int, int]  # group, stream, block within the sequence


class BlockPool:
    """`size` blocks, of which one is the null block. Lists by block number, no object per block."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.refs = [0] * size
        self.keys: list[Key | None] = [None] * size
        self.found: dict[Key, int | dict[int, None]] = {}
        self.evicted = 0
        self.again = 0  # holders beyond the first, over all blocks
        # a ring through the sentinel `size`
        self._next = [*range(1, size + 1), 0]
        self._back = [size, *range(size)]
        self.free = size
        self.take(1)
        self.refs[0] = 1 << 60  # the null block is nobody's

    def _unlink(self, block: int) -> None:
        after, before = self._next[block], self._back[block]
        self._next[before], self._back[after] = after, before

    def _link(self, block: int, before: int, after: int) -> None:
        self._next[before] = self._back[after] = block
        self._back[block], self._next[block] = before, after

    def take(self, n: int) -> list[int]:
        """The first n free blocks; what they held is forgotten. There must be as many."""
        following, end, taken = self._next, self.size, []
        block = following[end]
        for _ in range(n):
            taken.append(block)
            self.refs[block] = 1
            if self.keys[block] is not None:
                self._forget(block)
            block = following[block]
        following[end], self._back[block] = block, end
        self.free -= n
        return taken

    def _forget(self, block: int) -> None:
        key = self.keys[block]
        assert key is not None
        self.keys[block] = None
        self.evicted += 1
        others = self.found[key]
        if isinstance(others, int):
            del self.found[key]
            return
        del others[block]
        if not others:
            del self.found[key]

    def register(self, block: int, key: Key) -> None:
        """From now on this block is found under its key."""
        if self.keys[block] == key:
            return
        self.keys[block] = key
        known = self.found.get(key)
        if known is None:
            self.found[key] = block
        elif isinstance(known, int):
            self.found[key] = {known: None, block: None}
        else:
            known[block] = None

    def lookup(self, key: Key) -> int:
        """The block that holds this content; 0 where none does."""
        known = self.found.get(key, 0)
        return known if isinstance(known, int) else next(iter(known))

    def touch(self, blocks: Iterable[int]) -> None:
        """One more holder for each; a free one leaves the free list."""
        for block in blocks:
            if block:
                if self.refs[block] == 0:
                    self._unlink(block)
                    self.free -= 1
                else:
                    self.again += 1
                self.refs[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """One holder less for each, in the order in which they should be reused."""
        last = self.size
        for block in blocks:
            if not block:
                continue
            self.refs[block] -= 1
            if self.refs[block]:
                self.again -= 1
                continue
            self.free += 1
            if self.keys[block] is None:
                self._link(block, last, self._next[last])
                last = block
            else:
                self._link(block, self._back[self.size], self.size)

    def order(self) -> list[int]:
        """The free list from its head."""
        found, block = [], self._next[self.size]
        while block != self.size:
            found.append(block)
            block = self._next[block]
        return found

    def check(self, tables: Iterable[list[int]]) -> None:
        """AssertionError unless each block is either in the free list once or held as often as it is counted."""
        held = [0] * self.size
        for table in tables:
            for block in table:
                held[block] += 1
        order = self.order()
        free = set(order)
        assert len(order) == len(free) == self.free, "the free list is broken"
        assert 0 not in order, "the null block is free"
        for block in range(1, self.size):
            assert self.refs[block] == held[block], f"block {block} is held {held[block]} times and counted {self.refs[block]}"
            assert (block in free) == (held[block] == 0), f"block {block} is free and held, or neither"
        assert self.again == sum(max(n - 1, 0) for n in held[1:])
        for key, blocks in self.found.items():
            for block in [blocks] if isinstance(blocks, int) else blocks:
                assert self.keys[block] == key
