"""Bytes per token on one rank: what each lowered layer adds to the full pool, the window pool, the state pool.

Source: sglang 0.5.23 model_executor/pool_configurator.py, DefaultPoolConfigurator._compute_cell_size, HybridSWAPoolConfigurator;
mem_cache/kv_cache_configurator.py, calculate_mla_kv_cache_dim; configs/mamba_utils.py, mamba_cache_per_req.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.sglang.rules import SglangRules
from kvplan.parallel import heads_per_rank
from kvplan.tensors import CacheTensor, Layer
from kvplan.units import cdiv


class Records(NamedTuple):
    """DeepSeek-V4.1: formats of a window's rows and of those that all layers read, and how many keys a page of an indexer has."""

    window: str
    rows: str
    index_page: int


class Split(NamedTuple):
    """How the layers of a model are stored on one rank.

    attn_tp, dcp  attention tensor parallel size, decode context parallel size
    sparse        the model has an indexer: fp8 rows of every layer carry scales and a 16-bit rotary part; raw_mla: kernels read them raw
    exclusive     the model's class does not count the token itself to its window
    windows       window layers have a pool of their own
    states        the model has recurrent states; one_pool: in one buffer with the cache, whose fp4 rows are of whole bytes
    state_tp      ranks that share a state where they are not those that share attention
    group         tokens of an index key beside K and V; 0: none are grouped
    keys          the format of index keys where it is not the model's own
    key_copies    tokens that have index keys for each of rows, where the others' are in host memory
    whole_index   layers that share another's indexer keep keys of it all the same
    replayed      inputs of recurrent layers that a slot keeps, from which its state is replayed; 0: none
    records       how DeepSeek-V4.1's rows are packed; None for other models
    encoder_rows  an encoder's layers that are numbered with the decoder's, and so given rows like their self-attention
    unpacked      an fp4 cache whose prompts are read from a layer of fp8 rows (nvfp4 by that name)
    """

    attn_tp: int = 1
    dcp: int = 1
    sparse: bool = False
    raw_mla: bool = False
    exclusive: bool = False
    windows: bool = False
    states: bool = False
    encoder_rows: int = 0
    state_tp: int | None = None
    group: int = 0
    keys: str | None = None
    whole_index: bool = False
    key_copies: int = 1
    replayed: int = 0
    records: Records | None = None
    one_pool: bool = False
    unpacked: bool = False


class LayerBytes(NamedTuple):
    """What one layer adds on one rank: bytes per token and per state. `window` 0: it keeps all tokens (or no KV at all).

    k_token and v_token are the parts that the engine logs as K and V; a latent is all in k_token. index_token: indexer keys.
    charged: the bytes by which it divides its budget, where they are not those that it then stores.
    columns: tokens in a convolution window; 0 where copies of it can not overlap. beside: of a state, allocated but not charged.
    """

    k_token: int = 0
    v_token: int = 0
    index_token: int = 0
    window: int = 0
    latent: bool = False
    conv_state: int = 0
    state: int = 0
    cross: bool = False
    charged: int = 0
    columns: int = 0
    beside: int = 0

    @property
    def kv_token(self) -> int:
        return self.k_token + self.v_token


class Cells(NamedTuple):
    """The layers of one stage, summed: bytes per token of full and window layers (indexer keys are in `full`), bytes per state slot.

    full, swa            what the budget is divided by
    full_held, swa_held  what the pools then take
    beside               what a state slot takes and is not charged
    ring                 what a running request takes, likewise; spare_rings: as much of no request
    """

    full: int
    swa: int
    full_held: int
    swa_held: int
    indexer: int
    n_full: int
    n_index: int
    n_swa: int
    window: int
    full_k: int
    swa_k: int
    conv_state: int
    state: int
    latent: bool
    window_columns: int = 0
    beside: int = 0
    ring: int = 0
    spare_rings: int = 0

    @property
    def slot(self) -> int:
        """Bytes of one request's recurrent states."""
        return self.conv_state + self.state


