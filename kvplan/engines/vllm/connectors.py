"""Which connector keeps the tiers that a question asks for, and what a release does to the pool for it."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.vllm.rules import VERSIONS

BACKENDS = ("native", "lmcache")
_LMCACHE = ("lmcache_chunk_size", "lmcache_max_local_cpu_size", "lmcache_max_local_disk_size", "lmcache_l1_size_gb")
KVBM = ("dyn_kvbm_cpu_cache_gb", "dyn_kvbm_disk_cache_gb")


def uses_lmcache(options: Options) -> bool:
    """Whether LMCache keeps its tiers."""
    return options.text("kv_offloading_backend", BACKENDS) == "lmcache" or any(options.text(key) for key in _LMCACHE)


def without_hybrid(options: Options, release: str) -> bool:
    """Whether the tier's connector makes this release keep every token of window layers: it knows no more than one group.

    KVBM's is asked for by --kv-transfer-config. What kv_offloading_size asks for is looked at before that choice from 0.22 on, and from
    0.24 on LMCache's connector knows groups (config/vllm.py).
    """
    if any(options.text(key) for key in KVBM):
        return True
    return uses_lmcache(options) and VERSIONS.index("0.22") <= VERSIONS.index(release) < VERSIONS.index("0.24")
