"""A cache of fixed size, as the release takes it: bytes, else blocks, else tokens; the low end of its interval, which is safe there."""

from __future__ import annotations

from typing import Any

from kvplan.engines.common.arguments import Arguments, has
from kvplan.engines.common.written import find
from kvplan.errors import UnsupportedError
from kvplan.planner.plan import Plan

#: What sizes a cache -> how many of it the pool's bytes are.
SIZES = {
    "kv_memory": "bytes",
    "option:num_gpu_blocks_override": "blocks",
    "option:max_total_tokens": "tokens",
    "option:max_tokens": "tokens",
}


def fixed(plan: Plan, table: Arguments, version: str | None) -> dict[str, Any]:
    """The names of a question that make the pool as large as is safe on the plan's device.

    Raises UnsupportedError where the engine takes no size of its cache, or the plan has none.
    """
    capacity = plan.capacity
    if capacity is None or not capacity.kv_bytes or plan.question["device"][0] is None:
        raise UnsupportedError("the size of the cache follows from a device; name it with --device")
    if plan.question["kv_memory"][0] is not None:
        return {}
    low = capacity.kv_bytes_low
    amounts = {
        "bytes": low,
        "blocks": low // capacity.bytes_per_block if capacity.bytes_per_block else None,
        "tokens": capacity.tokens * low // capacity.kv_bytes if capacity.tokens else None,
    }
    said: dict[str, Any] = {}
    for name, unit in SIZES.items():
        row, amount = find(table, name, amounts[unit], version), amounts[unit]
        if row is not None and amount and has(table, row, version):
            said |= {"engine_option": {name[7:]: str(amount)}} if name.startswith("option:") else {name: amount}
            if not table.every_size or any(group.role == "window" for group in capacity.groups):
                break  # tokens of one window say nothing of the others'
    if not said:
        raise UnsupportedError(f"{table.name} takes no size of its cache that could be fixed")
    return said
