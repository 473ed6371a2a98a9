"""What one SGLang server holds in host memory, all its ranks together: the second tier of its prefix cache.

mem_cache/memory_pool_host.py: hicache_size GB (10^9) of each rank, else hicache_ratio (2 by default) times the tokens of its pool, in whole
pages; server_args.py enable_hierarchical_cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.sglang.settle import SglangLayout
from kvplan.ledger import Entry, Ledger, exact


def host(d: Deployment, shape: SglangLayout, ledgers: Sequence[Ledger]) -> tuple[Entry, ...]:
    """Host lines of one server; none without a hierarchical cache."""
    options = Options(d)
    size, ratio = options.number("hicache_size"), options.number("hicache_ratio")
    if not options.flag("enable_hierarchical_cache"):
        return ()
    ranks = sum(len(ledger.ranks) for ledger in ledgers) // (1 if shape.attention_dp > 1 else shape.dp)
    if size is not None:
        return (exact("hierarchical cache", int(size * 10**9) * ranks, f"hicache_size of each of {ranks} ranks", "cache"),)
    pools = sum(len(x.ranks) * sum(e.bytes for e in x.entries if e.name in ("cache: full pool", "cache: window pool")) for x in ledgers)
    each = ratio or 2.0
    n_bytes = int(pools * ranks / sum(len(x.ranks) for x in ledgers) * each)
    return (exact("hierarchical cache", n_bytes, f"hicache_ratio {each:g} x the pools of {ranks} ranks", "cache"),)
