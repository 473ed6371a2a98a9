"""TensorRT-LLM's pinned host pool: host_cache_size bytes of every rank for evicted blocks, each a block of all pools of the rank.

tensorrt_llm/_torch/pyexecutor/resource_manager.py, blocks_in_secondary_pool; kv_cache/kv_cache_manager_v2.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.common.tiers import Part, Tier, of_each, pool
from kvplan.engines.tensorrt_llm.pools import TrtPools
from kvplan.units import show_bytes


def host_pool(made: Sequence[TrtPools], block: int, n_bytes: int, tp: int, *, own: bool) -> tuple[Tier, ...]:
    """The pool of one server; none without bytes. `n_bytes`: of each rank; own: nobody asked for it; `made`: of every pipeline stage."""
    pages = [block * sum(one.token_bytes for one in p.pools) for p in made]
    if not n_bytes or not all(pages):
        return ()
    ranks, pieces = tp * len(made), min(n_bytes // page for page in pages)
    setting = f"{'its own, ' if own else 'host_cache_size '}{show_bytes(n_bytes)}{of_each(ranks)}"
    piece = sum(pages) * tp
    part = Part("full", block, 1, max(pages))
    return (pool("cpu", "TensorRT-LLM's host pool", setting, n_bytes * ranks, piece, (part,), ranks, pieces=pieces),)
