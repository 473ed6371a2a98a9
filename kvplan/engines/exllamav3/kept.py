"""What exllamav3 keeps for a layer, in bytes: pages of a pool of tokens, and slots of states and rings.

turboderp-org/exllamav3 1.6.5 exllamav3/cache/{fp16,quant,mla,qsa}.py, modules/{sliding_attn,gated_delta_net,short_conv,ple}.py.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import NamedTuple

from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.exllamav3.releases import Rules
from kvplan.tensors import ALL, Cache, CacheTensor, Layer
from kvplan.units import round_up

PAGE, WINDOW_SLACK, GROUP, POOLED, F16 = 256, 512, 32, 4, 2


class Keeping(NamedTuple):
    """How caches are kept.

    slots    sequences that have states; history: drafted tokens of a step
    k_bits, v_bits  of a quantised cache; None: f16
    rings    layers with windows keep no more than those
    """

    rules: Rules
    slots: int
    history: int
    k_bits: int | None
    v_bits: int | None
    rings: bool


def quantized_row(elems: int, bits: int) -> int:
    """Bytes of one token: for each 32 elements `bits` 32-bit words and an f16 scale. Source: CacheLayer_quant."""
    groups = elems // GROUP
    return groups * bits * 4 + groups * F16


def as_kept(_: Layer, cache: Cache, *, s: Keeping) -> Cache:
    """A layer's cache as this release keeps it: without rings of windows all tokens, states in their format, and in f16 an indexer's keys:
    as they are and, of four each, pooled (QSAPlanes); of keys that are only kept pooled, gates beside those of each token (mla_attn.py)."""

    def kept(t: CacheTensor) -> list[CacheTensor]:
        if t.name == "index_k":
            each = replace(t, dtype="f16", tokens_per_state=1)
            pool = replace(each, name="index_pool", tokens_per_state=POOLED)
            gates = replace(each, elems_per_state=2 * t.elems_per_state)
            return {"kv+index": [each, pool], "latent+pooled-index": [gates, pool]}.get(cache.form, [each])
        if t.keep.kind == "window" and not s.rings:
            return [replace(t, keep=ALL)]
        if t.name != "state":
            return [t]
        state = replace(t, dtype="f16") if s.rules.half and cache.form != "mamba2" else t
        return [state, replace(state, name="state_ahead")] if s.rules.paired else [state]

    return replace(cache, tensors=tuple(one for t in cache.tensors for one in kept(t)))


def held(layer: Layer, cache: Cache, t: CacheTensor, s: Keeping) -> KeptTensor:
    """One tensor of one layer, its heads already split."""
    part = "v" if t.name in ("v", "state", "state_ahead") else "k"
    if t.tokens_per_state is None:
        n_bytes = s.slots * _slot(cache, t, s)
        return KeptTensor("recurrent", cache.kind, t.name, lambda n: n_bytes, part)
    elems = t.heads * t.elems_per_state
    if t.keep.kind == "window":
        n_bytes = s.slots * round_up(t.keep.tokens + WINDOW_SLACK, PAGE) * elems * F16
        return KeptTensor("sliding", cache.kind, t.name, lambda n: n_bytes, part)
    row = _row(layer, t, elems, s)
    return KeptTensor("paged", cache.kind, t.name, lambda n: row * round_up(n, PAGE), part, elems * F16 if t.name in ("k", "v") else 0)


def _row(layer: Layer, t: CacheTensor, elems: int, s: Keeping) -> int:
    """Bytes of a token."""
    bits = {"k": s.k_bits, "v": s.v_bits, "latent": s.k_bits, "index_k": None, "index_pool": None}[t.name]
    if bits is None:
        return elems * F16 // (t.tokens_per_state or 1)
    if t.name != "latent":
        return quantized_row(elems, bits)
    rank = next((w.shape[0] for w in layer.weights if w.name == "kv_a_norm"), elems)
    return quantized_row(rank, bits) + (elems - rank) * F16  # the rotary part stays in f16


def _slot(cache: Cache, t: CacheTensor, s: Keeping) -> int:
    """Bytes of a slot (GDNLayerState, ShortConvLayerState, PLELayerState): convolutions as wide as their kernels, a column more for each
    drafted token; from 1.6.1 on beside them what the last step took in."""
    elems, step = t.heads * t.elems_per_state, s.history + 1
    if t.name.startswith("state"):
        n_bytes = elems * (2 if t.dtype == "f16" else 4)
        if not s.rules.paired:
            return step * n_bytes
        gates = t.heads * (2 + 4 * (isqrt(t.elems_per_state) if cache.form == "kda" else 1))
        return n_bytes + (step * gates if t.name == "state" else 0)
    if not t.columns:
        return elems * F16
    one = elems // t.columns * F16
    staged = step * one if s.rules.paired and cache.form != "short-conv" else 0
    return one * (t.columns + step) + staged
