"""Which connector keeps the tiers that a question asks for, and what a release does to the pool for it."""

from __future__ import annotations

from typing import Any

from kvplan.engines.common.options import Options
from kvplan.engines.vllm.rules import since

BACKENDS = ("native", "lmcache")
#: Sizes of the LMCache that --kv-transfer-config puts into the engine's own processes.
IN_PROCESS = ("lmcache_max_local_cpu_size", "lmcache_max_local_disk_size")
_LMCACHE = ("lmcache_chunk_size", *IN_PROCESS, "lmcache_l1_size_gb")
KVBM = ("dyn_kvbm_cpu_cache_gb", "dyn_kvbm_disk_cache_gb")
#: Connectors of vLLM's own that know no more than one group (v1/kv_connector SupportsHMA), once a release looks (config/vllm.py): before,
#: with a --kv-transfer-config the hybrid manager is off, whatever is asked up to 0.11.
ONE_GROUP, LOOKS_SINCE, ASKED_SINCE = (
    frozenset({"LMCacheConnectorV1", "P2pNcclConnector", "ExampleConnector", "FlexKVConnectorV1", "HF3FSKVConnector"}), (0, 22), (0, 12),
)  # fmt: skip


def turns_hybrid_off(config: Any, asked: bool | None, version: tuple[int, ...]) -> bool:
    """Whether a --kv-transfer-config does. `asked`: --disable-hybrid-kv-cache-manager as given; None where it is not."""
    if not isinstance(config, dict) or not config.get("kv_connector") or (asked is not None and version >= ASKED_SINCE):
        return False
    if version < LOOKS_SINCE:
        return True
    extra = config.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) and config["kv_connector"] == "MultiConnector" else None
    named = [one.get("kv_connector") for one in inner if isinstance(one, dict)] if isinstance(inner, list) else [config["kv_connector"]]
    return any(name in ONE_GROUP for name in named)


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
