"""The bytes that SGLang gives to its pools on a device: what is free after the weights, less the slack for activations and graphs.

Source: sglang 0.5.23 mem_cache/kv_cache_configurator.py, _profile_available_bytes, mm_runtime_reservation_gb. There is no profiling
forward, so three things decide: what is gone before the weights are loaded (context, communication buffers), what loading leaves
beside them, and the fraction. The first two are measured constants (calibration/sglang.yaml).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common.lines import Refusal, Span, modelled, sure_of
from kvplan.engines.common.measured import find_record, scaled, spread_of, surely_held, widened, with_record
from kvplan.engines.common.phases import UNSAID
from kvplan.engines.common.pooled import Budget
from kvplan.engines.sglang.facts import FACTS
from kvplan.engines.sglang.rules import VERSIONS, SglangRules
from kvplan.ledger import Entry
from kvplan.units import GIB, MIB

NAME = "sglang"
#: Qwen3-VL as served on large Hopper GPUs: their bytes, and the running requests asked for from which its pool is 3 GiB.
FEATURE_POOLS, LARGE, CROWD = ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"), 60 * GIB, 400
BEFORE = ("CUDA context", "distributed init")  # the lines that are taken before the fraction is


def multimodal_caches(d: Deployment, device: Device, rules: SglangRules) -> tuple[int, str]:
    """What is kept from the pool for a multimodal model's caches, in bytes, and its source.

    Embeddings of images; Qwen3-VL on Hopper GPUs of 60 GiB and more keeps none, and a pool for features beside them (since 0.5.20).
    """
    if not d.model.towers or d.multimodal == "off":
        return 0, ""
    if rules.feature_pool and d.model.architecture in FEATURE_POOLS and device.capability == 90 and device.memory_bytes >= LARGE:
        return (3 if (d.max_num_seqs or 0) >= CROWD else 1) * GIB, "SGLANG_MM_FEATURE_CACHE_MB, arg_groups/model_overrides/qwen3_vl.py"
    return rules.mm_reserve_mib * MIB, "SGLANG_VLM_CACHE_SIZE_MB, default 100"


def lines(d: Deployment, device: Device, rules: SglangRules, release: str, ranks: int) -> list[Entry]:
    """What a rank holds beside weights and pools."""
    multimodal, source = multimodal_caches(d, device, rules)
    reserve = [modelled("multimodal caches", Span(multimodal, 0, multimodal), source, "tables")]
    if d.constants is None or d.constants.engine != NAME:
        return reserve if multimodal else []
    found = [scaled(BEFORE[0], d.constants.at("context_unified" if device.unified else "context", VERSIONS, release), "process")]
    if ranks > 1:
        link = "link_switch" if device.is_module else "link"
        found.append(scaled(BEFORE[1], d.constants.at(link, VERSIONS, release), "process"))
    found.append(scaled("weight loading overhead", d.constants.at("loading", VERSIONS, release), "process"))
    return found + (reserve if multimodal else [])


def budget(
    d: Deployment, rules: SglangRules, release: str, ranks: int, fraction: float, outside: tuple[Entry, ...], device: Device,
    weights: Sequence[Entry],
) -> Budget:  # fmt: skip
    """The budget of a rank with these weights under this mem_fraction_static. Raises Refusal where nothing is left."""
    record = find_record(d, FACTS, release)
    entries = with_record([*weights, *lines(d, device, rules, release, ranks)], record)
    before = sum(e.bytes for e in entries if e.name in BEFORE)
    free = device.memory_bytes - (d.reserve or 0) - before
    after = free - sum(e.bytes for e in entries if e.name not in (*BEFORE, "multimodal caches"))
    slack = int(free * (1 - fraction))
    rest = after - slack - sum(e.bytes for e in entries if e.name == "multimodal caches")
    less, more = spread_of(d.constants, NAME, "unified" if device.unified else "discrete", device.memory_bytes, measured=record is not None)
    less, more = widened(less, more, entries)
    first, then = ([e for e in entries if (e.name in BEFORE) == gone] for gone in (True, False))
    most = int((device.memory_bytes - (d.reserve or 0) - surely_held(first)) * fraction) - surely_held(then)
    most += int(UNSAID * device.memory_bytes)  # of 61 public starts ten leave more without it, six with it (tests/threads)
    found = Span(rest, rest - less, max(min(rest + more, most), rest))
    if rest <= 0:
        raise Refusal(_refusal(fraction, after, free), sure=sure_of(found.point, found.low, found.high))
    return Budget(found, tuple(entries), slack, outside)


def _refusal(fraction: float, after: int, free: int) -> str:
    least = 1 - after / free if free > 0 else 1.0
    return (
        f"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={fraction:g}. Raise --mem-fraction-static "
        f"above {math.ceil(least * 1000) / 1000:.3f} (minimum viable = 1 - available/pre = {least:.4f})"
    )
