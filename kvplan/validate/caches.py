"""Caches as torch tensors: what each way of keeping tokens really allocates. One object holds one tensor of one layer."""

from __future__ import annotations

import torch

from kvplan.validate.description import CacheShape
from kvplan.validate.storage import Rows


class Preallocated:
    """Its final size at once: [sequences, heads, entries] rows, or of a pool of pages [pages, heads, entries of a page]."""

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        first, entries = (shape.sequences, entries_of(shape)) if shape.layout != "paged" else pages_of(shape)
        self.rows = Rows(shape.element, (first, shape.heads, entries), shape.width, device)
        self.peak = sum(self.sizes())

    def sizes(self) -> list[int]:
        return self.rows.sizes()

    def touch(self) -> bool:
        """Writes all of it; whether that is there."""
        self.rows.touch()
        return self.rows.touched()


class Growing:
    """All tokens, in a buffer that is concatenated with each new one: for a moment the old and the new are both there."""

    def __init__(self, shape: CacheShape, device: str = "cpu") -> None:
        self.shape, self.device, self.peak = shape, device, 0
        self.rows = [self._empty(0) for _ in range(shape.sequences)]

    def _empty(self, entries: int) -> Rows:
        return Rows(self.shape.element, (self.shape.heads, entries), self.shape.width, self.device)

    def _grow(self, sequence: int, entries: int) -> None:
        old, new, grown = self.rows[sequence], self._empty(entries), self._empty(0)
        new.touch()
        grown.tensors = {name: torch.cat((tensor, new.tensors[name]), dim=1) for name, tensor in old.tensors.items()}
        self.peak = max(self.peak, sum(self.sizes()) + sum(new.sizes()) + sum(grown.sizes()))
        self.rows[sequence] = grown

    def sizes(self) -> list[int]:
        return [size for rows in self.rows for size in rows.sizes()]

    def touch(self) -> bool:
        """Grows every sequence to its length: all but one entry at once (prefill), then one more (decode)."""
        for sequence in range(self.shape.sequences):
            for n in (entries_of(self.shape) - 1, 1):
                self._grow(sequence, n)
        return all(rows.touched() for rows in self.rows)


def entries_of(shape: CacheShape) -> int:
    """Rows of one sequence in a buffer of its own: a state is one; a window has a ring behind the sinks, shorter sequences shorter ones."""
    per = shape.tokens_per_entry
    if per is None:
        return 1
    if shape.keep == "chunk":
        return min(shape.tokens, shape.keep_tokens)
    every = -(-shape.tokens // per)
    return min(every, -(-(shape.keep_tokens + shape.sinks) // per)) if shape.keep == "window" else every


def pages_of(shape: CacheShape) -> tuple[int, int]:
    """Pages of a pool for all sequences, each as many as it holds at most while it grows; and the entries of a page."""
    tokens = min(shape.tokens, shape.keep_tokens) if shape.keep == "chunk" else shape.tokens
    window = shape.keep_tokens if shape.keep == "window" else 0
    pages = shape.sequences * pages_needed(tokens, shape.block_tokens, window, shape.sinks)
    return pages, -(-shape.block_tokens // (shape.tokens_per_entry or 1))


def pages_needed(tokens: int, page_tokens: int, window: int = 0, sinks: int = 0) -> int:
    """The most pages that one sequence holds while it grows to `tokens`, found by growing one.

    window  0: every token stays; else the last `window` tokens and the first `sinks`: what falls out of it goes back before the next step
    """
    if not window:
        return -(-tokens // page_tokens)
    held: set[int] = set()
    most, settled = 0, window + sinks + 3 * page_tokens  # after this many tokens the count only repeats
    for position in range(min(tokens, settled)):
        held = {page for page in held if page * page_tokens < sinks or (page + 1) * page_tokens > position + 1 - window}
        held.add(position // page_tokens)
        most = max(most, len(held))
    return most


AnyCache = Preallocated | Growing


def build(shape: CacheShape, device: str = "cpu") -> AnyCache:
    """The cache of one layer that a shape describes, allocated and not yet written."""
    if shape.layout == "growing" and shape.keep in ("all", "source") and shape.tokens_per_entry is not None:
        return Growing(shape, device)
    return Preallocated(shape if shape.tokens_per_entry is not None else shape._replace(layout="contiguous"), device)
