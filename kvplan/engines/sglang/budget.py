"""The bytes that SGLang gives to its pools on a device: what is free after the weights, less the slack for activations and graphs.

Source: sglang 0.5.23 mem_cache/kv_cache_configurator.py, _profile_available_bytes, mm_runtime_reservation_gb. There is no profiling
forward. The constants are read off public logs: one GPU shows 0.35 to 0.65 GiB gone before anything is loaded (H100, H20, RTX PRO
6000), `Init torch distributed ends. mem usage` is 0.26 GB on 2 RTX 4090 (sgl-project/sglang#16920), 0.39 GB on 4 RTX PRO 6000
(#40558) and 1.77 to 2.01 GB on 8 H200 (#11716).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.sglang.versions import Rules
from kvplan.engines.shared import Refusal, Span, modelled, span
from kvplan.ledger import Entry
from kvplan.units import MIB

_SOURCE = "public SGLang logs, see kvplan/engines/sglang/budget.py"
_NVLINK_CLASS_GB_PER_S = 1500  # GPUs faster than this are sold with NVLink, whose buffers NCCL and custom all-reduce set up


class Budget(NamedTuple):
    """`rest`: bytes for all pools of a rank; `free`: bytes free before the weights, of which `slack` stays for activations and graphs."""

    rest: Span
    free: int
    slack: int
    entries: tuple[Entry, ...]


def context(device: Device) -> Span:
    """The CUDA context and libraries of one process."""
    return span(0.5, 0.35, 0.65)


def distributed(device: Device, ranks: int) -> Span:
    """Communication buffers of one rank."""
    if ranks == 1:
        return Span(0, 0, 0)
    if (device.bandwidth_gb_per_s or 0) < _NVLINK_CLASS_GB_PER_S:
        return span(0.33, 0.2, 0.6)
    return span(1.9, 1.4, 2.1) if ranks >= 8 else span(1.3, 0.6, 2.0)


#: What loading leaves beside the weights themselves.
LOADING = span(0.12, 0.0, 0.4)


def budget(d: Deployment, device: Device, rules: Rules, ranks: int, weights: int, fraction: float) -> Budget:
    """The budget of the fullest rank under this mem_fraction_static. Raises Refusal where nothing is left."""
    parts = {"CUDA context": context(device), "distributed init": distributed(device, ranks)}
    overhead = LOADING
    multimodal = rules.mm_reserve_mib * MIB if d.model.towers and d.multimodal != "off" else 0
    free = device.memory_bytes - (d.reserve or 0) - sum(part.point for part in parts.values())
    after = free - weights - overhead.point
    slack = int(free * (1 - fraction))
    rest = after - slack - multimodal
    above = math.hypot(*(fraction * (part.point - part.low) for part in parts.values()), overhead.point - overhead.low)
    below = math.hypot(*(fraction * (part.high - part.point) for part in parts.values()), overhead.high - overhead.point)
    found = Span(rest, rest - int(below), rest + int(above))
    if rest <= 0:
        raise Refusal(_refusal(fraction, after, free), sure=found.high <= 0)
    entries = [modelled(name, part, _SOURCE) for name, part in parts.items() if part.point]
    entries.append(modelled("weight loading overhead", overhead, _SOURCE))
    if multimodal:
        entries.append(modelled("multimodal caches", Span(multimodal, 0, multimodal), "SGLANG_VLM_CACHE_SIZE_MB, default 100"))
    return Budget(found, free, slack, tuple(entries))


def _refusal(fraction: float, after: int, free: int) -> str:
    least = 1 - after / free if free > 0 else 1.0
    return (
        f"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={fraction:g}. Raise --mem-fraction-static "
        f"above {math.ceil(least * 1000) / 1000:.3f} (minimum viable = 1 - available/pre = {least:.4f})"
    )
