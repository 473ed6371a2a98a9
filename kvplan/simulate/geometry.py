"""What a cache manager manages: page groups and pages, read from an engine's plan, so that planner and simulator have one source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Protocol

from kvplan.engines.base import Capacity, ChosenBy
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

#: Engines whose pages are not kept in a block pool.
SORTS: dict[str, Sort] = {"sglang": "radix", "llama.cpp": "cells", "ollama": "cells"}


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
    promised     longest requests that the plan says it holds at once
    """

    groups: tuple[PageGroup, ...]
    pages: int
    max_model_len: int
    bytes_per_page: int = 0
    sort: Sort = "blocks"
    streams: int = 1
    promised: float | None = None

    @property
    def slots(self) -> int:
        """Token slots of the pool, by its first group's page."""
        return self.pages * self.groups[0].block_tokens

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
    if capacity is None:
        raise UnsupportedError("simulate: the plan has no pool; name a device or kv_memory")
    longest = question["max_model_len"][0] or question["context"][0]
    sort = SORTS.get(engine, "blocks")
    if sort == "cells":
        return _cells(capacity, longest, engine)
    if not capacity.groups:
        block = capacity.block_tokens or 1
        if any(layer.keep != "all" for layer in plan.cache.layers):
            raise UnsupportedError(f"simulate: engine {engine} has no page groups for windows and states; choose a serving engine")
        return _checked(Geometry((PageGroup("full", block),), (capacity.tokens or 0) // block, longest, promised=capacity.max_concurrency))
    groups = tuple(_groups(capacity, [layer.keep for layer in plan.cache.layers], engine))
    if sort == "radix" and [group.kind for group in groups] != ["full"]:
        raise UnsupportedError("simulate: SGLang's pools of windows and states beside its radix tree are not simulated")
    pages = capacity.blocks or 0
    if engine == "vllm":
        pages -= 1  # the null block
    cost = capacity.bytes_per_block or 0
    return _checked(Geometry(groups, pages, longest, cost, sort, promised=capacity.max_concurrency))


def _cells(capacity: Capacity, longest: int, engine: str) -> Geometry:
    group = capacity.groups[0]
    if len(capacity.groups) > 1 or not group.cells:
        raise UnsupportedError(f"simulate: {engine}'s window and recurrent caches beside its cells are not simulated")
    streams = group.streams or 1
    cost = ((group.k_bytes or 0) + (group.v_bytes or 0)) // (group.cells * streams)
    pages = group.cells * streams
    return Geometry((PageGroup("full", 1),), pages, min(longest, group.cells), cost, "cells", streams, capacity.max_concurrency)


def _groups(capacity: Capacity, keeps: Iterable[str], engine: str) -> Iterable[PageGroup]:
    spans = {kind: sorted({int(keep.split()[1]) for keep in keeps if keep.startswith(kind + " ")}) for kind in ("window", "chunk")}
    for group in capacity.groups:
        kind = KINDS.get(group.kind)
        if kind is None or not group.block_tokens:
            raise UnsupportedError(f"simulate: {engine}'s {group.kind} pages are not simulated")
        if kind in spans and len(spans[kind]) != 1:
            raise UnsupportedError(f"simulate: a model with {len(spans[kind])} sizes of {kind} is not simulated")
        yield PageGroup(kind, group.block_tokens, spans[kind][0] if kind in spans else 0, group.n_groups)


def _checked(geometry: Geometry) -> Geometry:
    if geometry.pages < 1:
        raise UnsupportedError("simulate: the plan's pool holds no page; it would not start")
    return geometry