def layer_bytes(layer: Layer, split: Split, rules: SglangRules) -> LayerBytes:
    """One lowered layer on one rank. Heads are divided by floor and never fewer than one; a latent is on every rank."""
    k = v = index = window = conv = state = charged = columns = beside = 0
    latent = cross = False
    for form, t in ((cache.form, t) for cache in layer.caches for t in cache.tensors):
        if t.tokens_per_state is None:
            columns = max(columns, 0 if form == "kda" else t.columns)
            n_bytes = _state_heads(t, split.state_tp or split.attn_tp) * row_bytes(t.dtype, t.elems_per_state)
            if form == "depthwise-conv":
                beside += n_bytes
                continue
            conv, state = (conv + n_bytes, state) if t.columns else (conv, state + n_bytes)
            continue
        if t.name == "index_k":
            copies = split.key_copies if rules.dsa_charge == "stored" else 1
            index += cdiv(t.bytes_per_state, t.tokens_per_state) * (split.dcp if rules.dcp_index else 1) * copies
        elif t.name == "latent":
            plain = t.dtype == "fp8_ds_mla" and rules.dsa_charge != "stored"
            charged += t.elems_per_state if plain else t.bytes_per_state
            # a hybrid's latent pool is no fp4 one (memory_pool.py HybridLinearKVPool)
            raw = t.dtype == "nvfp4" and (split.states or not rules.fp4_pools)
            k, latent = k + (t.elems_per_state if raw else t.bytes_per_state), True
        elif t.name in ("k", "v"):
            stored, asked = _head_bytes(t, split, rules)
            charged += asked
            k, v = (k + stored, v) if t.name == "k" else (k, v + stored)
        window = max(window, t.keep.tokens - split.exclusive) if t.keep.kind in ("window", "chunk") else window
        cross = cross or t.keep.kind == "source"
    charged += 0 if rules.dsa_charge == "latent" else index
    beside += _ring(layer, split) if split.replayed else 0
    return LayerBytes(k, v, index, window, latent, conv, state, cross, charged, columns, beside)


def _state_heads(t: CacheTensor, tp: int) -> int:
    """Heads of a state on a rank; groups of keys that ranks do not share evenly are one on each (extra_groups_for_head_shards)."""
    return 1 if t.name in ("conv_bc", "conv_qk") and t.heads % tp else heads_per_rank(t.heads, tp)


