"""Reference caches as torch tensors: what each way of keeping tokens really allocates. One object holds one tensor of one layer.

Rows are [heads, tokens, width]. `append` stores new tokens of a sequence, `read` gives back the positions and rows it still has.
"""

from __future__ import annotations

import torch

from kvplan.validate.blocks import Blocks, Table, blocks_needed
from kvplan.validate.description import CacheShape
from kvplan.validate.storage import Rows


class Buffer:
    """One buffer per sequence, of a fixed number of slots. What a token's slot is and which tokens remain makes the kinds below."""

    def __init__(self, shape: CacheShape, slots: int, device: str = "cpu") -> None:
        self.shape, self.slots = shape, slots
        self.rows = Rows(shape.element, (shape.sequences, shape.heads, slots), shape.width, device)
        self.tokens = [0] * shape.sequences
        self.peak = sum(self.sizes())

    bookkeeping = 0

    def slot(self, position: int) -> int:
        return position

    def kept(self, tokens: int) -> list[int]:
        """The positions a sequence of `tokens` tokens still has."""
        return list(range(tokens))

    def append(self, sequence: int, rows: torch.Tensor) -> None:
        """Stores new tokens; only the last of those that share a slot is written."""
        first = self.tokens[sequence]
        self.tokens[sequence] += rows.shape[1]
        last = {self.slot(p): p for p in self.kept(self.tokens[sequence]) if p >= first}
        if last:
            where = [p - first for p in last.values()]
            self.rows.put((sequence, slice(None), list(last)), rows[:, where])

    def read(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        positions = self.kept(self.tokens[sequence])
        rows = self.rows.get((sequence, slice(None), [self.slot(p) for p in positions]))
        return torch.tensor(positions, dtype=torch.long), rows

    def sizes(self) -> list[int]:
        return self.rows.sizes()

    def touch(self) -> bool:
        self.rows.touch()
        return self.rows.touched()


class Contiguous(Buffer):
    """Every token, preallocated: one entry per `tokens_per_entry` tokens. Also the encoder's tokens of cross-attention."""

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        super().__init__(shape, -(-shape.tokens // (shape.tokens_per_entry or 1)), device)


class Ring(Buffer):
    """The last `keep_tokens` tokens in a ring behind the first `sinks`; shorter sequences have shorter rings."""

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        per = shape.tokens_per_entry or 1
        super().__init__(shape, min(-(-shape.tokens // per), -(-(shape.keep_tokens + shape.sinks) // per)), device)

    def slot(self, position: int) -> int:
        sinks = self.shape.sinks
        return position if position < sinks else sinks + (position - sinks) % self.shape.keep_tokens

    def kept(self, tokens: int) -> list[int]:
        sinks = min(self.shape.sinks, tokens)
        return [*range(sinks), *range(max(sinks, tokens - self.shape.keep_tokens), tokens)]


class Chunk(Buffer):
    """The tokens of the current chunk; a new chunk starts the buffer over."""

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        super().__init__(shape, min(shape.tokens, shape.keep_tokens), device)

    def slot(self, position: int) -> int:
        return position % self.shape.keep_tokens

    def kept(self, tokens: int) -> list[int]:
        start = (tokens - 1) // self.shape.keep_tokens * self.shape.keep_tokens if tokens else 0
        return list(range(start, tokens))


class State(Buffer):
    """One entry per sequence whatever its length: a recurrent state, or the inputs a convolution still needs. Overwritten."""

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        super().__init__(shape, 1, device)

    def slot(self, position: int) -> int:
        return 0

    def kept(self, tokens: int) -> list[int]:
        return [tokens - 1] if tokens else []


class Growing:
    """All tokens, in a buffer that is concatenated with each new one: for a moment the old and the new are both there."""

    bookkeeping = 0

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        self.shape, self.device, self.peak = shape, device, 0
        self.rows = [Rows(shape.element, (shape.heads, 0), shape.width, device) for _ in range(shape.sequences)]

    def append(self, sequence: int, rows: torch.Tensor) -> None:
        new = Rows(self.shape.element, (self.shape.heads, rows.shape[1]), self.shape.width, self.device)
        new.put((slice(None),), rows)
        self._grow(sequence, new)

    def _grow(self, sequence: int, new: Rows) -> None:
        old = self.rows[sequence]
        grown = Rows(self.shape.element, (self.shape.heads, 0), self.shape.width, self.device)
        grown.tensors = {name: torch.cat((tensor, new.tensors[name]), dim=1) for name, tensor in old.tensors.items()}
        self.peak = max(self.peak, sum(self.sizes()) + sum(new.sizes()) + sum(grown.sizes()))
        self.rows[sequence] = grown

    def read(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self.rows[sequence].get((slice(None),))
        return torch.arange(rows.shape[1]), rows

    def sizes(self) -> list[int]:
        return [size for rows in self.rows for size in rows.sizes()]

    def touch(self) -> bool:
        """Grows every sequence to its length: all but one entry at once (prefill), then one more (decode)."""
        entries = -(-self.shape.tokens // (self.shape.tokens_per_entry or 1))
        for sequence in range(self.shape.sequences):
            for n in (entries - 1, 1):
                new = Rows(self.shape.element, (self.shape.heads, n), self.shape.width, self.device)
                new.touch()
                self._grow(sequence, new)
        return all(rows.touched() for rows in self.rows)


class Paged:
    """A pool of blocks, each [heads, entries of a block, width], and a table per sequence. Blocks need not be neighbours.

    n_blocks  size of the pool; by default what `sequences` sequences hold at most while they grow to `tokens`
    """

    def __init__(self, shape: CacheShape, device: str = "cpu", n_blocks: int | None = None) -> None:
        self.shape, self.device = shape, device
        self.window = shape.keep_tokens if shape.keep == "window" else 0
        if n_blocks is None:
            tokens = min(shape.tokens, shape.keep_tokens) if shape.keep == "chunk" else shape.tokens
            n_blocks = shape.sequences * blocks_needed(tokens, shape.block_tokens, self.window, shape.sinks)
        self.per_block = -(-shape.block_tokens // (shape.tokens_per_entry or 1))
        self.pool = Blocks(n_blocks)
        self.rows = Rows(shape.element, (n_blocks, shape.heads, self.per_block), shape.width, device)
        self.tables = [Table(self.pool, shape.block_tokens, self.window, shape.sinks) for _ in range(shape.sequences)]
        self.starts = [0] * shape.sequences  # the position of each table's first token: where its chunk starts
        self.peak = sum(self.sizes())

    def append(self, sequence: int, rows: torch.Tensor) -> None:
        table, block_tokens = self.tables[sequence], self.shape.block_tokens
        for i in range(rows.shape[1]):
            if self.shape.keep == "chunk" and table.tokens == self.shape.keep_tokens:
                self.starts[sequence] += table.tokens
                table.free()
            position = table.append()
            block = table.blocks[position // block_tokens]
            self.rows.put((block, slice(None), position % block_tokens), rows[:, i])

    def read(self, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The gather: whole blocks in table order, then the positions that are still there."""
        table, size = self.tables[sequence], self.shape.block_tokens
        held = [(i, block) for i, block in enumerate(table.blocks) if block is not None]
        rows = self.rows.get(([block for _, block in held],)).transpose(0, 1).flatten(1, 2)
        positions = torch.cat([torch.arange(i * size, (i + 1) * size) for i, _ in held])
        there = positions < table.tokens
        return positions[there] + self.starts[sequence], rows[:, there]

    def fork(self, sequence: int) -> int:
        """A new sequence that shares the prefix of another; its number."""
        table, copies = self.tables[sequence].fork()
        for tensor in self.rows.tensors.values():
            for source, copy in copies:
                tensor[copy] = tensor[source]
        self.tables.append(table)
        self.starts.append(self.starts[sequence])
        return len(self.tables) - 1

    def sizes(self) -> list[int]:
        return self.rows.sizes()

    @property
    def bookkeeping(self) -> int:
        """Tables and reference counts as an engine keeps them on the device: 4 bytes each."""
        return 4 * (sum(len(table.blocks) for table in self.tables) + self.pool.used)

    def touch(self) -> bool:
        self.rows.touch()
        return self.rows.touched()


AnyCache = Buffer | Growing | Paged
_BUFFERS: dict[str, type[Contiguous | Ring | Chunk]] = {"all": Contiguous, "source": Contiguous, "window": Ring, "chunk": Chunk}


def build(shape: CacheShape, device: str = "cpu") -> AnyCache:
    """The cache of one layer that a shape describes, allocated and not yet written."""
    if shape.tokens_per_entry is None:
        return State(shape, device)
    if shape.layout == "paged":
        return Paged(shape, device)
    if shape.layout == "growing" and shape.keep in ("all", "source"):
        return Growing(shape, device)
    return _BUFFERS[shape.keep](shape, device)
