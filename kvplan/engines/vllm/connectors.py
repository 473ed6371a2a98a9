"""Which connector keeps the tiers that a question asks for, and what a release does to the pool for it."""

from __future__ import annotations

from kvplan.engines.common.options import Options
from kvplan.engines.vllm.rules import since

BACKENDS = ("native", "lmcache")
#: Sizes of the LMCache that --kv-transfer-config puts into the engine's own processes.
IN_PROCESS = ("lmcache_max_local_cpu_size", "lmcache_max_local_disk_size")
_LMCACHE = ("lmcache_chunk_size", *IN_PROCESS, "lmcache_l1_size_gb")
KVBM = ("dyn_kvbm_cpu_cache_gb", "dyn_kvbm_disk_cache_gb")


def uses_lmcache(options: Options) -> bool:
    """Whether LMCache keeps its tiers."""
    return options.text("kv_offloading_backend", BACKENDS) == "lmcache" or any(options.text(key) for key in _LMCACHE)


def without_hybrid(options: Options, release: str) -> bool:
    """Whether the tier's connector makes this release keep every token of window layers: it knows no more than one group.

    So do KVBM's, and LMCache's in the engine's processes, which --kv-transfer-config asks for. What kv_offloading_size asks for is looked
    at before that choice from 0.22 on, and from 0.24 on that is LMCache's connector to a server, which knows groups (config/vllm.py).
    """
    if any(options.text(key) for key in (*KVBM, *IN_PROCESS)):
        return True
    return uses_lmcache(options) and since(release, "0.22") and not since(release, "0.24")
