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
    """A layer's cache as this release keeps it (QSAPlanes, mla_attn.py idx_plane_dim, GDNLayerState, ShortConvLayerState): without rings of
    windows all tokens; in f16 an indexer's keys as they are and, of four each, pooled, or gates beside those of each token and pooled."""
    step = s.history + 1

    def kept(t: CacheTensor) -> list[CacheTensor]:
        if t.name == "index_k":
            each = replace(t, dtype="f16", tokens_per_state=1)
            pool = replace(each, name="index_pool", tokens_per_state=POOLED)
            gates = replace(each, elems_per_state=2 * t.elems_per_state)
            return {"kv+index": [each, pool], "latent+pooled-index": [gates, pool]}.get(cache.form, [each])
        if t.keep.kind == "window":
            return [t if s.rings else replace(t, keep=ALL)]
        if t.name == "state":
            return _states(t)
        if n := t.columns:  # as wide as the kernel, a column more for each drafted token; beside them what the last step took in
            wide = n + step * (2 if s.rules.paired and cache.form != "short-conv" else 1)
            return [replace(t, elems_per_state=t.elems_per_state // n * wide, columns=wide)]
        return [t]

    def _states(t: CacheTensor) -> list[CacheTensor]:
        if not s.rules.paired:
            return [replace(t, elems_per_state=t.elems_per_state * step)]
        state = replace(t, dtype="f16") if s.rules.half and cache.form != "mamba2" else t
        wide = isqrt(t.elems_per_state) if cache.form == "kda" else 1  # of the last step beta in 16 bits, g in 32, of KDA for each channel
        gates = replace(t, name="state_gates", dtype="f16", elems_per_state=step * (1 + 2 * wide))
        return [state, replace(state, name="state_ahead"), gates]

    return replace(cache, tensors=tuple(one for t in cache.tensors for one in kept(t)))


def held(layer: Layer, cache: Cache, t: CacheTensor, s: Keeping) -> KeptTensor:
    """One tensor of one layer, its heads already split."""
    part = "v" if t.name == "v" or t.name.startswith("state") else "k"
    if t.tokens_per_state is None:
        return KeptTensor("recurrent", cache.kind, t.name, lambda n: s.slots * t.bytes_per_state, part)
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
