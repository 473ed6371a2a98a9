"""What llama.cpp would print, in its wording (b11312)."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.engines.llama_cpp.caches import Store
from kvplan.engines.llama_cpp.context import Context
from kvplan.units import MIB


def lines(ctx: Context, stores: Iterable[Store], *, vocab: int, layers: tuple[int, int] | None) -> tuple[str, ...]:
    """The size lines of a start: context, caches, states, output; `layers` offloaded of how many, where there is a device."""
    found = [
        f"llama_context: n_seq_max             = {ctx.n_seq_max}",
        f"llama_context: n_ctx                 = {ctx.n_ctx}",
        f"llama_context: n_ctx_seq             = {ctx.n_ctx_seq}",
        f"llama_context: n_batch               = {ctx.n_batch}",
        f"llama_context: n_ubatch              = {ctx.n_ubatch}",
        f"llama_context: kv_unified            = {'true' if ctx.unified else 'false'}",
        f"llama_context:        CPU  output buffer size = {_mib(vocab * ctx.n_seq_max * 4, 8)} MiB",
    ]
    if layers:
        found.insert(0, f"load_tensors: offloaded {layers[0]}/{layers[1]} layers to GPU")
    for store in (store for store in stores if not store.role.endswith("state")):
        size = f"size = {_mib(store.k_bytes + store.v_bytes)} MiB ({store.cells:6d} cells, {store.printed_layers:3d} layers,"
        k, v = f"{_mib(store.k_bytes)} MiB", f"{_mib(store.v_bytes)} MiB"
        if store.role.endswith("rs"):
            seqs = f"{ctx.n_seq_max:2d} seqs {ctx.n_rs_seq:2d} rs_seq)"
            found.append(f"llama_memory_recurrent: {size} {seqs}, R (f32): {k}, S (f32): {v}")
            continue
        if store.role.endswith("kv_base"):
            found.append(f"llama_kv_cache_iswa: creating non-SWA KV cache, size = {store.cells} cells")
        if store.role.endswith("kv_swa"):
            found.append(f"llama_kv_cache_iswa: creating     SWA KV cache, size = {store.cells} cells")
        seqs = f"{ctx.n_seq_max:2d}/{store.streams} seqs)"
        found.append(f"llama_kv_cache: {size} {seqs}, K ({store.type_k}): {k}, V ({store.type_v}): {v}")
    return tuple(found)


def warnings(ctx: Context, asked: int, *, trained: int | None, widest_v: int, has_window: bool) -> tuple[str, ...]:
    """The warnings of the same start."""
    found = []
    if not ctx.unified and ctx.n_ctx != -(-asked // ctx.pad) * ctx.pad:
        found.append(f"llama_context: n_ctx is not divisible by n_seq_max - rounding down to {ctx.n_ctx}")
    if trained and ctx.n_ctx_seq > trained:
        found.append(f"llama_context: n_ctx_seq ({ctx.n_ctx_seq}) > n_ctx_train ({trained}) -- possible training context overflow")
    if ctx.swa_full and has_window:
        pull = "https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055"
        found.append(f"llama_kv_cache_iswa: using full-size SWA cache (ref: {pull})")
    if not ctx.flash_attn and widest_v:
        found.append(
            f"llama_kv_cache: the V embeddings have different sizes across layers and FA is not enabled - padding V cache to {widest_v}"
        )
    return tuple(found)


def _mib(n_bytes: int, width: int = 7) -> str:
    return f"{n_bytes / MIB:{width}.2f}"
