"""What a layer's cache object holds in transformers, tensor by tensor.

transformers 5.23.0 src/transformers/cache_utils.py (DynamicLayer, DynamicSlidingWindowLayer, DynamicIndexedLayer, StaticLayer,
QuantizedLayer, Fp8QuantizedLayer, LinearAttentionLayer), models/deepseek_v4/modeling_deepseek_v4.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.transformers.rules import Release
from kvplan.forms import Form
from kvplan.tensors import Cache, CacheTensor, Layer

#: The mixers whose convolution keeps kernel - 1 columns here too; all others keep kernel columns.
NARROW_CONV: frozenset[Form] = frozenset({"rg-lru"})
#: Mixers whose state was in the compute type before LinearAttentionLayer.
MAMBA: frozenset[Form] = frozenset({"mamba1", "mamba2"})
#: Forms with an indexer beside the cache.
INDEXED: frozenset[Form] = frozenset({"kv+index", "latent+index", "latent+pooled-index"})


class KeepSettings(NamedTuple):
    """How the caches of one question are kept.

    static_tokens   0: they grow; else what a static cache is made for
    encoder_tokens  length of the encoder side; None: as long as the sequence
    images          whether layers that only look at images keep anything
    repeats_from    K and V are stored repeated, once for each query head, from so many KV heads on; 0: never
    windows         whether a window makes a cache of its own
    every_window    DynamicCache.__init__: a window that the config states slides every layer, whatever the class masks; 0: none
    """

    release: Release
    compute: str
    static_tokens: int = 0
    encoder_tokens: int | None = None
    images: bool = True
    repeats_from: int = 0
    windows: bool = True
    every_window: int = 0


def held(layer: Layer, caches: tuple[Cache, ...], s: KeepSettings) -> tuple[KeptTensor, ...]:
    """Everything that one layer keeps for one sequence."""
    found: list[KeptTensor] = []
    has_self = any(t.keep.kind != "source" for cache in caches for t in cache.tensors)
    for cache in caches:
        if cache.form == "compressed":
            found += _compressed(layer, cache, s)
            continue
        for t in cache.tensors:
            found += _tensor(layer, cache, _wide(layer, t, s), s, has_self)
    return tuple(_hybrid(found))


def _hybrid(found: list[KeptTensor]) -> list[KeptTensor]:
    """A layer with states and attention side by side is one cache object of its own type."""
    groups = {h.group for h in found}
    if "linear_attention" not in groups or len(groups) == 1:
        return found
    name = "hybrid_sliding" if "sliding_attention" in groups else "hybrid"
    return [h._replace(group=name) for h in found]


def _wide(layer: Layer, t: CacheTensor, s: KeepSettings) -> CacheTensor:
    if not 0 < s.repeats_from <= t.heads or t.name not in ("k", "v"):
        return t
    return replace(t, heads=next((w.units for w in layer.weights if w.name == "q"), t.heads))


def _tensor(layer: Layer, cache: Cache, t: CacheTensor, s: KeepSettings, has_self: bool) -> list[KeptTensor]:
    size = row_bytes(s.compute, 1)
    if t.tokens_per_state is None:
        return [_state(cache, t, s, size)]
    if t.name == "k_blocks":
        return []  # the block means are computed again in every step
    group = "indexed_attention" if cache.form in INDEXED else "full_attention"
    keep = s.static_tokens or None
    if t.name == "latent":
        return _latent(layer, cache, t, s, size, group)
    if t.name == "index_k":
        pooled = (t.tokens_per_state or 1) > 1  # GLM-5-Next: each token's key, its gate and one score, pooled when they are read
        width = (2 * t.elems_per_state + 1 if pooled else t.elems_per_state) * size
        return [KeptTensor(group, cache.kind, "indexer_keys", _grows(width, keep), "v")]
    width = t.heads * t.elems_per_state * size
    tensor, part = ("keys", "k") if t.name == "k" else ("values", "v")
    if t.keep.kind == "source":
        if not has_self and not s.images:
            return [KeptTensor("full_attention", cache.kind, tensor, lambda n: 0, part)]
        tokens = t.keep.tokens or s.encoder_tokens
        group = "cross:full_attention" if has_self else "full_attention"
        prefix = "cross:" if has_self else ""
        return [KeptTensor(group, cache.kind, prefix + tensor, (lambda n: width * tokens) if tokens else (lambda n: width * n), part)]
    if s.windows and t.keep.kind in ("window", "chunk"):
        most = min(s.static_tokens, t.keep.tokens) if s.static_tokens else t.keep.tokens - 1
        if s.static_tokens:
            return [KeptTensor("sliding_attention", cache.kind, tensor, lambda n: width * most, part)]
        return [KeptTensor("sliding_attention", cache.kind, tensor, lambda n: width * min(n, most), part)]
    if s.every_window and cache.form == "kv" and not s.static_tokens:
        rows = s.every_window - 1
        return [KeptTensor("sliding_attention", cache.kind, tensor, lambda n: width * min(n, rows), part)]
    return [KeptTensor(group, cache.kind, tensor, _grows(width, keep), part)]


def _grows(width: int, static: int | None) -> Callable[[int], int]:
    return (lambda n: width * static) if static else (lambda n: width * n)


def _state(cache: Cache, t: CacheTensor, s: KeepSettings, size: int) -> KeptTensor:
    elems = t.heads * t.elems_per_state
    if t.name == "state":
        n_bytes = elems * size if cache.form == "linear-attention" else t.bytes_per_state  # MiniMax: of the values' type
        return KeptTensor("linear_attention", cache.kind, "recurrent_states", lambda n: n_bytes, "v")
    if t.columns and cache.form not in NARROW_CONV:
        elems = elems // t.columns * (t.columns + 1)
    return KeptTensor("linear_attention", cache.kind, "conv_states", lambda n: elems * size, "k")


def _latent(layer: Layer, cache: Cache, t: CacheTensor, s: KeepSettings, size: int, group: str) -> list[KeptTensor]:
    """The latent as keys and the rotary part as values; before 5.15 the K and V that every head makes of them."""
    shapes = {w.name: (w.shape[0], w.units) for w in layer.weights}
    rank = shapes.get("kv_a_norm", (t.elems_per_state, 1))[0]
    rope = t.elems_per_state - rank
    k, v = rank, rope
    if not s.release.latent and "kv_b" in shapes:
        q_rows, heads = shapes.get("q_b") or shapes["q"]
        k = q_rows
        v = shapes["kv_b"][0] - (q_rows - heads * rope)
    keep = s.static_tokens or None
    if s.every_window and not keep and group == "full_attention":
        rows = s.every_window - 1
        group = "sliding_attention"
        return [
            KeptTensor(group, cache.kind, "keys", lambda n: k * size * min(n, rows), "k"),
            KeptTensor(group, cache.kind, "values", lambda n: v * size * min(n, rows), "v"),
        ]
    return [
        KeptTensor(group, cache.kind, "keys", _grows(k * size, keep), "k"),
        KeptTensor(group, cache.kind, "values", _grows(v * size, keep), "v"),
    ]


def _compressed(layer: Layer, cache: Cache, s: KeepSettings) -> list[KeptTensor]:
    """DeepSeek-V4: the window, one row per ratio, and what the compressors hold until their next row is full."""
    size = row_bytes(s.compute, 1)
    by_name = {t.name: t for t in cache.tensors}
    window, packed, index = by_name["window"], by_name.get("compressed"), by_name.get("index_k")
    width, last = window.elems_per_state * size, window.keep.tokens - 1
    group = "sliding_attention" if packed is None else "DeepseekV4CSACache" if index else "DeepseekV4HCACache"
    found = [KeptTensor(group, cache.kind, "keys", lambda n: width * min(n, last), "k")]
    if packed is None or not packed.tokens_per_state:
        return [*found, KeptTensor(group, cache.kind, "values", lambda n: width * min(n, last), "v")]
    ratio = packed.tokens_per_state
    rows = {w.name: w.shape[0] for w in layer.weights}
    parts = [("compressor", packed.elems_per_state, rows.get("compressor_kv", packed.elems_per_state))]
    if index:
        parts.append(("indexer", index.elems_per_state, rows.get("index_compressor_kv", index.elems_per_state)))
    for name, elems, projected in parts:
        waiting, row, overlaps = projected * size, elems * size, projected > elems
        for what in ("buffer_kv", "buffer_gate"):
            found.append(KeptTensor(group, cache.kind, f"{what}_{name}", _rest(waiting, ratio), "v"))
        found.append(KeptTensor(group, cache.kind, f"compressed_kv_{name}", _each(row, ratio), "v"))
        if overlaps:
            for what in ("overlap_kv", "overlap_gate"):
                found.append(KeptTensor(group, cache.kind, f"{what}_{name}", _once(row * ratio, ratio), "v"))
    return found


def _rest(width: int, ratio: int) -> Callable[[int], int]:
    return lambda n: width * (n % ratio)


def _each(width: int, ratio: int) -> Callable[[int], int]:
    return lambda n: width * (n // ratio)


def _once(n_bytes: int, ratio: int) -> Callable[[int], int]:
    return lambda n: n_bytes if n >= ratio else 0
