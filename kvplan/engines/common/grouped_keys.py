"""Indexers beside K and V that keep one key for several tokens: Qwen4-Exp (Qwen3.8-Flash-Next), and the table of its n-gram layer."""

from __future__ import annotations

from dataclasses import replace

from kvplan.spec import ModelSpec
from kvplan.tensors import Cache

#: The table of an n-gram layer, by the name of its weight.
TABLE = "ngram_embedding"


def key_group(model: ModelSpec) -> int:
    """Tokens that share an indexer's key beside K and V; 0 where each has its own."""
    found = {getattr(mixer, "index_group", 1) for block in model.blocks.values() for mixer in block.mixers}
    return max(found) if max(found, default=1) > 1 else 0


def grouped(cache: Cache, group: int) -> Cache:
    """The cache with one index key for so many tokens."""
    if not group or cache.form != "kv+index":
        return cache
    return replace(cache, tensors=tuple(replace(t, tokens_per_state=group) if t.name == "index_k" else t for t in cache.tensors))
