"""From tensors to llama.cpp's caches: which layers share one, how many cells it has, and the bytes of K and V in each layer.

llama.cpp src/llama-model.cpp create_memory, llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, -dsa.cpp, -dsv4.cpp,
llama-memory-recurrent.cpp (b11312).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.common.settling import without
from kvplan.engines.llama_cpp.context import Context, cells
from kvplan.engines.llama_cpp.rules import LlamaRules
from kvplan.forms import Form
from kvplan.tensors import ALL, Cache, CacheTensor, Layer
from kvplan.units import F32, round_up

DSV4_PAD = 256
#: Recurrent layers whose GGUF says 0 KV heads; others repeat the model's one number.
NO_HEADS: frozenset[Form] = frozenset({"mamba1", "mamba2", "short-conv", "kda"})


class Store(NamedTuple):
    """One cache: `parts` are (layer, K bytes, V bytes) over all streams; `printed_layers` is the count that its log line shows."""

    role: str
    kind: str
    cells: int
    streams: int
    type_k: str
    type_v: str
    parts: tuple[tuple[int, int, int], ...]
    printed_layers: int

    @property
    def k_bytes(self) -> int:
        return sum(k for _, k, _ in self.parts)

    @property
    def v_bytes(self) -> int:
        return sum(v for _, _, v in self.parts)


class Rows(NamedTuple):
    """What one layer keeps, sorted by the cache it goes to: elements of a K row and a V row; 0: none. `window` 0: all tokens."""

    k: int = 0
    v: int = 0
    k_dim: int = 0
    v_dim: int = 0
    kind: str = ""
    latent: bool = False
    window: int = 0
    indexer: int = 0
    indexer_v: int = 0
    r: int = 0
    s: int = 0
    raw: int = 0  # DeepSeek-V4: the window's shared row
    ratio: int = 0
    indexer_ratio: int = 0
    no_heads: bool = False  # a GGUF says 0 KV heads for this layer


def as_kept(layer: Layer, cache: Cache, rules: LlamaRules, type_k: str, *, windows: bool, groups: bool = False) -> Cache:
    """The cache in the tensors that llama.cpp keeps.

    A window counts only where the build and the architecture use it. An encoder's K and V are computed again in every graph, an indexer's
    keys kept for every token, and older builds kept the first part of a latent again as V, the oldest K and V of every head.

    groups  tokens share an indexer's key (Qwen4-Exp): some builds keep that beside each token's own, and only older ones V of one head too,
            which others keep (MiniMax-M3, llama-kv-cache-msa.cpp)
    """
    if cache.form == "encoder-kv":
        return without(cache)
    kept = [one for t in cache.tensors for one in _as_kept(layer, t, cache, rules, type_k, windows)]
    if cache.form == "kv+index":
        keys = rules.index_keys if groups else 1
        kept = [replace(t, elems_per_state=t.elems_per_state * keys) if t.name == "index_k" else t for t in kept]
        kept += [replace(t, name="index_v", heads=1) for t in kept if t.name == "v" and (rules.index_v or not groups)]
    return replace(cache, tensors=tuple(kept))


def _as_kept(layer: Layer, t: CacheTensor, cache: Cache, rules: LlamaRules, type_k: str, windows: bool) -> list[CacheTensor]:
    if t.name in ("k", "v") and not (windows and rules.swa):
        return [replace(t, keep=ALL)]
    if t.name == "index_k":
        return [replace(t, dtype=type_k, tokens_per_state=t.tokens_per_state if cache.form == "compressed" else 1)]
    if t.name == "latent" and rules.mla != "k":
        named = {w.name: w for w in layer.weights}
        rank = named["kv_a_norm"].shape[0] if "kv_a_norm" in named else t.elems_per_state
        up, query = named.get("kv_b"), named.get("q_b") or named.get("q")
        if rules.mla == "k+v" or up is None or query is None:
            return [t, replace(t, name="v", elems_per_state=rank)]
        width = query.shape[0] // up.units  # of a key, the part that rotates included
        value = up.shape[0] // up.units - (width - (t.elems_per_state - rank))
        return [replace(t, name=name, heads=up.units, elems_per_state=n) for name, n in (("k", width), ("v", value))]
    return [t]


def rows(layer: Layer) -> Rows:
    """One layer's tensors as rows."""
    found: dict[str, int | str | bool] = {}
    for cache in layer.caches:
        if cache.form in NO_HEADS and len(layer.caches) == 1:
            found["no_heads"] = True
        for t in cache.tensors:
            width = t.heads * t.elems_per_state
            if t.tokens_per_state is None:
                found["s" if t.name == "state" else "r"] = int(found.get("s" if t.name == "state" else "r", 0)) + width
            elif t.name in ("k", "v"):
                found |= {t.name: width, f"{t.name}_dim": t.elems_per_state, "kind": cache.kind}
                found["window"] = t.keep.tokens if t.keep.kind in ("window", "chunk") else 0
            elif t.name == "latent":
                found |= {"k": width, "k_dim": width, "latent": True, "kind": cache.kind}
            elif t.name == "window":
                found |= {"raw": width, "window": t.keep.tokens, "kind": cache.kind}
            elif t.name == "compressed":
                found["ratio"] = t.tokens_per_state
            elif t.name == "index_k":
                found |= {"indexer": width, "indexer_ratio": t.tokens_per_state}
            elif t.name == "index_v":
                found["indexer_v"] = width
    return Rows(**found)  # type: ignore[arg-type]


