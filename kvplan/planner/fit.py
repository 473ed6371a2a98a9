"""Which hardware carries a deployment: the smallest count of each device, and its layout. A search over `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan import engines
from kvplan.constants import Constants
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.dtypes import canonical
from kvplan.engines.common.checks import most_together, refusal, too_old
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Facts
from kvplan.engines.common.settling import cache_formats, lowered, weight_formats
from kvplan.errors import KvplanError, SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.layouts import asked_in, counts
from kvplan.planner.plan import CLOSE, Plan
from kvplan.planner.records import FitRecord
from kvplan.planner.speed import Pace, pace, worth
from kvplan.units import cdiv, show_bytes
from kvplan.weights import all_bytes, model_tensors


class FitRow(NamedTuple):
    """One device as an answer. `plan` is the best layout of the fewest devices that fit, None where none of up to `most` does; how much
    more it would hold (`max_context_unbounded`, the most sequences) is for `estimate` to say.

    price   per hour or as the user counts, all devices together; None where the user gave none
    pace    bounds on its speed, where the device declares rates
    reason  why it lost, where it lost; fault: where it could not be asked in any layout
    """

    device: Device
    n_devices: int | None = None
    plan: Plan | None = None
    price: float | None = None
    reason: str | None = None
    pace: Pace | None = None
    fault: KvplanError | None = None

    def as_dict(self) -> FitRecord:
        """Plain data, as `--format json` prints it."""
        plan, pace = self.plan, self.pace
        tp, pp, dp, ep = (plan.asked(name) if plan else None for name in ("tp", "pp", "dp", "ep"))
        return {
            "device": self.device.id, "devices": self.n_devices, "tp": tp, "pp": pp, "dp": dp, "ep": ep, "price": self.price,
            "memory_bytes": None if self.n_devices is None else self.n_devices * self.device.memory_bytes,
            "margin_bytes": plan.margin_bytes if plan else None,
            "certainty": plan.certainty if plan else None,
            "tokens_per_second": pace.tokens_per_second if pace else None,
            "first_token_seconds": pace.first_token_seconds if pace else None,
            "cost_per_million_tokens": pace.cost_per_million if pace else None,
            "why_not": self.reason,
        }  # fmt: skip


class Terms(NamedTuple):
    """What holds for every device of a search.

    least_bytes    no layout on any of them holds less, all devices together; replica_bytes: nor a further replica
    every          layouts that nobody would start are tried too
    """

    rank_by: str
    prices: Mapping[str, float]
    most: int
    least_bytes: int
    replica_bytes: int
    every: bool


def fit(
    d: Deployment,
    devices: Sequence[Device],
    *,
    most: int = 16,
    prices: Mapping[str, float] | None = None,
    rank_by: str | None = None,
    constants: Mapping[str, Constants | None] | None = None,
    every_layout: bool = False,
    watch: Callable[[int, Device], None] | None = None,
) -> tuple[FitRow, ...]:
    """For each device the fewest that carry `d`, ranked; what is too close to call after what is not, losers last, with their reason.

    most          how many of one device are tried
    rank_by       one of RANKINGS; None: the cheapest by the user's prices, else the least memory bought
    constants     measured constants by device, where they differ
    every_layout  any number of devices in any layout, of several the one that leaves most memory; else those of `layouts.common`, of
                  several the one with the fewest stages, then replicas. By `rank_by` where that is a matter of speed
    watch         told the place and the device before each search

    Raises KvplanError where the question can not be asked in any layout of any device.

    Parallel sizes and the number of devices that `d` already chooses are kept.
    """
    terms = Terms(rank_by or "price", prices or {}, most, _least_bytes(d), _replica_bytes(d), every_layout)
    rows = []
    for i, device in enumerate(devices):
        if watch is not None:
            watch(i, device)
        rows.append(_row(replace(d, constants=(constants or {}).get(device.id, d.constants)), device, terms))
    faults = [c.fault for c in rows if c.fault is not None]
    if faults and len(faults) == len(rows):
        raise faults[0]
    ranked = tuple(sorted(rows, key=lambda c: _rank(c, terms.rank_by)))
    if terms.rank_by not in ("price", "memory") and ranked and ranked[0].plan and worth(ranked[0].pace, terms.rank_by) is None:
        why = "of no device that carries it is that known: name devices with rates, with prices for a cost, and a model that decodes tokens"
        raise SpecError("rank_by", [("", f"{terms.rank_by}: {why}; or rank by memory")])
    return ranked


def _rank(c: FitRow, by: str) -> tuple[bool, bool, bool, float, float, int, int, str]:
    n, price = c.n_devices or 0, c.price if by == "price" else None
    merit = worth(c.pace, by)
    no_figure = merit is None if by not in ("price", "memory") else by == "price" and price is None
    close = c.plan is not None and _close(c.plan)
    return (c.plan is None, no_figure, close, merit or 0.0, price or 0.0, n * c.device.memory_bytes, n, c.device.id)


def _close(plan: Plan) -> bool:
    return plan.certainty == CLOSE


def _row(d: Deployment, device: Device, terms: Terms) -> FitRow:
    last: Plan | None = None
    fault: KvplanError | None = None
    price, facts = terms.prices.get(device.card), engines.facts(d.engine or engines.DEFAULT)
    if reason := refusal(replace(d, device=device), facts) or too_old(device, facts):
        return FitRow(device, reason=reason)
    fewest = max(1, cdiv(terms.least_bytes, max(device.memory_bytes, 1)))
    most = min(terms.most, most_together(device, facts) or terms.most)
    for n in counts(d, facts, fewest, most, terms.every):
        tried, refused = _tried(d, device, n, facts, terms)
        fault = fault or refused
        fitting = [(asked, plan) for asked, plan in tried if plan.fits]
        if fitting:
            cost = None if price is None else price * n
            best, pace_ = _best(fitting, terms, cost)
            return FitRow(device, n, best, cost, pace=pace_)
        last = max((plan for _, plan in tried), key=_margin, default=last)
    reason = _why(device, most, last, fewest, d.n_devices)
    if last is None and fault is not None:
        return FitRow(device, reason=f"{reason}: {fault}", fault=fault)
    return FitRow(device, reason=reason)


def _tried(d: Deployment, device: Device, n: int, facts: Facts, terms: Terms) -> tuple[list[tuple[Deployment, Plan]], KvplanError | None]:
    """The plans of the layouts of n devices, as far as one has to look, and why the first could not be asked that can not."""
    tried: list[tuple[Deployment, Plan]] = []
    fault: KvplanError | None = None
    first_will_do = not terms.every and terms.rank_by in ("price", "memory")
    for asked in asked_in(d, device, n, facts, terms.every):
        if terms.least_bytes + ((asked.dp or 1) - 1) * terms.replica_bytes > n * device.memory_bytes:
            continue
        try:
            plan = evaluate(asked, limits=False)
        except KvplanError as error:  # the model can not be split like that
            fault = fault or error
            continue
        if plan.asked("n_devices") == n:
            tried.append((asked, plan))
            if first_will_do and plan.fits and not _close(plan):
                break  # the others come after it
    return tried, fault


def _margin(plan: Plan) -> float:
    return -math.inf if plan.margin_bytes is None else plan.margin_bytes


def _best(fitting: list[tuple[Deployment, Plan]], terms: Terms, price: float | None) -> tuple[Plan, Pace | None]:
    """The layout that leaves most, the first that is not too close to call, or the fastest; its bounds."""
    if terms.rank_by in ("price", "memory"):
        leaves = (lambda one: -_margin(one[1])) if terms.every else (lambda one: _close(one[1]))
        asked, plan = min(fitting, key=leaves)
        return plan, pace(asked, price)
    paces = [pace(asked, price) for asked, _ in fitting]
    order = [worth(found, terms.rank_by) for found in paces]
    best = min(range(len(fitting)), key=lambda i: (order[i] is None, order[i] or 0.0, -_margin(fitting[i][1])))
    return fitting[best][1], paces[best]


def _replica_bytes(d: Deployment) -> int:
    """What each further replica holds at the least: the weights, where no experts are dealt out over replicas."""
    if d.model.routed or _may_offload(d) or Options(d).flag("enable_dp_attention"):
        return 0
    try:
        return _weights_on_devices(d)
    except KvplanError:
        return 0


def _may_offload(d: Deployment) -> bool:
    offloads = engines.facts(d.engine or engines.default(d)).offloads
    return offloads and (d.host_memory is not None or d.n_gpu_layers is not None or bool(d.engine_option))


def _weights_on_devices(d: Deployment) -> int:
    """Of the weights what every engine puts on devices."""
    tensors = model_tensors(lowered(d, cache_formats(d)))
    return all_bytes(((w, n) for w, n in tensors if w.role not in ("embedding", "tower", "other", "buffer")), weight_formats(d))


def _least_bytes(d: Deployment) -> int:
    """The weights and the cache, unreplicated, as far as no engine's own choices go below them.

    Of the weights what every engine puts on devices; of the cache a share: a format asked for is stored as asked, else packed 8-bit
    rows and narrow states take at least half of 16 bits, a quarter of 32; an encoder's length is the engine's own.
    """
    if _may_offload(d):
        return 0
    alone = replace(d, tp=1, pp=1, dp=1, ep=None, dcp=None, n_devices=None, kv_memory=None, device=None, constants=None)
    try:
        plan = evaluate(replace(alone, engine="ideal", engine_version=None, engine_option=(), speculative=None, block_size=None))
        weights = _weights_on_devices(d)
    except KvplanError:
        return 0
    narrow = canonical(plan.asked("dtype"), "dtype") in ("bf16", "f16")
    return weights + (0 if d.model.encoder is not None else plan.cache.total_bytes // (2 if narrow else 4))


def _why(device: Device, most: int, last: Plan | None, fewest: int, n: int | None) -> str:
    if last is not None:
        return last.outcome.unknown or f"not with {n or most} of them: {last.outcome.reason}"
    if fewest > most:
        return f"weights and cache need at least {fewest:,} devices of {show_bytes(device.memory_bytes)}, more than the {most} tried"
    return "no layout divides this model over them"
