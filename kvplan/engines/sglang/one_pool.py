"""--enable-unified-memory: one buffer for states or window rows and the full cache, and the tables that say where its slots lie.

sglang 0.5.15 to 0.5.23 mem_cache/unified_memory_pool.py (init_unified_mamba_pools, init_unified_swa_pools, UnifiedKVPool),
mem_cache/multi_ended_allocator.py, from 0.5.20 mem_cache/allocator/unified_sub_pool.py (MultiEndedAllocator), and
mem_cache/kv_cache_configurator.py config_from_budget.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang.cells import Cells
from kvplan.engines.sglang.pools import SglangPoolSettings, Tokens
from kvplan.engines.sglang.rules import SglangRules
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import read_traits
from kvplan.units import cdiv

ID, BLOCK = 8, 4096  # bytes of a slot's number; the budget is cut to whole blocks


class Shared(NamedTuple):
    """Bytes of the rows of every token and of the tables: two numbers for each page of either pool, and one that is free."""

    rows: int
    tables: int


def shared(left: int | None, t: Tokens, cells: Cells, slots: int, k: SglangPoolSettings, rules: SglangRules) -> Shared:
    """The buffer without the state slots.

    left  bytes that the states leave, where nothing else limits the tokens: from 0.5.19 on all of them are the buffer's
    """
    full, other = cells.full_held, cells.slot if t.swa is None else cells.swa_held
    rows = t.full * full + (t.swa or 0) * cells.swa_held
    if left is not None and rules.one_buffer in ("padded", "whole"):
        rows = left - left % BLOCK
    total = rows + slots * cells.slot
    page = 1 if t.swa is None else k.page  # of states; rows of windows have the page of all
    floor = max(full * k.page, other * page)
    pages = total // full // k.page
    others = total // other // page
    named = pages if t.swa is not None and rules.one_buffer != "counted" and not rules.own_numbers else others
    free = pages - cdiv(cdiv(floor, full), k.page) + (others - cdiv(floor, other) if t.swa is None else 0)
    tables = ID * (2 * (pages + 1) + (named + 1) + (others + 1) + free)
    padded = {"": cells.latent, "counted": cells.latent, "padded": True, "whole": False}[rules.one_buffer]
    tail = k.page * max(full, 0 if t.swa is None else cells.swa_held) if padded else 0
    return Shared(rows + tail, tables)


def whole_tokens(t: Tokens, rest: int, cells: Cells, k: SglangPoolSettings) -> Tokens:
    """The most pages of both pools that fit, with the window pool cut to whole pages (pool_configurator.py _max_unified_full_tokens)."""
    if t.swa != int(t.full * k.swa_ratio) // k.page * k.page:
        return t
    while True:
        full = t.full + k.page
        swa = int(full * k.swa_ratio) // k.page * k.page
        if full * cells.full + swa * cells.swa > rest:
            return t
        t = Tokens(full, full, swa)


def without_rows(settled: Settled) -> Values:
    """One pool of a hybrid none of whose layers keeps every token (UnifiedKVPool's parts have a layer each, at least)."""
    tensors = (t for layer in settled.model.layers for cache in layer.caches for t in cache.tensors)
    windows = settings_of(settled).split.windows
    kept = any(t.tokens_per_state is not None and not (windows and t.keep.kind in ("window", "chunk")) for t in tensors)
    return {} if Options(settled.question).flag("enable_unified_memory") and not kept else None


def beside_one_pool(settled: Settled) -> Values:
    """What one pool is not wired for (server_args.py _handle_unified_memory_pool; later arg_groups/kv_cache_hook.py)."""
    s, d, options = settings_of(settled), settled.question, Options(settled.question)
    if not options.flag("enable_unified_memory"):
        return None
    at, traits = release(s.release), read_traits(settled.model)
    drafts = s.speculation.method if s.speculation else ""
    takes = ("", "dspark") if at >= (0, 5, 18) else ("",)
    role = options.text("disaggregation_mode") in ("prefill", "decode")
    sent = at >= (0, 5, 20) or (at >= (0, 5, 18) and traits.states and traits.latent)
    beside = {
        "speculative": drafts not in takes and at < (0, 5, 22),
        "enable_hierarchical_cache": options.flag("enable_hierarchical_cache") and at < (0, 5, 21),
        "dcp": (d.dcp or 1) > 1 and at < (0, 5, 20),
        "disaggregation_mode": role and not sent,
    }
    return next(({"beside": name} for name, there in beside.items() if there), None)
