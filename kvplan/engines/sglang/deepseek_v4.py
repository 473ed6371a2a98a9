"""The pools of DeepSeek-V4's compressed attention: window rows, compressed rows of two ratios, their indexer keys and compressor states.

Source: sglang 0.5.23 model_executor/pool_configurator.py, DSV4PoolConfigurator; mem_cache/deepseek_v4_memory_pool.py,
get_dsv4_indexer_bytes_per_token, get_compress_state_ring_size; kernels/ops/attention/dsv4/kv_layout.py (V4: a page of 584-byte rows
is padded to a multiple of 576 bytes). Compressor states are f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.common.lines import Refusal
from kvplan.engines.sglang.pools import SglangPoolSettings, Tokens, request_cap
from kvplan.tensors import CacheTensor, Layer
from kvplan.units import GIB, cdiv, round_up

DEFAULT_RATIO = 0.1
_STATE_BYTES = 4
_PAGE_ALIGN = 576
_SMALL, _LARGE = 4, 128  # the two compression ratios


class Model(NamedTuple):
    """The stage's layers: how many, their window and row width, how many compress by 4 and by 128, the indexer's key width."""

    layers: int
    window: int
    dim: int
    small: int
    large: int
    index_dim: int


class Sizes(NamedTuple):
    """The pools: tokens, and the bytes of everything. `fixed` bytes do not grow with tokens."""

    tokens: Tokens
    per_full_token: float
    per_swa_token: float
    fixed: int


def is_compressed(layers: Sequence[Layer]) -> bool:
    """Whether these are DeepSeek-V4's layers, with compressed rows in some."""
    return any(cache.form == "compressed" for layer in layers for cache in layer.caches)


def read(layers: Sequence[Layer]) -> Model:
    """The stage's layers, from their tensors. Raises Refusal for a compression ratio that the engine has no pool for."""
    tensors: list[CacheTensor] = [t for layer in layers for cache in layer.caches for t in cache.tensors]
    windows = [t for t in tensors if t.name == "window"]
    ratios = [t.tokens_per_state for t in tensors if t.name == "compressed"]
    if any(ratio not in (_SMALL, _LARGE) for ratio in ratios):
        raise Refusal(f"Unsupported compression ratio: {next(r for r in ratios if r not in (_SMALL, _LARGE))}")
    return Model(
        layers=len(layers),
        window=max((t.keep.tokens for t in windows), default=0),
        dim=max((t.elems_per_state for t in windows), default=0),
        small=ratios.count(_SMALL),
        large=ratios.count(_LARGE),
        index_dim=max((t.elems_per_state for t in tensors if t.name == "index_k"), default=0),
    )


def size(rest: int, m: Model, k: SglangPoolSettings, ratio: float | None) -> Sizes:
    """The pools that `rest` bytes hold. `ratio`: the operator's --swa-full-tokens-ratio. Raises Refusal.

    Without one, and with max_running_requests given, the window pool is sized from the requests and four cached prefixes each;
    else a tenth of the full tokens.
    """
    per_swa, compressed = _per_window_token(m, k), _per_token(m, k)
    cap = _cap(m, k) if ratio is None and k.max_running is not None and k.chunk > 0 else None
    swa_ratio = 0.0 if cap is not None else DEFAULT_RATIO if ratio is None else ratio
    inflation = (m.layers + 1) / m.layers if k.draft_tokens else 1.0
    per_full = (swa_ratio * per_swa + compressed) * inflation
    per_swa *= inflation
    requests = _requests(rest, per_full, k)
    fixed = _large_states(m, requests, k) + (0 if cap is None else cap * per_swa)
    full = int(max(rest - fixed, 0) / per_full) // k.page * k.page
    if full <= 0 and cap is not None:
        raise Refusal(
            f"The DSV4 SWA pool cap ({cap} tokens) leaves no room for the full KV pool within the available {rest / GIB:.2f} GB. "
            "Reduce --max-running-requests or increase --mem-fraction-static"
        )
    if k.max_total_tokens is not None:
        full = min(full, k.max_total_tokens // k.page * k.page)
    swa = int(full * swa_ratio) // k.page * k.page if cap is None else cap
    if cap is None and m.window + k.page >= swa:
        raise Refusal(
            f"SWA pool ({swa} tokens) cannot hold even one request: the prefill admission floor is sliding_window_size ({m.window}) + "
            f"page_size ({k.page}). Increase --swa-full-tokens-ratio or the total KV budget"
        )
    return Sizes(Tokens(full, full, swa), compressed * inflation, per_swa, int(_large_states(m, requests, k)))


def _row(m: Model, page: int) -> float:
    """Bytes of one row in a page of `page` rows."""
    return round_up(page * row_bytes("fp8_ds_v4", m.dim), _PAGE_ALIGN) / page


def _per_window_token(m: Model, k: SglangPoolSettings) -> float:
    ring = 16 if k.draft_tokens else 8
    state = 2 * 2 * (m.dim + m.index_dim) * _STATE_BYTES
    return _row(m, k.page) * m.layers + ring / k.page * state * m.small


def _per_token(m: Model, k: SglangPoolSettings) -> float:
    index = m.index_dim + m.index_dim // 128 * 4
    small = 1 / _SMALL * _row(m, k.page // _SMALL) + 1 / _SMALL * index
    return small * m.small + 1 / _LARGE * _row(m, k.page // _LARGE) * m.large


def _cap(m: Model, k: SglangPoolSettings) -> int:
    prefixes = 4 * (k.running_per_worker or 0) if k.radix else 0
    return round_up(request_cap(m.window, k) + prefixes * (m.window + k.page), k.page)


def _requests(rest: int, per_full: float, k: SglangPoolSettings) -> int:
    if k.running_per_worker is not None:
        return k.running_per_worker
    full = int(rest / per_full)
    return min(max(min(int(full / k.context_len * 512), 4096), 2048), full // 2)


def _large_states(m: Model, requests: int, k: SglangPoolSettings) -> int:
    if not m.large:
        return 0
    ring = 256 if k.draft_tokens else 128
    rows = cdiv((requests + 1) * ring + ring + 1, _LARGE) * _LARGE
    return rows * 2 * m.dim * _STATE_BYTES * m.large
