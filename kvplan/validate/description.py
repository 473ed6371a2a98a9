"""What passes from the side that predicts to the side that measures: shapes and element types, and never a byte count."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

KeepKind = Literal["all", "window", "chunk", "source"]
Layout = Literal["contiguous", "growing", "paged"]


class CacheShape(NamedTuple):
    """One tensor of one kind of layer, as many layers and sequences of it as one device holds.

    line              label of the plan's line: the kind of layer
    tensor            which of its tensors
    element           an element type (bf16) or a storage format by its public name (q8_0)
    heads, width      a row of `width` elements for each head
    tokens            length of the sequence; of the encoder side where keep is `source`
    tokens_per_entry  1; N where N tokens share one entry; None: one entry per sequence
    keep              all; the last keep_tokens and the first `sinks` (window); the current chunk of keep_tokens; the whole source
    layout            one buffer per sequence of its final size; one that grows by concatenation; pages of `block_tokens`
    """

    line: str
    tensor: str
    element: str
    heads: int
    width: int
    tokens: int
    tokens_per_entry: int | None = 1
    keep: KeepKind = "all"
    keep_tokens: int = 0
    sinks: int = 0
    layout: Layout = "contiguous"
    block_tokens: int = 0
    layers: int = 1
    sequences: int = 1


class Held(NamedTuple):
    """What one CacheShape took, in bytes.

    allocated      storage of its tensors as the allocator reports it
    requested      the size of each single allocation, in order
    measured       what each figure of the device grew by when they were allocated and written; None where nothing can tell
    peak           the most storage alive at one moment: growing by concatenation holds old and new
    bookkeeping    block tables and reference counts, which no plan counts as cache
    """

    allocated: int
    requested: tuple[int, ...]
    measured: dict[str, int | None]
    peak: int
    bookkeeping: int


def shape_of(data: dict[str, Any]) -> CacheShape:
    """A CacheShape from plain data, as a receipt holds it."""
    return CacheShape(**data)
