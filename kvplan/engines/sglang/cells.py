"""Bytes per token on one rank: what each lowered layer adds to the full pool, the window pool, the state pool.

Source: sglang 0.5.23 model_executor/pool_configurator.py, DefaultPoolConfigurator._compute_cell_size, HybridSWAPoolConfigurator;
mem_cache/kv_cache_configurator.py, calculate_mla_kv_cache_dim; configs/mamba_utils.py, mamba_cache_per_req.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.parallel import heads_per_rank
from kvplan.tensors import CacheTensor, Layer
from kvplan.units import cdiv


class Split(NamedTuple):
    """How the heads of one rank are found: attention tensor parallel size, decode context parallel size; raw_mla: no packed DSA rows."""

    attn_tp: int = 1
    dcp: int = 1
    raw_mla: bool = False


class LayerBytes(NamedTuple):
    """What one layer adds on one rank: bytes per token and per state. `window` 0: it keeps all tokens (or no KV at all).

    k_token and v_token are the parts that the engine logs as K and V; a latent is all in k_token. index_token: indexer keys.
    """

    k_token: int = 0
    v_token: int = 0
    index_token: int = 0
    window: int = 0
    latent: bool = False
    conv_state: int = 0
    state: int = 0
    cross: bool = False

    @property
    def kv_token(self) -> int:
        return self.k_token + self.v_token


class Cells(NamedTuple):
    """The layers of one stage, summed: bytes per token of full and window layers (indexer keys are in `full`), bytes per state slot."""

    full: int
    swa: int
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

    @property
    def slot(self) -> int:
        """Bytes of one request's recurrent states."""
        return self.conv_state + self.state


def layer_bytes(layer: Layer, split: Split) -> LayerBytes:
    """One lowered layer on one rank. Heads are divided by floor and never fewer than one; a latent is on every rank."""
    k = v = index = window = conv = state = 0
    latent = cross = False
    for form, t in ((cache.form, t) for cache in layer.caches for t in cache.tensors):
        if t.tokens_per_state is None:
            n_bytes = heads_per_rank(t.heads, split.attn_tp) * row_bytes(t.dtype, t.elems_per_state)
            conv, state = (conv + n_bytes, state) if t.columns else (conv, state + n_bytes)
            continue
        if t.name == "index_k":
            index += cdiv(t.bytes_per_state, t.tokens_per_state) * split.dcp
        elif t.name == "latent":
            k, latent = k + _latent_bytes(t, form != "latent", split), True
        elif t.name == "v":
            v += _head_bytes(t, split)
        elif t.name == "k":
            k += _head_bytes(t, split)
        window = max(window, t.keep.tokens) if t.keep.kind in ("window", "chunk") else window
        cross = cross or t.keep.kind == "source"
    return LayerBytes(k, v, index, window, latent, conv, state, cross)


def _head_bytes(t: CacheTensor, split: Split) -> int:
    return heads_per_rank(t.heads, split.attn_tp // split.dcp, "floor") * row_bytes(t.dtype, t.elems_per_state)


def _latent_bytes(t: CacheTensor, sparse: bool, split: Split) -> int:
    """A row of the latent: under sparse attention an fp8 row carries scales and a 16-bit rotary part, unless the kernels read it raw."""
    if sparse and t.dtype == "fp8_e4m3" and not split.raw_mla and t.elems_per_state == 576:
        return row_bytes("fp8_ds_mla", t.elems_per_state)
    return t.bytes_per_state


def add_up(layers: Iterable[LayerBytes], *, windows: bool) -> Cells:
    """The cells of a stage. `windows` false: the engine keeps window layers in the full pool like any other."""
    held = list(layers)
    kv = [x for x in held if x.kv_token or x.index_token]
    swa = [x for x in kv if x.window and windows]
    full = [x for x in kv if not (x.window and windows)]
    return Cells(
        full=sum(x.kv_token + x.index_token for x in full),
        swa=sum(x.kv_token for x in swa),
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
    )


def with_draft(cells: Cells, draft_layers: int, dcp: int) -> Cells:
    """The full pool's bytes per token with a draft model of as many layers as one target layer each: EAGLE, MTP, standalone.

    Sparse models scale KV and indexer parts apart. Under a window split the draft's layers are full ones of the target's size.
    """
    if not draft_layers or not (cells.n_full or cells.n_swa):
        return cells
    if not cells.n_full:
        return cells._replace(full=cells.swa * draft_layers // cells.n_swa)
    kv = (cells.full - cells.indexer) * draft_layers // cells.n_full
    index = cells.indexer * draft_layers // max(cells.n_index, 1)
    return cells._replace(full=cells.full + kv * (dcp if cells.indexer else 1) + index)
