"""Continuous batching: one paged cache for all requests, sized by what the device has left.

transformers 5.23.0 and 5.24.0 src/transformers/generation/continuous_batching/cache.py (PagedAttentionCache, PagedAttentionMemoryHandler).
Tensor parallelism splits K and V heads evenly, or the cache is not made.
"""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import row_bytes
from kvplan.engines.common.lines import sure_of, weight_entries
from kvplan.engines.common.measured import widened
from kvplan.engines.common.protocol import Capacity, Group, Outcome, refused
from kvplan.engines.common.whole import most
from kvplan.errors import UnsupportedError
from kvplan.ledger import Entry, Ledger, exact, held_by_others
from kvplan.tensors import Lowered
from kvplan.units import F32, cdiv, show_bytes
from kvplan.weights import WeightFormats, model_tensors

SOURCE = "transformers 5.23.0 PagedAttentionMemoryHandler"
MAX_BATCH_TOKENS, MAX_REQUESTS, MAX_BLOCKS_PER_REQUEST = 8192, 1024, 32
ALIGN = 128
INT32, INT64 = 4, 8


class Allocator(NamedTuple):
    """The layers of one attention type; `window` 0: all tokens."""

    name: str
    layers: int
    window: int
    bytes_per_block: int

    def blocks(self, tokens: int, page: int) -> int:
        return cdiv(min(tokens, self.window) if self.window else tokens, page)


class PagedOptions(NamedTuple):
    """What the memory handler reads from the configuration. `use_async` None: with CUDA graphs, where no mask is needed (flash).

    peak_tp   ranks over which it takes the heads of activations to be split: before 5.24 it took a rank to hold all of them
    """

    flash: bool
    use_async: bool | None
    logprobs: bool
    logits_to_keep: bool
    num_blocks: int | None
    max_blocks_per_request: int
    page: int
    max_batch_tokens: int
    fraction: float
    peak_tp: int = 1


class Sizing(NamedTuple):
    """`overhead` is what the handler reserves beside the sectors: inputs, activations, masks, trash sectors."""

    sectors: int
    bytes_per_sector: int
    overhead: int
    allocators: tuple[Allocator, ...]


