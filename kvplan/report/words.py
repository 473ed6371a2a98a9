"""Numbers and names as people say them."""

from __future__ import annotations

import re
from typing import Any

from kvplan import engines
from kvplan.engines.common.tiers import Tier
from kvplan.planner.plan import Plan
from kvplan.report.printable import one_line
from kvplan.units import GIB, MIB, counted, show_bytes, size

_WORDS = {"pcie": "PCIe", "ai": "AI", **{word: word.upper() for word in ("rtx", "gtx", "rx", "nvl", "gpu")}}


def seconds(n: float) -> str:
    """Three figures of s, ms or us."""
    for unit, one in (("s", 1.0), ("ms", 1e-3)):
        if n >= one:
            return f"{n / one:,.3g} {unit}" if n < 100 * one else f"{n / one:,.0f} {unit}"
    return f"{n / 1e-6:.3g} us"


def held(tier: Tier) -> str:
    """`64.0 GiB of RAM a server, 13,107 pieces of 16 tokens: 209,712 tokens`"""
    tokens = "states" if tier.tokens is None else f"pieces of {tier.piece_tokens:,} tokens: {tier.tokens:,} tokens"
    return f"{size(tier.bytes)} of {'RAM' if tier.place == 'cpu' else 'disk'} a server, {tier.pieces:,} {tokens}"


def device(id_: str) -> str:
    """A device's id as its name is written: h100-80gb is H100 80GB, rtx-4090 is RTX 4090, 24GiB is 24 GiB, of rtx-4090@23GiB both."""
    if "@" in id_:
        return " with ".join(map(device, id_.split("@", 1)))
    if bare := re.fullmatch(r"([\d.]+)(GiB|GB|MiB|B)", id_):
        return f"{bare[1]} {bare[2]}" if bare[2] != "B" else show_bytes(int(bare[1]))
    return " ".join(_WORDS.get(part) or (part.upper() if re.search(r"\d", part) else part.capitalize()) for part in id_.split("-"))


def shown(value: Any) -> str:
    """A value of a table: `-`, yes, no, 1,024, or its text."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def link(name: str, gb_per_s: float) -> str:
    """`pcie5, 63.02 GB/s`; of a link that was given as a rate, that."""
    return name if name.endswith("GB/s") else f"{name}, {gb_per_s:g} GB/s"


def model(plan: Plan) -> str:
    """Its name, and the id that was asked for where that is another."""
    name, id_ = plan.model.name, plan.model.known_as or plan.model.id
    if id_.lower() == plan.model.id:
        id_ = plan.model.id
    return one_line(name) if name == id_ else f"{one_line(name)} ({one_line(id_)})"


def printed(plan: Plan) -> list[str]:
    """What the engine would print."""
    lines = [*(plan.capacity.log_lines if plan.capacity else ()), *([plan.outcome.reason] if plan.starts is False else ())]
    return [line for line in lines if line]


def hardware(plan: Plan) -> str:
    """`4 x H100 80GB`; without a device, the memory that the cache is given."""
    name, n = plan.asked("device"), plan.asked("n_devices") or 1
    if name is not None:
        return f"{n} x {device(name)}"
    memory = plan.asked("kv_memory")
    return f"{size(memory)} of cache memory{' a GPU' if ranks(plan) > 1 else ''}" if memory is not None else "what is given"


def ranks(plan: Plan) -> int:
    """Ranks that are devices."""
    return sum(len(ledger.ranks) for ledger in plan.ledgers if ledger.device != "host") or (plan.asked("n_devices") or 1)


def chosen(plan: Plan) -> dict[str, Any]:
    """What somebody asked, but for the model and the engine's own options."""
    return {name: value for name, value in plan.chosen.items() if name not in ("model", "engine_option")}


def requests(plan: Plan) -> str:
    """`32 requests of 8,192 tokens`."""
    return f"{counted(plan.asked('batch'), 'request')} of {counted(plan.asked('context'), 'token')}"


def engine(plan: Plan) -> str:
    """`vLLM 0.33`; llama.cpp's builds are written b11312."""
    name, version = plan.asked("engine"), plan.asked("engine_version")
    if name == "ideal":
        return "ideal"
    title = engines.facts(name).title
    return f"{title} {version}" if version else title


def flag(name: str, value: object = None) -> str:
    """A name of the question as it is written on the command line, with its value; an option of the engine that is left out."""
    text = f"--{name.replace('_', '-')}"
    if name == "engine_option" and isinstance(value, str) and value.endswith("="):
        return f"without {text} {value[:-1]}"
    if name in ("kv_memory", "host_memory") and isinstance(value, int) and value % MIB == 0:
        value = f"{value // GIB}GiB" if value % GIB == 0 and name == "host_memory" else f"{value // MIB}MiB"
    return text if value is None or value is True else f"{text} {value}"
