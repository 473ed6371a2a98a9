"""Which connector keeps the tiers that a question asks for, and what a release does to the pool for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import moved
from kvplan.engines.common.options import Options
from kvplan.engines.common.words import Finding, Given, refuse
from kvplan.engines.vllm.rules import VllmRules, since

BACKENDS = ("native", "lmcache")
#: Sizes of the LMCache that --kv-transfer-config puts into the engine's own processes.
IN_PROCESS = ("lmcache_max_local_cpu_size", "lmcache_max_local_disk_size")
_LMCACHE = ("lmcache_chunk_size", *IN_PROCESS, "lmcache_l1_size_gb")
KVBM = ("dyn_kvbm_cpu_cache_gb", "dyn_kvbm_disk_cache_gb")
#: Connectors of vLLM's own that know no more than one group (v1/kv_connector SupportsHMA), once a release looks (config/vllm.py): before,
#: with a --kv-transfer-config the hybrid manager is off. Asking for the manager counts from a release on; with events of the cache it is
#: off up to another.
ONE_GROUP, LOOKS_SINCE, ASKED_SINCE, EVENTS_BEFORE = (
    frozenset({"LMCacheConnectorV1", "P2pNcclConnector", "ExampleConnector", "FlexKVConnectorV1", "HF3FSKVConnector"}), (0, 22), (0, 13),
    (0, 20),
)  # fmt: skip
HYBRID = "option:disable_hybrid_kv_cache_manager"


def named(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The connector of a --kv-transfer-config, with those that a MultiConnector holds."""
    extra = config.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) and config.get("kv_connector") == "MultiConnector" else None
    return [config, *(one for one in (inner if isinstance(inner, list) else ()) if isinstance(one, dict))]


def hybrid_off(given: Mapping[str, Given], question: dict[str, Given], version: tuple[int, ...]) -> list[Finding]:
    """Turns the hybrid manager off where --kv-transfer-config or --kv-events-config does, and says where asking for it then stops."""
    asked, transfer, events = given.get(HYBRID), given.get("!kv_transfer"), given.get("@kv_events")
    events = events if events and version < EVENTS_BEFORE else None
    counts = asked is not None and version >= ASKED_SINCE
    if events and asked and asked.value is False and counts:
        said = "Hybrid KV cache manager was explicitly enabled but is not supported in this configuration"
        return [refuse(f"{asked.spelled} beside {events.spelled}: {said}; the engine stops", asked.place)]
    if (tier := given.get("option:kv_offloading_size")) and tier.value and version >= (0, 11, 1):
        transfer = None  # whose connector takes its place (config/vllm.py _post_init_kv_transfer_config)
    one = events or (transfer if transfer and _knows_one_group(transfer.value, version) else None)
    if one and asked and asked.value is False and version >= LOOKS_SINCE:
        said = "Connector does not support HMA but HMA is enabled. Please set `--disable-hybrid-kv-cache-manager`."
        return [refuse(f"{asked.spelled} beside {one.spelled}: {said}; the engine stops", asked.place)]
    if one and not counts:
        question[f"engine_{HYBRID.replace(':', '.')}"] = moved(one, True)
    return []


def _knows_one_group(config: Any, version: tuple[int, ...]) -> bool:
    if not isinstance(config, dict):
        return False
    names = [str(one.get("kv_connector") or "") for one in named(config)]
    return version < LOOKS_SINCE or any(name in ONE_GROUP for name in (names[1:] or names))


#: Methods that draft from the model's hidden states (config/speculative.py use_eagle).
READS_HIDDEN = ("eagle", "eagle3", "mtp", "dflash", "dspark")


def chunks_alone(chunked: bool, method: str, rules: VllmRules) -> bool:
    """Whether layers that see a chunk turn the hybrid manager off: in some releases, and beside such drafts (config/vllm.py)."""
    return chunked and (not rules.chunked_hybrid or method in READS_HIDDEN)


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
