"""The pools of DeepSeek-V4's compressed attention: window rows, compressed rows of two ratios, their indexer keys and compressor states.

Source: sglang 0.5.12, 0.5.18, 0.5.23 model_executor/pool_configurator.py, DSV4PoolConfigurator; mem_cache/deepseek_v4_memory_pool.py,
get_compress_state_ring_size (a page of 584-byte rows is padded to a multiple of 576 bytes), mem_cache/deepseek_v4_compress_state.py
(states are f32; a ring and one row more, in multiples of the ratio). The window pool is a tenth of the full one unless asked
(model_overrides/deepseek_v4.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.common.lines import Refusal
from kvplan.engines.sglang.pools import SglangPoolSettings, Tokens
from kvplan.engines.sglang.rules import SglangRules
from kvplan.tensors import CacheTensor, Layer
from kvplan.units import round_up

DEFAULT_RATIO = 0.1
_STATE_BYTES = 4
_PAGE_ALIGN = 576
_SMALL, _LARGE = 4, 128  # the two compression ratios


class V4Model(NamedTuple):
    """The stage's layers: how many, their window and row width, how many compress by 4 and by 128, the indexer's key width.

    drafts  layers of the checkpoint's draft, which 0.5.12 charges with the model's (compress_ratios has a row for each)
    """

    layers: int
    drafts: int
    window: int
    dim: int
    small: int
    large: int
    index_dim: int


class V4Sizes(NamedTuple):
    """The pools: tokens, bytes that a token adds, what they take. `fixed`: does not grow with tokens; `drafted`: a draft's share."""

    tokens: Tokens
    per_full_token: float
    per_swa_token: float
    full_bytes: int
    swa_bytes: int
    fixed: int
    drafted: int


def is_compressed(layers: Sequence[Layer]) -> bool:
    """Whether these are DeepSeek-V4's layers, or V4.1's, with compressed rows in some."""
    return any(cache.form.startswith("compressed") for layer in layers for cache in layer.caches)


def read(layers: Sequence[Layer], drafts: int) -> V4Model:
    """The stage's layers, from their tensors. Raises Refusal for a compression ratio that the engine has no pool for."""
    tensors: list[CacheTensor] = [t for layer in layers for cache in layer.caches for t in cache.tensors]
    windows = [t for t in tensors if t.name == "window"]
    ratios = [t.tokens_per_state for t in tensors if t.name == "compressed"]
    if any(ratio not in (_SMALL, _LARGE) for ratio in ratios):
        raise Refusal(f"Unsupported compression ratio: {next(r for r in ratios if r not in (_SMALL, _LARGE))}")
    return V4Model(
        layers=len(layers),
        drafts=drafts,
        window=max((t.keep.tokens for t in windows), default=0),
        dim=max((t.elems_per_state for t in windows), default=0),
        small=ratios.count(_SMALL),
        large=ratios.count(_LARGE),
        index_dim=max((t.elems_per_state for t in tensors if t.name == "index_k"), default=0),
    )


def together(stages: Sequence[V4Model]) -> V4Model:
    """The layers of all stages."""
    counts = {name: sum(getattr(m, name) for m in stages) for name in ("layers", "small", "large")}
    return stages[0]._replace(**counts)


