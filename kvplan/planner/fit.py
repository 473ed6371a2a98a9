"""Which hardware carries a deployment: the smallest count of each device, and its layout. A search over `evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.units import cdiv, show_bytes


class Carrier(NamedTuple):
    """One device as an answer. `plan` is the best layout of the fewest devices that fit, None where none of up to `most` does.

    price   per hour or as the user counts, all devices together; None where the user gave none
    reason  why it lost, where it lost
    """

    device: Device
    n_devices: int | None
    plan: Plan | None
    price: float | None
    reason: str | None


class LayoutSizes(NamedTuple):
    """Sizes of one layout on tp x pp x dp devices."""

    tp: int
    pp: int
    dp: int


def layouts(n_devices: int) -> Iterator[LayoutSizes]:
    """Every tp x pp x dp of exactly n devices, tensor parallelism first."""
    for tp in range(n_devices, 0, -1):
        if n_devices % tp == 0:
            rest = n_devices // tp
            for pp in range(1, rest + 1):
                if rest % pp == 0:
                    yield LayoutSizes(tp, pp, rest // pp)


def fit(d: Deployment, devices: Sequence[Device], *, most: int = 16, prices: Mapping[str, float] | None = None) -> tuple[Carrier, ...]:
    """For each device the fewest that carry `d`, ranked: cheapest by the user's prices, else least memory bought, else fewest.

    Parallel sizes that `d` already chooses are kept. `most`: how many of one device are tried. Losers come last, with their reason.
    """
    carriers = [_carrier(d, device, most, (prices or {}).get(device.id)) for device in devices]
    return tuple(sorted(carriers, key=_rank))


def _rank(c: Carrier) -> tuple[bool, bool, float, int, int, str]:
    n = c.n_devices or 0
    return (c.plan is None, c.price is None, c.price or 0.0, n * c.device.memory_bytes, n, c.device.id)


def _carrier(d: Deployment, device: Device, most: int, price: float | None) -> Carrier:
    last: Plan | None = None
    for n in range(_fewest_thinkable(d, device), most + 1):
        tried = [plan for sizes in layouts(n) if (plan := _try(d, device, sizes)) is not None]
        fitting = [plan for plan in tried if plan.fits]
        if fitting:
            best = max(fitting, key=lambda plan: plan.margin_bytes or 0)
            return Carrier(device, n, best, None if price is None else price * n, None)
        last = max(tried, key=lambda plan: plan.margin_bytes or 0, default=last)
    return Carrier(device, None, None, None, _why(d, device, most, last))


def _try(d: Deployment, device: Device, sizes: LayoutSizes) -> Plan | None:
    for name, size in sizes._asdict().items():
        if getattr(d, name) not in (None, size):
            return None
    try:
        return evaluate(replace(d, device=device, n_devices=None, **sizes._asdict()))
    except KvplanError:
        return None  # the model can not be split like that


def _fewest_thinkable(d: Deployment, device: Device) -> int:
    """No layout holds less than the whole, unreplicated: fewer devices than that are not tried."""
    plan = evaluate(
        replace(d, device=None, kv_memory=None, engine="ideal", engine_version=None, engine_option=(), tp=1, pp=1, dp=1, n_devices=None)
    )
    whole = plan.model.weight_bytes + plan.cache.total_bytes
    return max(1, cdiv(whole, max(device.memory_bytes, 1)))


def _why(d: Deployment, device: Device, most: int, last: Plan | None) -> str:
    if last is not None:
        return f"not with {most} of them: {last.outcome.reason}"
    fewest = _fewest_thinkable(d, device)
    if fewest > most:
        return f"weights and cache need at least {fewest:,} of {show_bytes(device.memory_bytes)}, more than the {most} tried"
    return "no layout divides this model over them"
