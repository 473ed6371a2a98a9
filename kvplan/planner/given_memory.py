"""Cache memory that was given (kv_memory), which skips an engine's own budget, held against the device all the same."""

from __future__ import annotations

from dataclasses import replace

from kvplan.engines.common.lines import Span
from kvplan.engines.common.phases import PROCESS_BYTES
from kvplan.engines.common.protocol import Certainty, Engine, Outcome, Settled
from kvplan.errors import KvplanError
from kvplan.ledger import PHASES
from kvplan.planner.plan import CLOSE
from kvplan.units import show_bytes


def on_its_device(settled: Settled, engine: Engine, outcome: Outcome) -> Outcome:
    """Cache memory that was given (kv_memory), beside the weights and what else a start holds, against the device."""
    question = settled.question
    device, given = question.device, question.kv_memory
    if device is None or given is None or engine.facts.pool != "set aside" or not outcome.starts:
        return outcome
    fullest = max((one for one in outcome.ledgers if one.device is not None), key=lambda one: one.total_bytes, default=None)
    if fullest is None:
        return outcome
    others = 0 if any(entry.kind == "others" for entry in fullest.entries) else question.reserve or 0
    held, rank = fullest.total_bytes + others, fullest.ranks[0]
    beside = _beside(settled, engine)
    left = device.memory_bytes - held - beside.point
    if left >= 0 and left + beside.point >= beside.high:
        return outcome
    if left >= 0:
        return outcome._replace(certainty=CLOSE, start_certainty=CLOSE)
    least = others + sum(entry.low for entry in fullest.entries) + beside.low
    sure: Certainty = "certain" if least > device.memory_bytes + PROCESS_BYTES else "likely" if left + beside.point < 0 else CLOSE
    limited = tuple(one._replace(limit_bytes=one.limit_bytes or device.memory_bytes - others) for one in outcome.ledgers)
    holds = f"rank {rank} would hold {show_bytes(held + beside.point)} of the device's {show_bytes(device.memory_bytes)}"
    return outcome._replace(
        ledgers=limited, starts=False, fits=False, survives=False, certainty=sure, start_certainty=sure, margin_bytes=left,
        limiting_rank=rank, reason=f"out of memory when the cache is allocated: {holds}",
    )  # fmt: skip


def _beside(settled: Settled, engine: Engine) -> Span:
    """What a start holds beside weights and cache, as the same question has it where the engine sizes its cache itself."""
    try:
        free = engine.plan(engine.settle(replace(settled.question, kv_memory=None, reserve=None))._replace(limits=False))
    except KvplanError:
        return Span(PROCESS_BYTES // 2, 0, PROCESS_BYTES)
    found = Span(PROCESS_BYTES // 2, 0, PROCESS_BYTES)
    for ledger in free.ledgers if free.capacity is not None else ():
        lines = [
            one
            for one in (*ledger.entries, *ledger.outside)
            if one.kind not in ("weights", "cache", "others") and one.phases != ("profile",)  # gone before the cache is there
        ]
        for phase in PHASES[:-1]:
            there = [one for one in lines if one.held_in(phase)]
            found = max(found, Span(*(sum(getattr(one, end) for one in there) for end in ("bytes", "low", "high"))))
    return found
