"""What exllamav3 keeps for a layer, in bytes: pages of a pool of tokens, and slots of states and rings.

turboderp-org/exllamav3 1.6.5 exllamav3/cache/{fp16,quant,mla,qsa}.py, modules/{sliding_attn,gated_delta_net,short_conv,ple}.py.
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.exllamav3.releases import Rules
from kvplan.tensors import Cache, CacheTensor, Layer
from kvplan.units import round_up

PAGE, WINDOW_SLACK, GROUP, F16 = 256, 512, 32, 2


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


def held(layer: Layer, cache: Cache, t: CacheTensor, s: Keeping) -> KeptTensor:
    """One tensor of one layer, its heads already split."""
    part = "v" if t.name in ("v", "state") else "k"
    if t.tokens_per_state is None:
        n_bytes = s.slots * _slot(cache, t, s)
        return KeptTensor("recurrent", cache.kind, t.name, lambda n: n_bytes, part)
    elems = t.heads * t.elems_per_state
    if t.keep.kind == "window" and s.rings:
        n_bytes = s.slots * round_up(t.keep.tokens + WINDOW_SLACK, PAGE) * elems * F16
        return KeptTensor("sliding", cache.kind, t.name, lambda n: n_bytes, part)
    row = _row(layer, cache, t, elems, s)
    return KeptTensor("paged", cache.kind, t.name, lambda n: row * round_up(n, PAGE), part, elems * F16 if t.name in ("k", "v") else 0)


def _row(layer: Layer, cache: Cache, t: CacheTensor, elems: int, s: Keeping) -> int:
    """Bytes of a token. An indexer's keys stay in f16: as they are and, of four each, pooled (QSAPlanes); of pooled ones gates, too."""
    if t.name == "index_k":
        pooled = {"kv+index": (1, elems // 4), "latent+pooled-index": (2, elems // (t.tokens_per_state or 1))}
        planes, pool = pooled.get(cache.form, (1, 0))
        return (planes * elems + pool) * F16
    bits = s.v_bits if t.name == "v" else s.k_bits
    if bits is None:
        return elems * F16
    if t.name != "latent":
        return quantized_row(elems, bits)
    rank = next((w.shape[0] for w in layer.weights if w.name == "kv_a_norm"), elems)
    return quantized_row(rank, bits) + (elems - rank) * F16  # the rotary part stays in f16


def _slot(cache: Cache, t: CacheTensor, s: Keeping) -> int:
    """Bytes of a slot (GDNLayerState, ShortConvLayerState, PLELayerState): convolutions as wide as their kernels, a column more for each
    drafted token; from 1.6.1 on beside them what the last step took in."""
    elems, step = t.heads * t.elems_per_state, s.history + 1
    if t.name == "state":
        wide = 2 if s.rules.half and cache.form != "mamba2" else 4
        gates = t.heads * (2 + 4 * (isqrt(t.elems_per_state) if cache.form == "kda" else 1))
        return 2 * elems * wide + step * gates if s.rules.paired else step * elems * wide
    if not t.columns:
        return elems * F16
    one = elems // t.columns * F16
    staged = step * one if s.rules.paired and cache.form != "short-conv" else 0
    return one * (t.columns + step) + staged
