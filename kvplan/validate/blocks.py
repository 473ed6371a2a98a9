"""Pages: a pool of numbered blocks, a table of them per sequence, shared prefixes by reference count. No tensors here."""

from __future__ import annotations

from itertools import count


class OutOfBlocks(Exception):
    """The pool has no free block left."""


class Blocks:
    """A pool of `n` blocks (None: as many as are asked for, to find out how many that is). `peak`: the most in use at once."""

    def __init__(self, n: int | None = None) -> None:
        self._free: list[int] = [] if n is None else list(range(n - 1, -1, -1))
        self._fresh = count() if n is None else iter(())
        self.references: dict[int, int] = {}
        self.peak = 0

    @property
    def used(self) -> int:
        return len(self.references)

    def take(self) -> int:
        """A free block, now referenced once. Raises OutOfBlocks."""
        block = self._free.pop() if self._free else next(self._fresh, None)
        if block is None:
            raise OutOfBlocks(f"all {self.used} blocks are in use")
        self.references[block] = 1
        self.peak = max(self.peak, self.used)
        return block

    def share(self, block: int) -> int:
        """One more reference to a block in use."""
        self.references[block] += 1
        return block

    def release(self, block: int) -> None:
        """One reference less; the last one frees the block."""
        self.references[block] -= 1
        if not self.references[block]:
            del self.references[block]
            self._free.append(block)


class Table:
    """The blocks of one sequence, in order; None where the sequence has gone past (a window) and given the block back.

    window  0: every token stays; else the last `window` tokens and the first `sinks`
    """

    def __init__(self, pool: Blocks, block_tokens: int, window: int = 0, sinks: int = 0) -> None:
        self.pool, self.block_tokens, self.window, self.sinks = pool, block_tokens, window, sinks
        self.blocks: list[int | None] = []
        self.tokens = 0
        self._passed = -(-sinks // block_tokens)  # blocks before this one are sinks or already given back

    def append(self) -> int:
        """Room for one more token; its position. What falls out of the window goes back first, as an engine's step does."""
        position = self.tokens
        while self.window and position + 1 - self.window >= (self._passed + 1) * self.block_tokens:
            block = self.blocks[self._passed]
            if block is not None:
                self.pool.release(block)
            self.blocks[self._passed] = None
            self._passed += 1
        if position // self.block_tokens == len(self.blocks):
            self.blocks.append(self.pool.take())
        self.tokens += 1
        return position

    def fork(self) -> tuple[Table, list[tuple[int, int]]]:
        """Another sequence with the same tokens so far: whole blocks shared, a started one copied (source, copy)."""
        other = Table(self.pool, self.block_tokens, self.window, self.sinks)
        other.tokens, other._passed = self.tokens, self._passed
        copies: list[tuple[int, int]] = []
        whole = self.tokens // self.block_tokens
        for i, block in enumerate(self.blocks):
            if block is None:
                other.blocks.append(None)
            elif i < whole:
                other.blocks.append(self.pool.share(block))
            else:
                other.blocks.append(self.pool.take())
                copies.append((block, other.blocks[-1] or 0))
        return other, copies

    def free(self) -> None:
        """Gives every block back."""
        for block in self.blocks:
            if block is not None:
                self.pool.release(block)
        self.blocks, self.tokens, self._passed = [], 0, -(-self.sinks // self.block_tokens)


def blocks_needed(tokens: int, block_tokens: int, window: int = 0, sinks: int = 0) -> int:
    """The most blocks that one sequence holds while it grows to `tokens`, found by growing one."""
    pool = Blocks()
    table = Table(pool, block_tokens, window, sinks)
    if not window:
        for _ in range(-(-tokens // block_tokens)):
            pool.take()
        return pool.peak
    settled = window + sinks + 2 * block_tokens  # after this many tokens the count only repeats
    for _ in range(min(tokens, settled + block_tokens)):
        table.append()
    return pool.peak