def size(rest: int, m: V4Model, k: SglangPoolSettings, rules: SglangRules, ratio: float | None, charged: V4Model) -> V4Sizes:
    """The pools that `rest` bytes hold. `ratio`: --swa-full-tokens-ratio; `charged`: layers that `rest` is divided by. Raises Refusal."""
    swa_ratio = DEFAULT_RATIO if ratio is None else ratio
    layers = charged.layers + (0 if rules.v4_staged else charged.drafts)
    drafted = (layers + 1) / layers if k.draft_tokens else 1.0
    per_swa, per_full = _per_window_token(charged, k, rules) * drafted, _per_token(charged, k, rules) * drafted
    fixed = _request_states(m, k, rules)
    full = int(max(rest - fixed, 0) / (swa_ratio * per_swa + per_full)) // k.page * k.page
    if k.max_total_tokens is not None:
        full = min(full, k.max_total_tokens // k.page * k.page)
    swa = int(full * swa_ratio) // k.page * k.page
    if rules.window_checked == "all" and m.window + k.page >= swa:
        raise Refusal(
            f"SWA pool ({swa} tokens) cannot hold even one request: the prefill admission floor is sliding_window_size ({m.window}) + "
            f"page_size ({k.page}). Increase --swa-full-tokens-ratio or the total KV budget"
        )
    if full <= 0:
        raise Refusal("Not enough memory. Please try to increase --mem-fraction-static.")
    full_bytes, swa_bytes = _compressed_bytes(full, m, k, rules), _window_bytes(swa, m, k, rules)
    beside = int((full_bytes + swa_bytes) * (drafted - 1))
    return V4Sizes(Tokens(full, full, swa), per_full, per_swa, full_bytes, swa_bytes, fixed, beside)


def _row(m: V4Model, page: int, rules: SglangRules) -> float:
    """Bytes charged for one row in a page of `page` rows."""
    return _page(m, page) / page if rules.v4_states == "pages" else row_bytes("fp8_ds_v4", m.dim)


def _page(m: V4Model, page: int) -> int:
    return round_up(page * row_bytes("fp8_ds_v4", m.dim), _PAGE_ALIGN)


def _ring(ratio: int, k: SglangPoolSettings) -> int:
    """Rows of compressor state that one request's window keeps."""
    return (16 if k.draft_tokens else 8) if ratio == _SMALL else (256 if k.draft_tokens else 128)


def _small_state(m: V4Model) -> int:
    """Bytes of a row of the small ratio's states, its indexer's included: two overlapping parts of values and scores."""
    return 2 * 2 * (m.dim + m.index_dim) * _STATE_BYTES * m.small


def _large_state(m: V4Model) -> int:
    return 2 * m.dim * _STATE_BYTES * m.large


def _state_span(m: V4Model, k: SglangPoolSettings, rules: SglangRules) -> int:
    """Window tokens that share one ring of states."""
    return k.page if rules.v4_states == "pages" else m.window


def _per_window_token(m: V4Model, k: SglangPoolSettings, rules: SglangRules) -> float:
    states = _ring(_SMALL, k) * _small_state(m) + (_ring(_LARGE, k) * _large_state(m) if rules.v4_states == "windows" else 0)
    layers = m.layers + (0 if rules.v4_staged else m.drafts)
    return _row(m, k.page, rules) * layers + states / _state_span(m, k, rules)


def _index_row(m: V4Model) -> int:
    return m.index_dim + m.index_dim // 128 * 4


def _per_token(m: V4Model, k: SglangPoolSettings, rules: SglangRules) -> float:
    small = (_row(m, k.page // _SMALL, rules) / k.index_copies + _index_row(m)) / _SMALL
    return small * m.small + _row(m, k.page // _LARGE, rules) / _LARGE * m.large


def _compressed_bytes(full: int, m: V4Model, k: SglangPoolSettings, rules: SglangRules) -> int:
    """What the compressed rows and the indexer's keys take: their pages, and spare ones; rows in host memory have keys alone."""
    total = 0
    for ratio, layers in ((_SMALL, m.small), (_LARGE, m.large)):
        page = k.page // ratio
        spare = k.page + page - 1 if rules.v4_states == "pages" else page + 1
        rows = full // (ratio * k.index_copies) if ratio == _SMALL else full // ratio
        total += (rows + spare) // page * _page(m, page) * layers
        keys = full // ratio + (spare if rules.v4_index else page + 1)
        total += keys // page * page * _index_row(m) * layers if ratio == _SMALL else 0
    return total


def _window_bytes(swa: int, m: V4Model, k: SglangPoolSettings, rules: SglangRules) -> int:
    rings = swa // _state_span(m, k, rules)
    total = (swa // k.page + 1) * _page(m, k.page) * m.layers + _state_rows(rings, _SMALL, k) * _small_state(m)
    return total + (_state_rows(rings, _LARGE, k) * _large_state(m) if rules.v4_states == "windows" else 0)


def _state_rows(rings: int, ratio: int, k: SglangPoolSettings) -> int:
    return round_up((rings + 1) * _ring(ratio, k) + 1, ratio)


def _request_states(m: V4Model, k: SglangPoolSettings, rules: SglangRules) -> int:
    """The large ratio's states, a ring for each request and one more."""
    if not m.large or rules.v4_states == "windows":
        return 0
    return _state_rows((k.running_per_worker or 1) + k.received(0, rules) + 1, _LARGE, k) * _large_state(m)
