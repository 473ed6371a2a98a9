"""What a cache manager manages: page groups and pages, read from an engine's plan, so that planner and simulator have one source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import lcm
from typing import Any, Literal, NamedTuple, Protocol

from kvplan import engines
from kvplan.engines.common.protocol import Capacity, ChosenBy, Group
from kvplan.errors import UnsupportedError
from kvplan.units import cdiv

GroupKind = Literal["full", "window", "chunk", "state"]
Sort = Literal["blocks", "radix", "cells"]

#: Kinds of page groups, as engines name them, and what they mean for pages.
KINDS: dict[str, GroupKind] = {
    "full_attention": "full", "mla_attention": "full", "mla_indexer": "full", "attention": "full", "latent": "full",
    "sliding_window": "window", "sliding_window_mla": "window", "window": "window", "chunked_local_attention": "chunk",
    "mamba": "state", "recurrent": "state",
}  # fmt: skip


class PageGroup(NamedTuple):
    """`copies` groups of layers with a page table each: `span` is the window or chunk in tokens."""

    kind: GroupKind
    block_tokens: int
    span: int = 0
    copies: int = 1

    def skipped(self, computed: int) -> int:
        """First tokens that no later token attends to, once `computed` tokens are."""
        if self.kind == "window":
            return max(computed - self.span + 1, 0)
        return computed // self.span * self.span if self.kind == "chunk" else 0

    def pages(self, computed: int, tokens: int) -> int:
        """Pages that one sequence holds in one of the copies while it goes from `computed` to `tokens` tokens."""
        if self.kind == "state":
            return min(cdiv(tokens, self.block_tokens), 2)
        return cdiv(tokens, self.block_tokens) - self.skipped(computed) // self.block_tokens

    def leaves(self, computed: int) -> int:
        """Of windows and chunks: the first length from `computed` on at which a page leaves."""
        if self.kind == "chunk":
            return -(-computed // self.span) * self.span
        past = max(computed - self.span + 1, 0)
        return max(-(-past // self.block_tokens), 1) * self.block_tokens + self.span - 1

    def most_pages(self, tokens: int, in_flight: int) -> int:
        """The bound that admission reserves: vLLM 0.32 `kv_cache_interface.py`, max_admission_blocks_per_request."""
        if self.kind == "state":
            return 2
        if self.kind == "window":
            return min(cdiv(min(self.span - 1 + in_flight, tokens), self.block_tokens) + 1, cdiv(tokens, self.block_tokens))
        return cdiv(min(self.span + in_flight, tokens) if self.kind == "chunk" else tokens, self.block_tokens)


class Geometry(NamedTuple):
    """The pool of one replica.

    pages        pages that requests can have (vLLM's null block is not one of them); of token slots where block_tokens is 1
    streams      llama.cpp: separate parts of the pool, one per slot; else 1
    seats        most requests at once for another reason than pages (slots of recurrent states); None: no such limit
    promised     longest requests that the plan says it holds at once
    beside       further pools, in each of which every request needs its pages too
    """

    groups: tuple[PageGroup, ...]
    pages: int
    max_model_len: int
    bytes_per_page: int = 0
    sort: Sort = "blocks"
    streams: int = 1
    seats: int | None = None
    promised: float | None = None
    beside: tuple[Geometry, ...] = ()

    @property
    def slots(self) -> int:
        """Tokens that all groups hold together where nothing is ever given back."""
        span = lcm(*(group.block_tokens for group in self.groups))
        return self.pages * span // sum(group.copies * span // group.block_tokens for group in self.groups)

    def request_pages(self, tokens: int, in_flight: int) -> int:
        """Most pages that one request of `tokens` tokens holds at once."""
        return sum(group.copies * group.most_pages(tokens, in_flight) for group in self.groups)


class Planned(Protocol):
    """What `geometry` reads of a plan."""

    @property
    def question(self) -> Any: ...
    @property
    def cache(self) -> Any: ...
    @property
    def capacity(self) -> Capacity | None: ...


def slots(tokens: int, block_size: int, max_model_len: int) -> Geometry:
    """A pool of `tokens` slots in blocks of one size, as a paper's table gives it."""
    return Geometry((PageGroup("full", block_size),), tokens // block_size, max_model_len)


def from_plan(plan: Planned) -> Geometry:
    """The pool that a plan describes. Raises UnsupportedError where the plan has no pool or pages this package does not manage."""
    capacity = plan.capacity
    question: dict[str, tuple[Any, ChosenBy]] = plan.question
    engine = question["engine"][0]
    facts = engines.facts(engine)
    if capacity is None:
        raise UnsupportedError("simulate: the plan has no pool; name a device or kv_memory")
    base = Geometry((), 0, question["max_model_len"][0] or question["context"][0], promised=capacity.max_concurrency)
    keeps = [layer.keep for layer in plan.cache.layers]
    states = [g for g in capacity.groups if g.role in ("state", "rs") and g.cells]
    if states and facts.pages in ("pools", "radix", "cells"):
        base = base._replace(seats=min(g.streams or g.cells or 1 for g in states))
    paged = [g for g in capacity.groups if g not in states and g.role != "host"]
    if facts.pages == "cells":
        found = _cells(paged, base, engine)
    elif facts.pages in ("pools", "radix"):
        found = _apart(paged, base, engine)._replace(sort="radix" if facts.pages == "radix" else "blocks")
    elif any(g.block_tokens for g in paged):
        pages = (capacity.blocks or 0) - facts.null_blocks
        found = base._replace(groups=tuple(_groups(paged, engine)), pages=pages, bytes_per_page=capacity.bytes_per_block or 0)
    elif any(keep != "all" for keep in keeps) or (paged and not capacity.block_tokens):
        raise UnsupportedError(f"simulate: engine {engine} has no pool of pages for this model; choose a serving engine")
    else:
        block = capacity.block_tokens or 1
        found = base._replace(groups=(PageGroup("full", block),), pages=(capacity.tokens or 0) // block)
    if found.pages < 1:
        why = "the plan's pool holds no page; it would not start" if plan.cache.total_bytes else "the model keeps no cache to page"
        raise UnsupportedError(f"simulate: {why}")
    return found


def _cells(stores: Sequence[Group], base: Geometry, engine: str) -> Geometry:
    """llama.cpp: the cells of the layers that keep all tokens. Its window caches are sized for every slot, so they refuse nobody."""
    kept = [g for g in stores if g.cells and g.layers and not g.role.endswith("kv_swa")]
    if len(kept) != 1:
        raise UnsupportedError(f"simulate: {engine} keeps no cells that grow with this model's sequences, or several kinds of them")
    group, streams = kept[0], kept[0].streams or 1
    cells = group.cells or 1
    cost = ((group.k_bytes or 0) + (group.v_bytes or 0)) // (cells * streams)
    longest = min(base.max_model_len, cells)
    return base._replace(
        groups=(PageGroup("full", 1),), pages=cells * streams, max_model_len=longest, bytes_per_page=cost, sort="cells", streams=streams
    )


def _apart(groups: Sequence[Group], base: Geometry, engine: str) -> Geometry:
    """Pools apart: the first of full attention where there is one, the others beside it."""
    pools = []
    for group, shown in zip(_groups(groups, engine), groups, strict=True):
        pages = (shown.cells or 0) // group.block_tokens
        pools.append(base._replace(groups=(group,), pages=pages, bytes_per_page=shown.page_bytes or 0))
    if not pools:
        raise UnsupportedError(f"simulate: {engine} keeps nothing that grows with this model's sequences")
    pools.sort(key=lambda pool: pool.groups[0].kind != "full")
    return pools[0]._replace(beside=tuple(pools[1:]))


def _groups(groups: Iterable[Group], engine: str) -> Iterator[PageGroup]:
    for group in groups:
        kind = KINDS.get(group.kind.split()[0])
        if kind is None or not group.block_tokens:
            raise UnsupportedError(f"simulate: {engine}'s {group.kind} pages are not simulated")
        if kind in ("window", "chunk") and not group.span:
            raise UnsupportedError(f"simulate: {engine}'s plan does not say how wide its {group.kind} pages reach")
        yield PageGroup(kind, group.block_tokens, group.span or 0, group.n_groups)
