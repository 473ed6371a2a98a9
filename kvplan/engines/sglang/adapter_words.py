"""What a command line says of adapters, as slots of a rank: --lora-paths, --max-lora-rank, --max-loras-per-batch."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engines.common.arguments import Adapters, adapters_of, moved, number
from kvplan.engines.common.words import Given


def slots_of(given: Mapping[str, Given], question: dict[str, Given]) -> Adapters | None:
    """Slots for adapters of --max-lora-rank (which nobody's file is held to as it starts), else of the largest rank among their files."""
    rank, paths, slots = given.get("@lora_rank"), given.get("@lora_paths"), number(given, "@loras", 8)
    one = given.get("@lora") or paths
    if one is None:
        return None
    modules = given.get("@lora_modules")
    if modules and list(modules.value) != ["all"]:
        question["engine_option.lora_target_modules"] = moved(modules, ",".join(modules.value))
    if rank is None:
        return adapters_of(paths, slots)
    question["lora"] = moved(one, f"{rank.value}x{slots}")
    found = adapters_of(paths, slots, most=rank.value)
    return found and found._replace(late=True)