def plan(d: Deployment, model: Lowered, formats: WeightFormats, options: PagedOptions) -> Outcome:
    """The paged cache of each of tp devices; without a device or kv_memory only the geometry. Raises UnsupportedError for pp."""
    tp = d.tp or 1
    if (d.pp or 1) > 1:
        raise UnsupportedError("pp: continuous batching of transformers is planned over tp only")
    found = _allocators(model, options.page, d.dtype or "bf16", tp)
    if isinstance(found, str):
        return refused(found)
    weights = weight_entries(model_tensors(model), formats, tp=tp, ep=1)
    limit = d.device.memory_bytes if d.device else None
    available = None if limit is None else int((limit - sum(e.bytes for e in weights) - (d.reserve or 0)) * options.fraction)
    if d.kv_memory is not None:
        per_sector = lcm(*(a.bytes_per_block for a in found), ALIGN)
        sizing = Sizing(max(0, d.kv_memory // per_sector - 2), per_sector, 0, found)
    elif available is None:
        return Outcome(ledgers=(), capacity=None, starts=None, fits=None, margin_bytes=None, limiting_rank=None)
    else:
        sizing = _size(d, model, found, options, available)
    if sizing.sectors <= 0:
        return refused(f"Invalid values: max_batch_tokens = {options.max_batch_tokens}, num_sectors = {sizing.sectors}")
    pool = sizing.sectors * sizing.bytes_per_sector
    capacity = _capacity(d, sizing, options.page)
    batch = d.batch or 1
    held = _sectors(sizing, d.context or 1, batch, options.page)
    margin = (sizing.sectors - held) * sizing.bytes_per_sector
    lines = [
        *weights,
        exact("cache: pages", pool + 2 * sizing.bytes_per_sector, "transformers 5.23.0 PagedAttentionCache, two trash sectors", "cache"),
    ]
    if sizing.overhead:
        lines.append(Entry("inputs, activations, masks", sizing.overhead, 0, sizing.overhead, "modelled", SOURCE, "activations"))
    if d.reserve:
        lines.append(held_by_others(d.reserve))
    ledger = Ledger(
        ranks=tuple(range(tp)),
        device=d.device.id if d.device else None,
        cache_bytes=pool + 2 * sizing.bytes_per_sector,
        cache_bytes_per_token=sum(a.bytes_per_block for a in found if not a.window) // options.page,
        entries=tuple(lines),
        limit_bytes=limit,
    )
    more, less = (0, 0) if d.kv_memory is not None else widened(0, 0, weights)
    reason = None
    if margin < 0:
        reason = (
            f"{batch} x {d.context} tokens need {show_bytes(held * sizing.bytes_per_sector)} of pages, the cache has {show_bytes(pool)}"
        )
    return Outcome(
        ledgers=(ledger,), capacity=capacity, starts=True, fits=margin >= 0, margin_bytes=margin, limiting_rank=0, reason=reason,
        certainty=sure_of(margin, margin - more, margin + less),
    )  # fmt: skip


def _allocators(model: Lowered, page: int, compute: str, tp: int) -> tuple[Allocator, ...] | str:
    """One allocator for each attention type, in the order of first use; a text where continuous batching has none for a layer."""
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for layer in model.layers:
        for cache in layer.caches:
            names = {t.name: t for t in cache.tensors}
            if not names:
                continue
            if set(names) != {"k", "v"} or names["k"].keep.kind not in ("all", "window"):
                return f"Invalid layer type: {cache.kind}"
            k = names["k"]
            key = ("sliding_attention", k.keep.tokens) if k.keep.kind == "window" else ("full_attention", 0)
            if k.heads % tp:
                return f"Number of key value heads {k.heads} must be divisible by tensor parallel size {tp}."
            per_page = 2 * (k.heads // tp) * k.elems_per_state * row_bytes(compute, 1) * page
            counts[key] = (counts.get(key, (0, 0))[0] + 1, per_page)
    if not counts:
        return "Invalid layer type: none of the layers has attention"
    return tuple(Allocator(name, n, window, n * per_page) for (name, window), (n, per_page) in counts.items())


def _size(d: Deployment, model: Lowered, found: tuple[Allocator, ...], o: PagedOptions, available: int) -> Sizing:
    a = row_bytes(d.dtype or "bf16", 1)
    per_sector = lcm(*(one.bytes_per_block for one in found), ALIGN)
    tokens = max(per_sector // one.bytes_per_block * o.page for one in found)
    layer = next(layer for layer in model.layers if any(cache.tensors for cache in layer.caches))
    k = next(t for cache in layer.caches for t in cache.tensors if t.name == "k")
    q_heads = next((w.units for w in layer.weights if w.name == "q"), k.heads) // o.peak_tp
    head_dim, kv_heads, hidden, vocab = k.elems_per_state, k.heads // o.peak_tp, d.model.hidden_size, d.model.vocab_size or 0
    peak_heads = 2 * kv_heads if o.flash else 2 * q_heads + kv_heads
    masks = 0 if o.flash else 2 if any(one.window for one in found) else 1
    twice = 2 if (o.flash if o.use_async is None else o.use_async) else 1
    # the decode fast path, and its block table, are there for flash attention over all tokens only
    table = o.max_blocks_per_request if o.flash and not any(one.window for one in found) else 0
    io = twice * (7 * INT32 + (2 if o.logprobs else 1) * INT32 + len(found) * (table * INT32 + 2 * INT64))
    attention = a * (hidden + q_heads * head_dim + 2 * kv_heads * head_dim + peak_heads * head_dim)
    lm_head = 0 if o.logits_to_keep else hidden * a + vocab * F32
    fixed = 2 * per_sector + (MAX_REQUESTS * (hidden * a + vocab * F32) if o.logits_to_keep else 0)
    per_batch_token = max(lm_head, attention) + io
    cost = per_sector + tokens * (peak_heads * head_dim * a + twice * len(found) * INT64)

    def mask_bytes(sectors: int) -> int:
        return twice * masks * a * o.max_batch_tokens * (sectors * tokens + o.max_batch_tokens)

    if o.num_blocks is not None:
        whole = sum(one.layers for one in found) * (found[0].bytes_per_block // found[0].layers)
        sectors = max(1, cdiv(o.num_blocks * whole, per_sector))
    else:
        sectors = (available - fixed - o.max_batch_tokens * per_batch_token) // cost
        if masks:
            more = mask_bytes(sectors + 1) - mask_bytes(sectors)
            sectors -= cdiv(mask_bytes(sectors), cost + more)
    overhead = o.max_batch_tokens * per_batch_token + fixed - 2 * per_sector + max(sectors, 0) * (cost - per_sector)
    return Sizing(sectors, per_sector, overhead + mask_bytes(max(sectors, 0)), found)


def _sectors(s: Sizing, tokens: int, sequences: int, page: int) -> int:
    """Sectors that so many equal requests take: blocks of one type are packed into sectors of that type."""
    total = 0
    for one in s.allocators:
        per_sector = s.bytes_per_sector // one.bytes_per_block
        total += cdiv(sequences * one.blocks(tokens, page), per_sector)
    return total


def _capacity(d: Deployment, s: Sizing, page: int) -> Capacity:
    context, batch = d.context or 1, d.batch or 1

    def fits(tokens: int, sequences: int) -> bool:
        return _sectors(s, tokens, sequences, page) <= s.sectors

    pool = (s.sectors + 2) * s.bytes_per_sector
    alone, sequences = most(lambda n: fits(n, 1)), most(lambda n: fits(context, n))
    cap = d.max_model_len
    request = sum(one.blocks(context, page) * one.bytes_per_block for one in s.allocators)
    return Capacity(
        kv_bytes=pool,
        kv_bytes_low=pool,
        kv_bytes_high=pool,
        blocks=s.sectors,
        block_tokens=page,
        bytes_per_block=s.bytes_per_sector,
        request_bytes=request,
        tokens=None if alone is None else s.sectors * max(s.bytes_per_sector // one.bytes_per_block for one in s.allocators) * page,
        max_concurrency=s.sectors * s.bytes_per_sector / request if request else None,
        max_context=cap if alone is None else alone if cap is None else min(alone, cap),
        max_context_unbounded=alone,
        max_context_at_batch=most(lambda n: fits(n, batch)),
        max_batch=sequences,
        log_lines=(
            f"Paged cache initialized: self.max_batch_tokens = {d.max_num_batched_tokens or MAX_BATCH_TOKENS},"
            f" self.num_sectors = {s.sectors}, mb_per_sector = {s.bytes_per_sector // 1024**2}",
        ),
        groups=tuple(
            Group(role=one.name, kind=one.name, layers=one.layers, block_tokens=page, page_bytes=one.bytes_per_block // one.layers)
            for one in s.allocators
        ),
    )
