"""What one vLLM server holds in host memory, all its ranks together: no device's total counts it.

tiers of the cache  as tiers.py makes them
cpu_offload_gb      GiB of weights of each rank (config/cache.py, from 0.20 config/offload.py)
n-gram table        of Qwen4-Exp, from 0.30 on, once for all ranks of a replica
swap_space          GiB of each rank for preempted sequences, V0 alone (config/cache.py; 4 by default)
/dev/shm            rings of 10 messages between processes: one of 16 MiB messages to all workers (VLLM_MQ_MAX_CHUNK_BYTES_MB), and one
                    back from each, of 10 MiB messages, from 0.11 of 24 (shm_broadcast.py MessageQueue, multiproc_executor.py)
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.common.options import Options
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.common.tiers import Tier, of_each, tier_lines
from kvplan.engines.vllm.loaded import table_bytes
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.ledger import Entry, exact
from kvplan.units import GIB, MIB
from kvplan.weights import weight_name

#: Families of formats whose kernels pack their weights in an order of their own (Marlin and its like).
PACKED = ("awq", "gptq", "int")
MESSAGES, TO_WORKERS = 10, 16 * MIB


def offloaded_bytes(d: Deployment) -> int:
    """Weights of a rank that stay in host memory, at most."""
    return int((Options(d).number("cpu_offload_gb", zero=True) or 0) * GIB)


def host(d: Deployment, s: VllmSettings, weights: int, tiers: Sequence[Tier]) -> tuple[Entry, ...]:
    """Host lines of one replica. `weights`: of its fullest rank, in bytes, before any is offloaded."""
    ranks = s.tp * s.pp
    found = tier_lines(tiers)
    if moved := min(offloaded_bytes(d), weights):
        found.append(exact("weights offloaded", moved * ranks, f"cpu_offload_gb{of_each(ranks)}", "weights"))
    if table := table_bytes(d, s):
        found.append(exact("n-gram table", table, "pinned, read from there; config/engram.py cpu_offload", "weights"))
    if not s.rules.v1:
        found.append(exact("swap space", s.swap_bytes * ranks, f"swap_space{of_each(ranks)}", "cache"))
    elif ranks > 1:
        back = (24 if s.since("0.11") else 10) * MIB
        n_bytes = MESSAGES * (TO_WORKERS + 1 + ranks) + ranks * MESSAGES * (back + 2)
        found.append(exact("/dev/shm", n_bytes, f"message rings of {ranks} workers; shm_broadcast.py", "tables"))
    return tuple(found)


def less_offloaded(entries: list[Entry], d: Deployment, s: VllmSettings) -> list[Entry]:
    """The lines of a rank's weights without what is offloaded: parameters of the layers, in order, until the limit (offloader/uva.py).

    Kernels of packed integers make their parameters anew once they are loaded, on the device, and V1 moved none of those back to 0.16
    (model_loader/utils.py device_loading_context, read in 0.16.0 and 0.17.1): 15 GiB asked of an AWQ model in 0.11 left its 16.89 GiB on
    the card (jomcgi/homelab, commit 8d16859).
    """
    left, kept = offloaded_bytes(d), []
    stays = s.rules.v1 and not s.since("0.17")
    names = {weight_name(role) for role, stored in weight_formats(d).items() if stays and weight_scheme(stored) in PACKED}
    for entry in entries:
        if left and entry.kind == "weights" and not any(word in entry.name for word in ("embedding", "head", "drafter", "LoRA", "rotary")):
            moved = min(left, entry.low)
            left -= moved
            if entry.name in names:
                moved = 0
            entry = entry._replace(bytes=entry.bytes - moved, low=entry.low - moved, high=entry.high - moved)
        kept.append(entry)
    return [entry for entry in kept if entry.bytes]
