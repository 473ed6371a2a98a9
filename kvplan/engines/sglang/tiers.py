"""HiCache: the second tier of one SGLang server's prefix cache, in host memory.

mem_cache/pool_host/base.py HostKVCache (memory_pool_host.py before 0.5.14): hicache_size GB (10^9) of each rank, else hicache_ratio (2 by
default) times the tokens of its pool, in whole pages, and from 0.5.6 on a page more, for padding. Pools of windows and of states have
one each; a size is dealt by their bytes (hybrid_cache/hybrid_pool_assembler.py _split_hicache_size). Every rank keeps its own, a
latent's copies too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release
from kvplan.engines.common.tiers import Kind, Part, Tier, of_each, pool
from kvplan.engines.sglang.layout import SglangLayout
from kvplan.engines.sglang.pools import SglangPoolSettings
from kvplan.engines.sglang.rank import SglangPools

RATIO, GB = 2.0, 10**9
PADDED_FROM = "0.5.6"


def tiers(d: Deployment, made: Sequence[SglangPools], k: SglangPoolSettings, shape: SglangLayout, version: str) -> tuple[Tier, ...]:
    """The pools of the tier; none without a hierarchical cache. `made`: of every pipeline stage."""
    options = Options(d)
    size, asked = options.number("hicache_size"), options.number("hicache_ratio")
    if not options.flag("enable_hierarchical_cache"):
        return ()
    return tuple(_pools(size, asked or RATIO, made, k, shape.tp, int(release(version) >= release(PADDED_FROM))))


def _pools(size: float | None, ratio: float, made: Sequence[SglangPools], k: SglangPoolSettings, tp: int, padding: int) -> Iterator[Tier]:
    setting = f"hicache_ratio {ratio:g}" if size is None else f"hicache_size {size:g} GB{of_each(tp * len(made))}"
    whole = [p.full_bytes + p.swa_bytes + p.state_bytes for p in made]
    first = made[0]
    kinds: list[tuple[str, Kind, int, int, int, list[int], list[int]]] = [
        ("cache", "full", k.page, 0, first.tokens.full, [p.full_bytes for p in made], [int(p.full_token_bytes) for p in made]),
        ("windows", "window", k.page, first.stage.cells.window, first.tokens.swa or 0, [p.swa_bytes for p in made],
         [int(p.swa_token_bytes) for p in made]),
        ("states", "state", 0, 0, first.states.slots if first.states else 0, [p.state_bytes for p in made],
         [p.states.slot_bytes if p.states else 0 for p in made]),
    ]  # fmt: skip
    for what, kind, page, span, tokens, pools, each in kinds:
        if not tokens or not any(each):
            continue
        unit = page or 1
        if size is None:
            held = int(tokens * ratio)
        else:
            shares = [size * held / total for held, total in zip(pools, whole, strict=True)]
            held = min(int(share * 1e9 // one) for share, one in zip(shares, each, strict=True) if one)
        pieces = held // unit + padding
        piece_bytes = sum(each) * unit * tp
        part = Part(kind, page, 1, max(each) * unit, span)
        asked = int(size * GB) * tp * len(made) if size is not None else int(tokens * ratio) * sum(each) * tp
        yield pool("cpu", "HiCache", setting, asked, piece_bytes, (part,), tp * len(made), pieces=pieces, what=what)
