"""The device cache of TensorRT-LLM's adapters: pages as wide as the smallest module, for as many adapters of the largest rank as asked.

cpp/tensorrt_llm/batch_manager/peftCacheManager.cpp, getPageManagerConfig and getMaxNumSlots, with num_device_module_layer = max_lora_rank x
layers x modules x max_loras (_torch/pyexecutor/_util.py). Adapter sizes of a page: 8 rows as a rule, at most 64, or the largest rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common import lora
from kvplan.engines.common.options import read_lora
from kvplan.ledger import Entry, exact
from kvplan.tensors import Layer
from kvplan.units import cdiv

OPTIMAL, MOST = 8, 64
SOURCE = "pages of the LoRA device cache; batch_manager/peftCacheManager.cpp, getPageManagerConfig"


def device_cache(d: Deployment, layers: Sequence[Layer], tp: int, element_bytes: int) -> list[Entry]:
    """One line, in bytes, for the layers of a stage; none without adapters."""
    asked, modules = read_lora(d.lora), lora.asked_modules(d)
    sizes = [one.inputs + one.outputs for one in lora.adapted(layers, tp, modules)] if asked else []
    if asked is None or not sizes:
        return []
    width = min(sizes)
    slots = asked.rank * len(sizes) * asked.adapters * cdiv(max(sizes), width)
    per_page = max(min(OPTIMAL, asked.rank) * sum(cdiv(n, width) for n in sizes), cdiv(min(MOST, asked.rank) * max(sizes), width))
    return [exact("LoRA cache", cdiv(slots, per_page) * per_page * width * element_bytes, SOURCE, "weights")]
