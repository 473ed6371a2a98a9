"""Changes of hardware, and of how it is split, after which a plan fits: each evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common.checks import most_together
from kvplan.planner import remedies
from kvplan.planner.changes import Change, attempt, counted, facts_of, first, with_option
from kvplan.planner.plan import Plan


def wider(d: Deployment, plan: Plan) -> Iterator[Change]:
    """More ranks of tensor parallelism; where the engine refused the layout itself, other numbers of them too."""
    if d.n_devices is not None or d.kv_memory is not None or most_together(d.device, facts_of(plan)):
        return
    now = plan.asked("tp") or 1
    sizes = [n for n in remedies.TP_SIZES if n > now]
    if plan.margin_bytes is None:
        sizes = sorted((n for n in remedies.TP_SIZES if n != now), key=lambda n: abs(n - now))
    yield from first(d, ((f"split over {n} devices", "tp", n) for n in sizes))


def stages(d: Deployment, plan: Plan) -> Iterator[Change]:
    """More pipeline stages, or cards where the engine places whole layers on them, which nobody calls stages."""
    if d.n_devices is not None or d.kv_memory is not None or most_together(d.device, facts_of(plan)):
        return
    numbers = range((plan.asked("pp") or 1) + 1, remedies.MOST_STAGES + 1)
    if facts_of(plan).offloads and d.device is not None:
        yield from _more_cards(d, plan, d.device, numbers)
    else:
        yield from first(d, ((f"{n} pipeline stages", "pp", n) for n in numbers))


def _more_cards(d: Deployment, plan: Plan, device: Device, numbers: Iterable[int]) -> Iterator[Change]:
    """The first of these numbers of cards that carries it, with the context said where its default may follow the memory."""
    same = {} if d.context or d.max_model_len else {"context": plan.asked("context")}
    for n in numbers:
        for also in ({}, same):
            if found := attempt(d, n_devices=n, **also):
                yield Change(f"use {n} of them", "device", f"{n}x{device.id}", found, also)
                return


def experts(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Experts dealt out whole, where the engine refused to cut them."""
    ranks = (plan.asked("tp") or 1) * (plan.asked("dp") or 1)
    if plan.margin_bytes is None and d.ep is None and ranks > 1 and d.model.routed:
        yield from first(d, [("expert parallelism, which keeps experts whole", "ep", ranks)])


def shared_ranks(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Replicas of the attention over one set of ranks that splits the rest, instead of replicas of all."""
    dp, tp, option = plan.asked("dp") or 1, plan.asked("tp") or 1, facts_of(plan).over_ranks
    if dp == 1 or not option or option in dict(d.engine_option):
        return
    if found := attempt(d, tp=tp * dp, engine_option=with_option(d, option, "true")):
        yield Change("replicas of the attention alone, over ranks that split the rest", "tp", tp * dp, found, {
            "dp": dp, "engine_option": f"{option}=true",
        })  # fmt: skip


def fewer_shares(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Fewer ranks that share a sequence's tokens, where the engine refused so many."""
    if d.dcp is not None and d.dcp > 1 and plan.margin_bytes is None:
        sizes = (n for n in reversed(remedies.TP_SIZES) if n < d.dcp)
        yield from first(d, ((f"{n} ranks share a sequence's tokens" if n > 1 else "no ranks share tokens", "dcp", n) for n in sizes))


def other_layout(d: Deployment, plan: Plan) -> Iterator[Change]:
    """As many devices in less of tp and more stages, where the engine refused that tp."""
    tp, pp = plan.asked("tp") or 1, plan.asked("pp") or 1
    if plan.margin_bytes is not None or d.n_devices is None or d.tp is None:
        return
    for n in (n for n in sorted(remedies.TP_SIZES, reverse=True) if n < tp and tp % n == 0):
        if found := attempt(d, tp=n, pp=pp * tp // n):
            yield Change(f"tp {n} in {pp * tp // n} pipeline stages", "tp", n, found, {"pp": pp * tp // n})
            return


def more_devices(d: Deployment, plan: Plan) -> Iterator[Change]:
    """The next larger number that carries it, where the device said how many there are (`2xH100`)."""
    own = [name for name in ("tp", "pp", "dp", "ep", "dcp") if getattr(d, name) is not None and name not in d.assumed]
    if not d.counted or d.device is None or d.kv_memory is not None or own not in ([], ["tp"]):
        return
    if most_together(d.device, facts_of(plan)):
        return
    for n in (n for n in remedies.TP_SIZES if n > (d.n_devices or 1)):
        sizes = dict.fromkeys(own, n)
        if found := attempt(d, n_devices=n, **sizes):
            yield Change(f"use {n} of them", "device", counted(d, d.device, n), found, sizes)
            return


def larger_device(d: Deployment, plan: Plan, devices: Sequence[Device]) -> Iterator[Change]:
    """The next larger one of the same make that carries it, of two as large the one with its links; one that is slower only where no
    other does."""
    mine = d.device
    if mine is None or d.kv_memory is not None:
        return
    vendors = facts_of(plan).vendors or {x.vendor for x in devices}
    same = [x for x in devices if x.unified == mine.unified and mine.vendor in (x.vendor, "other") and x.vendor in vendors]
    several = (plan.asked("n_devices") or 1) > 1
    larger = [x for x in same if x.memory_bytes > mine.memory_bytes and not (several and most_together(x, facts_of(plan)))]
    larger.sort(key=lambda x: (x.memory_bytes, x.id))
    if larger and attempt(d, device=larger[-1]) is None:
        return
    larger.sort(
        key=lambda x: (
            _slower(x, mine), x.memory_gb or 0, x.compute_capability != mine.compute_capability, x.link != mine.link, x.memory_bytes
        )
    )  # fmt: skip
    for device in larger:
        if found := attempt(d, device=device):
            text = f"use {d.n_devices} x {device.name}" if several and d.counted else f"use {device.article} {device.name}"
            yield Change(text, "device", counted(d, device), found)
            return


def _slower(device: Device, mine: Device) -> bool:
    """Whether it reads or computes much less in a second; a rate that nobody publishes is none."""
    rates = ((x.bandwidth_gb_per_s or 0.0, x.dense_tflops.get("bf16", x.dense_tflops.get("fp16", 0.0))) for x in (device, mine))
    return any(its < remedies.AS_FAST * now for its, now in zip(*rates, strict=True))
