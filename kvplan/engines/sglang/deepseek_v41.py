"""The pools of DeepSeek-V4.1: a window of every layer's rows, and rows with keys in four bits that four layers make for all the others.

Source: sglang 0.5.21, 0.5.22, 0.5.23 model_executor/pool_configurator.py, DSV4PoolConfigurator, compute_swa_request_cap;
mem_cache/deepseek_v4_memory_pool.py, select_dsv4_kv_layout, resolve_compressed_kv_layout, _num_dsv4_physical_kv_pages (a page beyond the
tokens), get_compress_state_ring_size; kernels/ops/attention/dsv4/kv_layout.py; arg_groups/deepseek_v4_hook.py
_default_dsv4_attention_backend; models/deepseek_v4_dspark.py (a stage keeps windows alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import row_bytes
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.grouped_keys import TABLES
from kvplan.engines.common.lines import Refusal
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release
from kvplan.engines.sglang.cells import Records
from kvplan.engines.sglang.deepseek_v4 import DEFAULT_RATIO, V4Sizes
from kvplan.engines.sglang.layout import SglangLayout
from kvplan.engines.sglang.pools import SglangPoolSettings, Tokens, request_cap
from kvplan.engines.sglang.rules import SglangRules
from kvplan.errors import UnsupportedError
from kvplan.tensors import PLAIN, Layer, WeightTensor
from kvplan.units import GIB, cdiv, round_up

#: The class as its config names it, as the engine does (configs/deepseek_v41.py normalize_deepseek_v41_config), and the first release;
#: public starts are of builds that their own release, up to two before it, does not tell apart.
CLASS, SERVED_AS, SINCE, BUILDS_SINCE = "DeepseekV41ForCausalLM", "DeepseekV4ForCausalLM", "0.5.21", "0.5.19"
PACKED, EIGHT, FOUR, UNIFORM, KEYS = "fp8_ds_v4", "mxfp8", "nvfp4", "fp8_e4m3", "mxfp4"
#: Bytes that a page of such rows is padded to (KVLayout.page_align).
_ALIGN = {PACKED: 576, EIGHT: 512, FOUR: 256, UNIFORM: 1}
#: Options of its and of DeepSeek-V4's rows, and what they take.
CHOICES = {
    "dsv4_attn_backend": ("auto", "flashmla", "flashmla_mega", "trtllm"),
    "dsv4_kv_layout": ("v4", "v41", "v41_new", "auto"),
    "dsv4_compressed_kv_layout": ("auto", "fp8", "fp4"),
}
_MEGA_SINCE, _PROBED_BEFORE = (0, 5, 23), (0, 5, 22)
_KEPT_TAILS = 4  # prefixes for each running request whose windows are kept for reuse


class V41Model(NamedTuple):
    """The layers: how many, their window and row width; how many make a row per 1 and per 2 tokens; a key's width; a draft's stages."""

    layers: int
    window: int
    dim: int
    sources: tuple[tuple[int, int], ...]
    index_dim: int
    stages: int
    records: Records


def backend(d: Deployment, shape: SglangLayout, version: str) -> str:
    """--dsv4-attn-backend; left open, MegaAttention of V4.1 where a rank of data-centre Blackwell has all heads of attention."""
    asked = Options(d).text("dsv4_attn_backend") or "auto"
    if asked != "auto" or release(version) < _MEGA_SINCE or (capability(d) or 0) // 10 != 10 or not _shares(d):
        return "flashmla" if asked == "auto" else asked
    serves = Options(d).text("disaggregation_mode") not in ("prefill", "decode")
    split = serves and shape.attn_tp > 1
    return "flashmla" if split or (Options(d).text("dsv4_kv_layout") == "v4") else "flashmla_mega"


def _shares(d: Deployment) -> bool:
    """Whether it is V4.1, all of whose layers read the same rows."""
    return any(getattr(m, "shared", False) for block in d.model.blocks.values() for m in block.mixers)


def layout(d: Deployment, shape: SglangLayout, version: str) -> str:
    """The layout of a window's rows: v4, v41, v41_new, or trtllm, plain 8 bits."""
    asked, by = Options(d).text("dsv4_kv_layout") or "v4", backend(d, shape, version)
    if by == "trtllm":
        return by
    if by == "flashmla_mega" and asked != "v41_new":
        return "v41"
    return ("v41" if (capability(d) or 0) // 10 == 10 else "v4") if asked == "auto" else asked


def records(d: Deployment, shape: SglangLayout, version: str) -> Records | None:
    """The records of a deployment of this model; None for any other. Raises UnsupportedError for those that are not modelled."""
    kinds = [m for block in d.model.blocks.values() for m in block.mixers if m.kind == "compressed"]
    if not kinds or d.model.architecture not in (SERVED_AS, None):
        return None
    said, page = layout(d, shape, version), 128 if (capability(d) or 0) // 10 == 10 else 64  # DSV41_INDEX_PAGE_SIZE
    if not _shares(d):
        if said != "v4":
            raise UnsupportedError(f"sglang: DeepSeek-V4's rows in the layout {said} are not modelled")
        return None
    if d.device is not None and d.device.vendor == "amd":
        raise UnsupportedError("sglang: DeepSeek-V4.1's rows on AMD GPUs are not modelled")
    if Options(d).text("dsv4_kv_layout") == "auto" and release(version) < _PROBED_BEFORE and page == 128:
        raise UnsupportedError(f"sglang {version} looks at its FlashMLA to pick a layout of rows, which is not known: say v4 or v41")
    if said == "trtllm":
        return Records(UNIFORM, UNIFORM, page)
    if said == "v4":
        return Records(PACKED, PACKED, page)
    return Records(EIGHT, EIGHT if Options(d).text("dsv4_compressed_kv_layout") == "fp8" else FOUR, page)


def is_shared(layers: Sequence[Layer]) -> bool:
    return any(cache.form == "compressed+shared" for layer in layers for cache in layer.caches)


def as_loaded(w: WeightTensor) -> WeightTensor:
    """A weight on the device: tables of n-grams are split by rows over all of tp, whatever attention's groups (layers/engram.py), and what
    joins the heads of a group is in 16 bits: its kernels for 8 take blocks of 128 alone (models/deepseek_v4.py wo_a_fp8_gemm_enabled)."""
    if w.name.startswith(TABLES):
        return w._replace(role="other", units=w.shape[0])
    return w._replace(own=PLAIN) if w.name == "o_a" else w


def read(layers: Sequence[Layer], found: Records, stages: int) -> V41Model:
    """The layers, from their tensors. Raises Refusal for a ratio that the engine has no pool for."""
    tensors = [t for layer in layers for cache in layer.caches for t in cache.tensors]
    rows = [t.tokens_per_state or 1 for t in tensors if t.name == "compressed"]
    if any(ratio not in (1, 2) for ratio in rows):
        raise Refusal(f"Unsupported compression ratio: {next(r for r in rows if r not in (1, 2))}")
    window = next(t for t in tensors if t.name == "window")
    sources = tuple((ratio, rows.count(ratio)) for ratio in (1, 2) if ratio in rows)
    index = max((t.elems_per_state for t in tensors if t.name == "index_k"), default=0)
    return V41Model(len(layers), window.keep.tokens, window.elems_per_state, sources, index, stages, found)


def size(rest: int, m: V41Model, k: SglangPoolSettings, rules: SglangRules, ratio: float | None) -> V4Sizes:
    """The pools that `rest` bytes hold. `ratio`: --swa-full-tokens-ratio; without one windows are for the requests asked for, and for the
    ends of prefixes. Where each request has a window of its own the pool of windows is a draft's, before 0.5.23. Raises Refusal."""
    apart, paged = k.replays, not k.replays or bool(k.draft_tokens and not rules.v41_padding)
    share = (m.layers + 1) / m.layers if k.draft_tokens and not apart else 1.0  # one stage of a draft is charged, whatever it has
    cap, swa_ratio = (None, ratio) if ratio is not None else (_cap(m, k, rules), DEFAULT_RATIO)
    if not paged:
        cap, swa_ratio = 0, 0
    per_window = (_charged(m.records.window, m, k.page) if not apart else row_bytes(PACKED, m.dim) if paged else 0) * m.layers
    rows = sum((_row(m, r, k, rules) + _key(m)) / r * n for r, n in m.sources)
    per_full, per_swa = ((swa_ratio * per_window if cap is None else 0) + rows) * share, per_window * share
    slots = (k.running_per_worker or 1) + k.received(0, rules) + 1
    fixed, held = _states(slots, m, k), (cap or 0) * per_swa + (_windows_charged(slots, m, k, rules) if apart else 0)
    left = max(rest - fixed - held, 0)
    full = int(left / per_full) // k.page * k.page
    while rules.v41_padding and full > 0 and full * per_full + _padding(full, m, k, rules) > left:
        full -= k.page
    if full <= 0 and cap is not None:
        raise Refusal(
            f"The DSV4 SWA pool cap ({cap} tokens, {held / GIB:.2f} GB) leaves no room for the full KV pool within the available "
            f"{rest / GIB:.2f} GB. Reduce --max-running-requests, or increase --mem-fraction-static"
        )
    if k.max_total_tokens is not None:
        full = min(full, k.max_total_tokens // k.page * k.page)
    swa = int(full * swa_ratio) // k.page * k.page if cap is None else cap
    if cap is None and m.window + k.page >= swa:
        raise Refusal(
            f"SWA pool ({swa} tokens) cannot hold even one request: the prefill admission floor is sliding_window_size ({m.window}) + "
            f"page_size ({k.page}). Increase --swa-full-tokens-ratio or the total KV budget"
        )
    if full <= 0:
        raise Refusal("Not enough memory. Please try to increase --mem-fraction-static.")
    page = _page(m.records.window, m, k.page)
    pages = swa // k.page + 1 if paged else slots * _own_window(m, k) // k.page + 1
    own, fixed = (0, fixed + _windows_held(slots, m, k)) if apart else (pages * page * m.layers, fixed)
    return V4Sizes(Tokens(full, full, swa), per_full, per_swa, _full_bytes(full, m, k), own, fixed, pages * page * m.stages)


def _own_window(m: V41Model, k: SglangPoolSettings) -> int:
    """Rows of a window that a request has of its own, whole pages."""
    return round_up(m.window + k.draft_tokens, k.page)


def _windows_charged(slots: int, m: V41Model, k: SglangPoolSettings, rules: SglangRules) -> int:
    """Bytes by which the budget is less for windows of requests: tagged rows, four workspaces, and from 0.5.23 on a draft's rings."""
    row = row_bytes(PACKED, m.dim)
    scratch = max(k.chunk, slots * max(128, k.draft_tokens)) + slots * 128 + k.page
    charged = (slots * _own_window(m, k) + k.page) * m.layers * (row + 16) + 4 * scratch * (row + 16) + slots * 3 * 16 * m.dim * 8
    return charged + ((slots * _own_window(m, k) + k.page) * m.stages * row if rules.v41_padding else 0)


def _windows_held(slots: int, m: V41Model, k: SglangPoolSettings) -> int:
    """Windows of requests with a tag of 8 bytes for each row, and one layer's workspace (mem_cache/dsv41_request_window.py)."""
    rows, page = slots * _own_window(m, k) + k.page, _page(m.records.window, m, k.page)
    space = (slots + 1) * m.window + max(k.chunk, (slots + 1) * (1 + k.draft_tokens))
    return (rows // k.page + 1) * page * m.layers + rows * m.layers * 8 + (cdiv(space, k.page) + 1) * page


def _cap(m: V41Model, k: SglangPoolSettings, rules: SglangRules) -> int | None:
    """Window tokens of the requests asked for and of prefixes' ends; None where they follow the full pool: prompts go in whole."""
    if k.max_running is None or (k.chunk <= 0 and not k.decodes):
        return None
    tails = k.swa_tails if k.swa_tails is not None else _KEPT_TAILS * (k.running_per_worker or 0) if k.radix else 0
    return round_up(request_cap(m.window, k, rules) + tails * (m.window + k.page), k.page)


def _page(dtype: str, m: V41Model, page: int) -> int:
    return round_up(page * row_bytes(dtype, m.dim), _ALIGN[dtype])


def _charged(dtype: str, m: V41Model, page: int) -> float:
    return _page(dtype, m, page) / page


def _row(m: V41Model, ratio: int, k: SglangPoolSettings, rules: SglangRules) -> float:
    """Bytes charged for a row that all read: DeepSeek-V4's before 0.5.23, whatever its layout."""
    if m.records.rows == UNIFORM or not rules.v41_padding:
        return row_bytes(UNIFORM if m.records.rows == UNIFORM else PACKED, m.dim)
    return _charged(m.records.rows, m, k.page // ratio)


def _key(m: V41Model) -> int:
    return row_bytes(KEYS, m.index_dim)


def _keys(full: int, ratio: int, m: V41Model, k: SglangPoolSettings) -> int:
    """Keys that an indexer's pages have room for."""
    return (cdiv((full + k.page) // ratio, m.records.index_page) + 1) * m.records.index_page


def _padding(full: int, m: V41Model, k: SglangPoolSettings, rules: SglangRules) -> float:
    """Bytes of reserved pages, of rows and of keys (_get_low_ratio_kv_padding_bytes)."""
    if m.records.rows == UNIFORM:
        return 0
    return sum((k.page * _row(m, r, k, rules) + (_keys(full, r, m, k) - full // r) * _key(m)) * n for r, n in m.sources)


def _full_bytes(full: int, m: V41Model, k: SglangPoolSettings) -> int:
    total = 0
    for ratio, n in m.sources:
        page = k.page // ratio
        total += cdiv(full // ratio + k.page, page) * _page(m.records.rows, m, page) * n + _keys(full, ratio, m, k) * _key(m) * n
    return total


def _states(slots: int, m: V41Model, k: SglangPoolSettings) -> int:
    """Rings of pairs that wait for their second token, values and scores in f32: of each request, and one more."""
    ring = 1 << (k.draft_tokens + 1).bit_length() if k.draft_tokens else 2
    return round_up(slots * ring + ring + 1, 2) * 2 * m.dim * 4 * dict(m.sources).get(2, 0)
