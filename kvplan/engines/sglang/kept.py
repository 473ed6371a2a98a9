"""What of a layer's cache SGLang's pools hold, and how its rows are packed: mem_cache/memory_pool.py, 0.4.6 to 0.5.23."""

from __future__ import annotations

from dataclasses import replace

from kvplan.engines.common.grouped_keys import grouped
from kvplan.engines.sglang.cells import Split
from kvplan.engines.sglang.deepseek_v41 import KEYS
from kvplan.tensors import Cache, CacheTensor


def as_kept(cache: Cache, split: Split) -> Cache:
    """Mean keys of blocks are not kept; layers that read another's cache, and an encoder's, are given rows all the same.

    fp8 rows beside an indexer are packed, unless the kernels read them raw; DeepSeek-V4's always.
    """
    formats = {"window": "fp8_ds_v4", "compressed": "fp8_ds_v4", "index_k": "fp8_scale128"} if cache.form == "compressed" else {}
    if cache.form == "compressed+shared" and split.records:
        formats = {"window": split.records.window, "compressed": split.records.rows, "index_k": KEYS}
    if split.sparse and not split.raw_mla:
        formats["latent"] = "fp8_ds_mla"
    kept = (  # latents know no scales of MXFP8 (mem_cache/memory_pool.py MLATokenToKVPool)
        replace(t, dtype="fp8_e4m3") if t.name == "latent" and t.dtype == "mxfp8" else t for t in cache.tensors if t.name != "k_blocks"
    )
    if split.keys:
        kept = (replace(t, dtype=split.keys) if t.name == "index_k" else t for t in kept)
    rows = [replace(t, dtype=_packed(t, formats[t.name])) if t.name in formats and _packs(t) else t for t in kept]
    return grouped(replace(cache, tensors=(*rows, *cache.reads)), split.group)  # pools are sized for every layer


def _packs(t: CacheTensor) -> bool:
    """Whether this row is of a width that has a packed layout."""
    return t.elems_per_state in (512, 576) and t.dtype == "fp8_e4m3" if t.name == "latent" else t.elems_per_state in (128, 512)


def _packed(t: CacheTensor, dtype: str) -> str:
    """The packed format of a row; a latent without a rotary part (GLM-5.3-Flash) has scales alone (calculate_mla_kv_cache_dim)."""
    return "fp8_scale128" if t.name == "latent" and t.elems_per_state == 512 else dtype
