"""Indexers beside K and V that keep one key for several tokens: Qwen4-Exp (Qwen3.8-Flash-Next); and tables of n-grams."""

from __future__ import annotations

from dataclasses import replace

from kvplan.spec import ModelSpec
from kvplan.tensors import Cache, WeightTensor

#: The table of Qwen4-Exp's n-gram layer, by the name of its weight, and how those of DeepSeek-V4.1's begin, a table for each head.
TABLE, TABLES = "ngram_embedding", "engram_rows"


def is_table(w: WeightTensor) -> bool:
    """Whether a weight is a table of n-grams, of which a token reads a few rows."""
    return w.name == TABLE or w.name.startswith(TABLES)


def key_group(model: ModelSpec) -> int:
    """Tokens that share an indexer's key beside K and V; 0 where each has its own."""
    found = {getattr(mixer, "index_group", 1) for block in model.blocks.values() for mixer in block.mixers}
    return max(found) if max(found, default=1) > 1 else 0


def grouped(cache: Cache, group: int) -> Cache:
    """The cache with one index key for so many tokens."""
    if not group or cache.form != "kv+index":
        return cache
    return replace(cache, tensors=tuple(replace(t, tokens_per_state=group) if t.name == "index_k" else t for t in cache.tensors))
