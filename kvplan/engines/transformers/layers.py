"""What a layer's cache object holds in transformers, tensor by tensor.

transformers 5.23.0 src/transformers/cache_utils.py (DynamicLayer, DynamicSlidingWindowLayer, DynamicIndexedLayer, StaticLayer,
QuantizedLayer, Fp8QuantizedLayer, LinearAttentionLayer), models/deepseek_v4/modeling_deepseek_v4.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.common.settling import states_in, without
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.transformers.rules import Release
from kvplan.forms import Form
from kvplan.tensors import ALL, Cache, CacheTensor, Keep, Layer
from kvplan.units import F32

#: The mixers whose convolution keeps kernel - 1 columns here too; all others keep kernel columns.
NARROW_CONV: frozenset[Form] = frozenset({"rg-lru", "convolved-qkv"})
#: Mixers whose state was in the compute type before LinearAttentionLayer.
MAMBA: frozenset[Form] = frozenset({"mamba1", "mamba2"})
#: Mixers whose state is of the values' type (MiniMax) or of the embeddings' (xLSTM).
OF_VALUES: frozenset[Form] = frozenset({"linear-attention", "mlstm"})
#: Forms with an indexer beside the cache.
INDEXED: frozenset[Form] = frozenset({"kv+index", "latent+index", "latent+pooled-index"})


class KeepSettings(NamedTuple):
    """How the caches of one question are kept.

    static_tokens   0: they grow; else what a static cache is made for
    encoder_tokens  length of the encoder side; None: as long as the sequence
    images          whether layers that only look at images keep anything
    repeats_from    K and V are stored repeated, once for each query head, from so many KV heads on; 0: never
    windows         whether a window makes a cache of its own
    every_window    a window that the config states and the class does not mask by; 0: none
    """

    release: Release
    compute: str
    static_tokens: int = 0
    encoder_tokens: int | None = None
    images: bool = True
    repeats_from: int = 0
    windows: bool = True
    every_window: int = 0


def as_kept(layer: Layer, cache: Cache, s: KeepSettings) -> Cache:
    """The cache in the tensors that its object holds: what a reader is shown, and what is counted.

    An indexer's keys and a convolution's whole kernel are in the compute type, and so were Mamba states before LinearAttentionLayer;
    block means are computed again in every step. Before 5.15 every head's K and V were kept in place of a latent.
    """
    if cache.form == "encoder-kv" and not s.images and not _has_self(layer):
        return without(cache)
    if cache.form == "compressed":
        return cache
    old_state = (cache.form in MAMBA and not s.release.f32_states) or cache.form in OF_VALUES
    kept = states_in(cache, s.compute) if old_state else cache
    made = replace(kept, tensors=tuple(one for t in kept.tensors for one in _as_kept(layer, t, cache.form, s)))
    return _slid(made, s.every_window) if s.every_window and not s.static_tokens and cache.form in ("kv", "latent") else made


def _slid(cache: Cache, window: int) -> Cache:
    """A DynamicCache made from a config that states a window slides every layer, whether the class masks by it or not."""
    keep = Keep("window", window)
    return replace(cache, tensors=tuple(replace(t, keep=keep) if t.keep == ALL else t for t in cache.tensors))


def _as_kept(layer: Layer, t: CacheTensor, form: Form, s: KeepSettings) -> list[CacheTensor]:
    if t.name == "k_blocks":
        return []
    if t.name == "latent" and not s.release.latent:
        return _expanded(layer, t)
    if t.name in ("k", "v"):
        heads = next((w.units for w in layer.weights if w.name == "q"), t.heads) if 0 < s.repeats_from <= t.heads else t.heads
        return [replace(t, heads=heads, keep=_keep(t, s))]
    if t.name == "latent":
        return [replace(t, keep=_keep(t, s))]
    if t.name == "index_k":
        pooled = t.tokens_per_state != 1  # GLM-5-Next: each token's key, its gate and one score, pooled when they are read
        elems = 2 * t.elems_per_state + 1 if pooled else t.elems_per_state
        kept = t.dtype if t.dtype == "f32" else s.compute  # dots3-note rotates these keys in f32 and keeps them so
        return [replace(t, dtype=kept, elems_per_state=elems, tokens_per_state=1)]
    if t.columns and form not in NARROW_CONV:
        return [replace(t, elems_per_state=t.elems_per_state // t.columns * (t.columns + 1), columns=t.columns + 1)]
    return [t]


def _keep(t: CacheTensor, s: KeepSettings) -> Keep:
    """DynamicCache.__init__: a window that the config states slides every layer of a class that has no layer types."""
    if t.keep.kind == "all" and s.every_window and not s.static_tokens:
        return Keep("window", s.every_window)
    return t.keep if s.windows or t.keep.kind in ("all", "source") else ALL


def _expanded(layer: Layer, t: CacheTensor) -> list[CacheTensor]:
    """The K and V that every head makes of a latent."""
    shapes = {w.name: (w.shape[0], w.units) for w in layer.weights}
    if "kv_b" not in shapes:
        return [t]
    q_rows, heads = shapes.get("q_b") or shapes["q"]
    nope = q_rows // heads - (t.elems_per_state - shapes["kv_a_norm"][0])
    v = shapes["kv_b"][0] // heads - nope
    return [replace(t, name=name, heads=heads, elems_per_state=n) for name, n in (("k", q_rows // heads), ("v", v))]


def _has_self(layer: Layer) -> bool:
    return any(t.keep.kind != "source" for cache in layer.caches for t in cache.tensors)


def held(layer: Layer, caches: tuple[Cache, ...], s: KeepSettings) -> tuple[KeptTensor, ...]:
    """Everything that one layer keeps for one sequence."""
    found: list[KeptTensor] = []
    has_self = _has_self(layer)
    for cache in caches:
        if cache.form == "compressed":
            found += _compressed(layer, cache, s)
            continue
        for t in cache.tensors:
            found += _tensor(layer, cache, t, s, has_self)
    return tuple(_hybrid(found))


def _hybrid(found: list[KeptTensor]) -> list[KeptTensor]:
    """A layer with states and attention side by side is one cache object of its own type."""
    groups = {h.group for h in found}
    if "linear_attention" not in groups or len(groups) == 1:
        return found
    name = "hybrid_sliding" if "sliding_attention" in groups else "hybrid"
    return [h._replace(group=name) for h in found]


def _tensor(layer: Layer, cache: Cache, t: CacheTensor, s: KeepSettings, has_self: bool) -> list[KeptTensor]:
    size = row_bytes(s.compute, 1)
    if t.tokens_per_state is None:
        return [_state(cache, t)]
    group = "indexed_attention" if cache.form in INDEXED else "full_attention"
    keep = s.static_tokens or None
    if t.name == "latent":
        return _latent(layer, cache, t, s, size, group)
    if t.name == "index_k":
        return [KeptTensor(group, cache.kind, "indexer_keys", _grows(t.bytes_per_state, keep), "v")]
    width = t.heads * t.elems_per_state * size
    tensor, part = ("keys", "k") if t.name == "k" else ("values", "v")
    if t.keep.kind == "source":
        tokens = t.keep.tokens or s.encoder_tokens
        group = "cross:full_attention" if has_self else "full_attention"
        prefix = "cross:" if has_self else ""
        return [KeptTensor(group, cache.kind, prefix + tensor, (lambda n: width * tokens) if tokens else (lambda n: width * n), part)]
    if t.keep.kind in ("window", "chunk"):
        most = min(s.static_tokens, t.keep.tokens) if s.static_tokens else t.keep.tokens - 1
        if s.static_tokens:
            return [KeptTensor("sliding_attention", cache.kind, tensor, lambda n: width * most, part)]
        return [KeptTensor("sliding_attention", cache.kind, tensor, lambda n: width * min(n, most), part)]
    return [KeptTensor(group, cache.kind, tensor, _grows(width, keep), part)]


def _grows(width: int, static: int | None) -> Callable[[int], int]:
    return (lambda n: width * static) if static else (lambda n: width * n)


def _state(cache: Cache, t: CacheTensor) -> KeptTensor:
    n_bytes, name, part = t.bytes_per_state, *(("recurrent_states", "v") if t.name == "state" else ("conv_states", "k"))
    return KeptTensor("linear_attention", cache.kind, name, lambda n: n_bytes, part)


def _latent(layer: Layer, cache: Cache, t: CacheTensor, s: KeepSettings, size: int, group: str) -> list[KeptTensor]:
    """The latent as keys and the rotary part as values."""
    rank = next((w.shape[0] for w in layer.weights if w.name == "kv_a_norm"), t.elems_per_state)
    rope = t.elems_per_state - rank
    keep = s.static_tokens or None
    if t.keep.kind == "window":
        most = t.keep.tokens - 1
        return [
            KeptTensor("sliding_attention", cache.kind, "keys", lambda n: rank * size * min(n, most), "k"),
            KeptTensor("sliding_attention", cache.kind, "values", lambda n: rope * size * min(n, most), "v"),
        ]
    return [
        KeptTensor(group, cache.kind, "keys", _grows(rank * size, keep), "k"),
        KeptTensor(group, cache.kind, "values", _grows(rope * size, keep), "v"),
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
            for what, each in (("overlap_kv", size), ("overlap_gate", F32 if s.release.f32_gates else size)):
                found.append(KeptTensor(group, cache.kind, f"{what}_{name}", _once(elems * ratio * each, ratio), "v"))
    return found


def _rest(width: int, ratio: int) -> Callable[[int], int]:
    return lambda n: width * (n % ratio)


def _each(width: int, ratio: int) -> Callable[[int], int]:
    return lambda n: width * (n // ratio)


def _once(n_bytes: int, ratio: int) -> Callable[[int], int]:
    return lambda n: n_bytes if n >= ratio else 0
