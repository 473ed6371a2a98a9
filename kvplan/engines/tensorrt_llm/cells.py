"""Bytes per token of each layer on one rank, and which window it has.

Source: tensorrt_llm/_torch/pyexecutor/resource_manager.py, get_cache_bytes_per_token (heads by ceiling; a latent is K only; NVFP4 is
half a byte and an e4m3 scale per 16 elements), kv_cache/mamba_cache_manager (states of one request).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.parallel import heads_per_rank
from kvplan.tensors import CacheTensor, Layer
from kvplan.units import cdiv


class LayerCache(NamedTuple):
    """One layer on one rank: bytes per token, its window (0: all tokens), bytes of cross-attention per encoder token, state bytes."""

    token: int
    window: int
    cross: int
    state: int


def layer_cache(layer: Layer, tp: int) -> LayerCache:
    """One lowered layer. `tp` is 1 under attention data parallelism. Local chunks are kept whole, as the engine does."""
    token = window = cross = state = 0
    for t in (t for cache in layer.caches for t in cache.tensors):
        n_bytes = heads_per_rank(t.heads, tp) * row_bytes(t.dtype, t.elems_per_state)
        if t.tokens_per_state is None:
            state += n_bytes
        elif t.keep.kind == "source":
            cross += n_bytes
        else:
            token += cdiv(n_bytes, t.tokens_per_state)
            window = max(window, _window(t))
    return LayerCache(token, window, cross, state)


def _window(t: CacheTensor) -> int:
    return t.keep.tokens if t.keep.kind == "window" else 0


def windows_of(layers: Sequence[LayerCache], told: tuple[int, ...], max_seq_len: int, offset: int) -> list[int]:
    """The window of every layer under `max_attention_window`: the list, repeated over all layers of the model; longest = all tokens.

    offset  the first layer's number in the whole model
    """
    if not told:
        return [max_seq_len for _ in layers]
    return [min(told[(offset + n) % len(told)], max_seq_len) for n in range(len(layers))]