def _ring(layer: Layer, split: Split) -> int:
    """Values, keys and decays of the last inputs of one slot on a rank, which are not charged (mem_cache/memory_pool.py MambaPool)."""
    total, tp = 0, split.state_tp or split.attn_tp
    for cache in layer.caches:
        named = {t.name: t for t in cache.tensors}
        values, keys = (named.get(a) or named.get(b) for a, b in (("conv_x", "conv_v"), ("conv_bc", "conv_qk")))
        if (state := named.get("state")) is None or values is None or keys is None:
            continue
        width = values.elems_per_state // values.columns
        heads = heads_per_rank(state.heads, tp)
        numbers = heads * width + heads_per_rank(keys.heads, tp) * (state.elems_per_state // width)
        total += split.replayed * (row_bytes(state.dtype, numbers) + 4 * heads)
    return total


def _head_bytes(t: CacheTensor, split: Split, rules: SglangRules) -> tuple[int, int]:
    """Bytes stored for a token of K or V, and bytes charged. fp4 pools of split windows, and early ones beside states, store bytes.

    Split windows are charged the heads of a rank outside of decode context parallelism.
    """
    held = heads_per_rank(t.heads, split.attn_tp // split.dcp, "floor")
    asked = heads_per_rank(t.heads, split.attn_tp, "floor") if split.windows else held
    packed = row_bytes(t.dtype, t.elems_per_state)
    if t.dtype != "nvfp4":
        return held * packed, asked * packed
    if not rules.fp4_pools:
        return held * t.elems_per_state, asked * t.elems_per_state
    if split.windows:
        return held * t.elems_per_state, asked * (t.elems_per_state if rules.fp4_windows else packed)
    whole = split.states and (split.one_pool or not rules.fp4_states)  # 0.5.19 unified_memory_pool.py _store_dtype_for
    return held * (t.elems_per_state if whole else packed), asked * packed


def encoder_rows(layers: Sequence[LayerBytes], split: Split) -> list[LayerBytes]:
    """The rows of an encoder's layers, each like the self-attention of a decoder's, which has as much again for the encoder's tokens."""
    first = next((x for x in layers if x.cross), None)
    if not split.encoder_rows or first is None:
        return []
    return [first._replace(k_token=first.k_token // 2, v_token=first.v_token // 2, charged=first.charged // 2)] * split.encoder_rows


def add_up(layers: Iterable[LayerBytes], *, windows: bool, at: int = 0) -> Cells:
    """The cells of a stage. `windows` false: the engine keeps window layers in the full pool like any other. `at`: bytes of a state
    slot that all layers share."""
    held = list(layers)
    kv = [x for x in held if x.kv_token or x.index_token]
    swa = [x for x in kv if x.window and windows]
    full = [x for x in kv if not (x.window and windows)]
    return Cells(
        full=sum(x.charged for x in full),
        swa=sum(x.charged for x in swa),
        full_held=sum(x.kv_token + x.index_token for x in full),
        swa_held=sum(x.kv_token for x in swa),
        indexer=sum(x.index_token for x in full),
        n_full=len(full),
        n_index=sum(1 for x in full if x.index_token),
        n_swa=len(swa),
        window=max((x.window for x in swa), default=0),
        full_k=sum(x.k_token for x in full),
        swa_k=sum(x.k_token for x in swa),
        conv_state=sum(x.conv_state for x in held),
        state=sum(x.state for x in held),
        latent=any(x.latent for x in kv),
        window_columns=max((x.columns for x in held), default=0),
        beside=sum(x.beside for x in held) + at,
    )


def together(stages: Sequence[Cells]) -> Cells:
    """The cells of all stages."""
    summed = {name: sum(getattr(cells, name) for cells in stages) for name in Cells._fields if name not in ("window", "window_columns")}
    return stages[0]._replace(**summed | {"latent": any(cells.latent for cells in stages)})


def with_workspace(cells: Cells, layers: Sequence[LayerBytes], rules: SglangRules, dtype: str, split: Split) -> Cells:
    """fp4: one layer's rows in fp8 are charged, for a workspace that all layers share (0.5.18 pool_configurator.py); nvfp4 alone has it
    (layers/quantization/fp4_kv_cache_quant_method.py create_buffers)."""
    if not rules.fp4_workspace or dtype != "nvfp4" or cells.latent or cells.n_swa:
        return cells
    widest = max((x.charged for x in layers if x.kv_token), default=0)
    packed = not split.one_pool and (rules.fp4_states or not split.states)
    made = max((x.kv_token for x in layers), default=0) if split.unpacked and packed else 0
    return cells._replace(full=cells.full + widest * 16 // 9, full_held=cells.full_held + made * 16 // 9)


def with_draft(cells: Cells, draft_layers: int, dcp: int, *, by_float: bool) -> Cells:
    """The full pool's bytes per token with a draft model of as many layers as one target layer each: EAGLE, MTP, standalone.

    Sparse models scale KV and indexer parts apart, the first by `dcp`. Under a window split the draft's layers are full ones of the
    target's size. by_float: others are int(cell * (1 + draft / layers)), as floats round (pool_configurator.py).
    """
    if not draft_layers or not (cells.n_full or cells.n_swa):
        return cells
    if not cells.n_full:
        extra = cells.swa * draft_layers // cells.n_swa
        return cells._replace(full=extra, full_held=extra)
    if by_float and not cells.indexer and not cells.n_swa:
        scaled = int(cells.full * (1 + draft_layers / cells.n_full))
        return cells._replace(full=scaled, full_held=cells.full_held + scaled - cells.full)
    kv = (cells.full - cells.indexer) * draft_layers // cells.n_full
    index = cells.indexer * draft_layers // max(cells.n_index, 1)
    extra = kv * (dcp if cells.indexer else 1) + index
    return cells._replace(full=cells.full + extra, full_held=cells.full_held + extra)
