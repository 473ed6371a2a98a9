"""What a plan that fits does not need for its question, each with the one change that would save it, evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvplan.deployment import Deployment
from kvplan.planner import remedies
from kvplan.planner.changes import attempt, counted, edge, evaluated, facts_of, hundredths, replica_batch, sequences
from kvplan.planner.plan import Plan, Waste
from kvplan.units import cdiv

#: Padding below this share of the exact tensors is not worth looking for other page sizes.
SMALL = 0.01


def wasted(d: Deployment, plan: Plan) -> tuple[Waste, ...]:
    """What lies unused, and what would save it: devices, settings longer than the question, memory for more sequences, padding."""
    if not plan.fits:
        return ()
    return tuple(one for kind in (_devices, _settings, _fraction, _sequences, _padding) for one in kind(d, plan))


def _devices(d: Deployment, plan: Plan) -> Iterator[Waste]:
    """Fewer ranks of one kind that still carry it."""
    n = plan.asked("n_devices") or 1
    if d.device is None or d.kv_memory is not None or n == 1:
        return
    for name, text in (("tp", "tensor parallel ranks"), ("pp", "pipeline stages"), ("dp", "replicas")):
        now = plan.asked(name) or 1
        for size in (size for size in range(1, now) if now % size == 0):
            found = attempt(d, **{name: size, "n_devices": None})
            if found and found.asked("n_devices") < n:
                fewer = found.asked("n_devices")
                option, value, left = _of_fewer(d, name, size, fewer, found)
                said = f"{fewer} devices" if option else f"{fewer} devices, {name} {size}"
                yield Waste(f"{now} {text}", (n - fewer) * d.device.memory_bytes, said, option, value, left)
                break
    if d.n_devices and (d.tp, d.pp, d.dp) == (None, None, None):
        for size in range(1, n):
            if found := attempt(d, n_devices=size):
                unused = (n - size) * d.device.memory_bytes
                option, value = ("device", counted(d, d.device, size)) if d.counted else ("n_devices", size)
                yield Waste(f"{n} devices", unused, f"{size} devices", option, value, found.margin_bytes)
                break


def _of_fewer(d: Deployment, name: str, size: int, n: int, found: Plan) -> tuple[str | None, int | str | None, int | None]:
    """The one name to change for fewer devices, its value and what is left then; None where two names must."""
    if d.n_devices is None:
        return name, size, found.margin_bytes
    again = attempt(d, n_devices=n) if name in d.assumed else None
    if again is None or d.device is None:
        return None, None, None
    return ("device", counted(d, d.device, n), again.margin_bytes) if d.counted else ("n_devices", n, again.margin_bytes)


def _settings(d: Deployment, plan: Plan) -> Iterator[Waste]:
    """Limits of the engine above what the question holds, where lowering them frees memory."""
    context = plan.asked("context")
    for name, needed, what in (
        ("max_model_len", context, "max_model_len beyond what the sequences need"),
        ("max_num_seqs", replica_batch(plan), "max_num_seqs beyond the sequences"),
    ):
        now = plan.asked(name)
        if now is None or now <= needed:
            continue
        value, found = needed, attempt(d, **{name: needed, "context": context})
        if found is None and name == "max_model_len":  # a pool for all sequences together
            pool = needed * replica_batch(plan)
            value, found = edge(needed, now, lambda n: attempt(d, max_model_len=n, context=context), pool) or (now, None)
        freed = _gain(found, plan)
        if found and freed > 0:
            yield Waste(what, freed, f"set it to {value:,}", name, value, found.margin_bytes)


def _gain(found: Plan | None, plan: Plan) -> int:
    return (found.margin_bytes or 0) - (plan.margin_bytes or 0) if found else 0


def _fraction(d: Deployment, plan: Plan) -> Iterator[Waste]:
    """The smallest share of the device, in hundredths, that carries the question."""
    fraction, margin = plan.asked("memory_fraction"), plan.margin_bytes or 0
    if d.device is None or d.kv_memory is not None or fraction is None or facts_of(plan).pool != "set aside":
        return
    memory, now = d.device.memory_bytes, hundredths(fraction)
    found = edge(0, now, lambda n: attempt(d, memory_fraction=n / 100), cdiv(int(fraction * memory) - margin, memory // 100))
    if found and found[0] < now:
        share = found[0] / 100
        freed = int((fraction - share) * memory)
        yield Waste("device memory set aside beyond the question", freed, "set aside less", "memory_fraction", share, found[1].margin_bytes)


def _sequences(d: Deployment, plan: Plan) -> Iterator[Waste]:
    """Cache memory that more sequences of this length could take."""
    margin, capacity = plan.margin_bytes or 0, plan.capacity
    if margin <= 0 or capacity is None:
        return
    batch, most = plan.asked("batch"), capacity.max_batch or 0
    kept = capacity.kv_bytes > 0
    found = edge(4 * most, batch, lambda n: attempt(d, batch=n), most) if kept and most > batch else None
    pool = kept and (facts_of(plan).pool == "set aside" or d.kv_memory is not None)
    what = "cache memory beyond batch x context" if pool else "memory left"
    if found and found[0] > batch:
        yield Waste(what, margin, f"hold {sequences(found[0])}", "batch", found[0], found[1].margin_bytes)
    else:
        yield Waste(what, margin)


def _padding(d: Deployment, plan: Plan) -> Iterator[Waste]:
    """What the engine holds for these very sequences beside their exact tensors."""
    exact = _exact_bytes(d, plan)
    if not exact or plan.capacity is None:
        return
    held = max(ledger.cache_bytes for ledger in plan.ledgers)
    if facts_of(plan).pool == "set aside":
        held = plan.capacity.kv_bytes - (plan.margin_bytes or 0)
    padding = held - exact
    if padding <= 0:
        return
    what = "pages, padding and shares of pools beside the exact tensors"
    if padding > SMALL * exact:
        tried = [(_gain(p, plan), size, p) for size in _finer(plan) if (p := attempt(d, block_size=size))]
        best = max(tried, key=lambda one: one[0], default=None)
        if best and best[0] > 0:
            yield Waste(
                what, padding, f"pages of {best[1]} token{'' if best[1] == 1 else 's'}", "block_size", best[1], best[2].margin_bytes
            )
            return
    yield Waste(what, padding)


def _finer(plan: Plan) -> tuple[int, ...]:
    return remedies.smaller_pages(plan.asked("block_size") or (plan.capacity and plan.capacity.block_tokens))[:3]


def _exact_bytes(d: Deployment, plan: Plan) -> int | None:
    """Cache bytes of the fullest rank as exact tensors in the same formats and layout; None where that can not be asked."""
    if plan.asked("engine") == "ideal" and not d.block_size:
        return None
    same: dict[str, Any] = {name: plan.asked(name) for name in ("context", "batch", "tp", "pp", "dp", "ep", "dcp", "kv_dtype", "dtype")}
    plainly = replace(
        d, **same, engine="ideal", engine_version=None, engine_option=(), block_size=None, n_devices=None, max_model_len=None,
        memory_fraction=None, kv_memory=None, constants=None, reserve=None, device=None,
    )  # fmt: skip
    found = evaluated(plainly)
    return found and max(ledger.cache_bytes for ledger in found.ledgers)
