"""The bytes that TensorRT-LLM gives to its cache on a device: (total - peak + temporary cache) x fraction, the peak measured by a dry run.

Source: tensorrt_llm/_torch/pyexecutor/_util.py, KvCacheCreator._cal_max_memory, configure_kv_cache_capacity. The peak is modelled:
activations of 18.5 hidden sizes per token of max_num_tokens fit the two public profiles that print them (0.14 GiB for Llama-3-8B with
1,024 tokens on an H200; 0.85 GiB for gpt-oss-120b with 8,192 tokens on a GB10); memory outside torch is 2.4 GiB on that H200 and about
1.1 GiB on a 12 GB card.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.shared import Refusal, Span, modelled, span
from kvplan.ledger import Entry, exact
from kvplan.units import show_bytes

_SOURCE = "public TensorRT-LLM logs, see kvplan/engines/tensorrt_llm/budget.py"
_HBM_GB_PER_S = 1500
_WIDTHS = 18.5


class Budget(NamedTuple):
    """`available` bytes for the cache of one rank, and what else the rank holds."""

    available: Span
    entries: tuple[Entry, ...]


def outside_torch(device: Device, ranks: int) -> Span:
    """Context, libraries, graphs, and communication buffers."""
    fast = (device.bandwidth_gb_per_s or 0) >= _HBM_GB_PER_S
    one = (2.4, 1.2, 3.2) if fast else (1.1, 0.7, 2.0)
    more = (0.0, 0.0, 0.0) if ranks == 1 else (1.2, 0.4, 2.6) if fast else (0.5, 0.2, 1.2)
    return span(one[0] + more[0], one[1] + more[1], one[2] + more[2])


def activations(d: Deployment) -> Span:
    """What torch allocates while the dry run reads max_num_tokens tokens."""
    width = d.model.hidden_size * 2 * (d.max_num_batched_tokens or 1)
    return Span(int(_WIDTHS * width), int(0.6 * _WIDTHS * width), int(2.2 * _WIDTHS * width))


def budget(d: Deployment, device: Device, ranks: int, weights: int, *, profiled: bool) -> Budget:
    """The budget of one rank. Raises Refusal where nothing is left."""
    fraction = d.memory_fraction or 0.0
    parts = {"outside torch": outside_torch(device, ranks), "weights loading overhead": span(0.1, 0.0, 0.4)}
    if profiled:
        parts["activations"] = activations(d)
    free = device.memory_bytes - (d.reserve or 0) - weights - sum(part.point for part in parts.values())
    above = math.hypot(*(part.point - part.low for part in parts.values()))
    below = math.hypot(*(part.high - part.point for part in parts.values()))
    found = Span(int(free * fraction), int((free - below) * fraction), int((free + above) * fraction))
    if found.point <= 0:
        peak, total = show_bytes(device.memory_bytes - free), show_bytes(device.memory_bytes)
        raise Refusal(f"no memory is left for the KV cache: peak memory {peak} of {total}", sure=found.high <= 0)
    entries = tuple(modelled(name, part, _SOURCE) for name, part in parts.items())
    return Budget(found, entries)


def measured(d: Deployment, device: Device, peak: int, temporary: int, weights: int) -> Budget:
    """The engine's own arithmetic from the peak that it logged: exact."""
    total = device.memory_bytes
    available = int((total - peak + temporary) * (d.memory_fraction or 0.0))
    if available <= 0:
        raise Refusal(f"no memory is left for the KV cache: peak memory {show_bytes(peak)} of {show_bytes(total)}")
    rest = exact("rest of the measured peak", max(peak - temporary - weights, 0), "the question")
    return Budget(Span(available, available, available), (rest,))