def stores(layers: Iterable[Rows], ctx: Context) -> tuple[Store, ...]:
    """The caches of a context, in the order in which the engine creates them."""
    all_rows = list(layers)
    attention = [(i, row) for i, row in enumerate(all_rows) if row.k]
    found: list[Store] = []
    if any(row.raw for row in all_rows):
        found += _compressed(all_rows, ctx)
    elif attention:
        window = max(row.window for _, row in attention)
        # without flash attention V is stored transposed, every row as wide as the widest layer's
        widest = 0 if ctx.flash_attn else max(row.v for _, row in attention)
        if window:
            short = swa_cells(ctx, max(window, ctx.window_least))
            full = [(i, row) for i, row in attention if not row.window]
            windowed = [(i, row) for i, row in attention if row.window]
            found.append(_attention("kv_base", full, ctx, ctx.n_ctx_seq, widest))
            found.append(_attention("kv_swa", windowed, ctx, short, widest))
        else:
            found.append(_attention("kv", attention, ctx, ctx.n_ctx_seq, widest))
        index = [(i, Rows(k=row.indexer, v=row.indexer_v, kind="indexer")) for i, row in enumerate(all_rows) if row.indexer]
        if index:
            widest = 0 if ctx.flash_attn else max(row.v for _, row in index)
            found.append(_attention("index", index, ctx, ctx.n_ctx_seq, widest))
    recurrent = [(i, row) for i, row in enumerate(all_rows) if row.r or row.s]
    if recurrent:
        n = ctx.n_seq_max * (1 + ctx.n_rs_seq)
        parts = tuple((i, n * row.r * F32, n * row.s * F32) for i, row in recurrent)
        found.append(Store("rs", "recurrent", ctx.n_seq_max, ctx.n_seq_max, "f32", "f32", parts, len(all_rows)))
    return tuple(found)


def swa_cells(ctx: Context, window: int) -> int:
    """Cells of the window cache, per stream."""
    if ctx.swa_full:
        return ctx.n_ctx_seq
    held = window * (ctx.n_seq_max if ctx.streams == 1 else 1) + ctx.n_ubatch
    return round_up(min(ctx.n_ctx_seq, held), ctx.pad)


def _attention(role: str, layers: list[tuple[int, Rows]], ctx: Context, n_cells: int, widest: int) -> Store:
    n = n_cells * ctx.streams
    sizes = {
        (k, v): (n * row_bytes(ctx.type_k, k), n * row_bytes(ctx.type_v, widest or v) if v else 0)
        for k, v in {(row.k, row.v) for _, row in layers}
    }
    parts = tuple((i, *sizes[row.k, row.v]) for i, row in layers)
    kind = layers[0][1].kind if layers else "none"
    return Store(role, kind, n_cells, ctx.streams, ctx.type_k, ctx.type_v, parts, len(parts))


def _compressed(layers: list[Rows], ctx: Context) -> list[Store]:
    """DeepSeek-V4: a window of raw rows, rows per ratio, index rows, compressor states in f32. Streams are never unified."""
    split = ctx._replace(streams=ctx.n_seq_max, n_ctx_seq=ctx.n_ctx_seq)
    window = max(row.window for row in layers)
    raw = [(i, Rows(k=row.raw, kind=row.kind)) for i, row in enumerate(layers) if row.raw]
    found = [_attention("kv_swa", raw, split, swa_cells(split._replace(pad=DSV4_PAD), window), 0)]
    for ratio in sorted({row.ratio for row in layers if row.ratio}):
        held = [(i, Rows(k=row.raw, kind=row.kind)) for i, row in enumerate(layers) if row.ratio == ratio]
        n_cells = round_up(cells(ctx.n_ctx_seq, ratio), DSV4_PAD)
        found.append(_attention(f"kv_{ratio}", held, split, n_cells, 0))
    for ratio in sorted({row.indexer_ratio for row in layers if row.indexer}):
        held = [(i, Rows(k=row.indexer, kind="indexer")) for i, row in enumerate(layers) if row.indexer_ratio == ratio]
        found.append(_attention("index", held, split, round_up(cells(ctx.n_ctx_seq, ratio), DSV4_PAD), 0))
    planes = ctx.n_seq_max * (1 + ctx.n_rs_seq)
    states = []
    for i, row in enumerate(layers):
        if not row.ratio:
            continue
        overlap = 2 if row.indexer else 1  # the small ratio looks back one group: twice the rows, twice the width
        elems = overlap * row.ratio * overlap * (row.raw + row.indexer)
        states.append((i, planes * elems * F32, planes * elems * F32))
    found.append(Store("state", "compressor", ctx.n_seq_max, ctx.n_seq_max, "f32", "f32", tuple(states), len(states)))
    return found


def is_variable_v(layers: Iterable[Rows]) -> int:
    """The widest V row where layers differ, else 0: what llama.cpp pads to, and warns of, without flash attention."""
    widths = {row.v for row in layers if row.v or row.no_heads}
    return max(widths) if len(widths) > 1 else 0
