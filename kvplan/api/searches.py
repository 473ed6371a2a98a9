"""Searches over plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan import catalogue
from kvplan.api.asking import at_least_one, calibrated, deployment, device, read
from kvplan.api.plans import estimate
from kvplan.deployment import NAMES, Deployment
from kvplan.devices import Device
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.planner.compare import Row
    from kvplan.planner.fit import Carrier
    from kvplan.planner.sweep import Columns, Grid
    from kvplan.roofline import Roofline


def fit(
    model: str | ModelSpec,
    *,
    devices: Sequence[str | Device] | None = None,
    prices: Mapping[str, float] | None = None,
    most: int = 16,
    **question: Any,
) -> tuple[Carrier, ...]:
    """Which hardware carries the question: for each device the fewest that fit and their layout, ranked, losers with their reason.

    devices  ids, names or sizes; None: every packaged device that one can buy for a server
    prices   device id -> price of one, in any unit; ranks by the price of all together
    most     how many of one device are tried

    >>> best = fit("meta-llama/llama-3.1-8b", devices=["h100", "l4"], engine="ideal", context="8k", batch=16)[0]
    >>> best.device.id, best.n_devices
    ('l4', 2)
    """
    from kvplan.planner.fit import fit as search

    if question.get("device") is not None:
        raise SpecError("device", [("", "fit looks for the device; name candidates with devices")])
    among = [device(name) for name in devices] if devices is not None else catalogue.devices()
    named = {device(name).id: _price(name, price) for name, price in (prices or {}).items()}
    asked = deployment(model, **question)
    if asked.engine is None:
        asked = calibrated(asked, "vllm")  # what a question with a device is put to
    return search(asked, among, most=at_least_one("most", most), prices=named)


def compare(*questions: Mapping[str, Any]) -> tuple[Row, ...]:
    """Questions side by side, what differs first; each is a mapping of `model` and the contract's names.

    >>> rows = compare({"model": "meta-llama/llama-3.1-8b", "context": "8k"}, {"model": "meta-llama/llama-3.1-8b", "context": "16k"})
    >>> [row.ratios for row in rows if row.name == "cache of a sequence"]
    [(1.0, 2.0)]
    """
    from kvplan.planner.compare import compare as side_by_side

    if not questions:
        raise SpecError("compare", [("", "name at least one question")])
    return side_by_side([estimate(**question) for question in questions])


def _price(name: str, price: Any) -> float:
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
        raise SpecError("prices", [(name[:60], f"{str(price)[:60]!r} is not a price; write a number such as 2.5")])
    return float(price)


def roofline(model: str | ModelSpec, **question: Any) -> Roofline:
    """The least time a decode step and a prompt can take on the question's device: bytes over bandwidth, operations over rate.

    >>> roofline("meta-llama/llama-3.1-8b", device="h100", engine="ideal", context="8k").decode.bound_by
    'memory'
    """
    from kvplan.planner.speed import speed

    return speed(deployment(model, **question))


class Sweep(NamedTuple):
    """A grid of questions: what stays the same, and the axes."""

    question: Deployment
    over: Grid


def sweep(model: str | ModelSpec, axes: Mapping[str, Sequence[Any]], **question: Any) -> Sweep:
    """A grid over any names of a question; `sweep_ranges` evaluates it. Needs numpy (the `sweep` extra).

    >>> job = sweep("meta-llama/llama-3.1-8b", {"context": ["8k", "16k"], "batch": range(1, 3)}, engine="ideal")
    >>> [columns["cache_total_bytes"].tolist() for _, columns in sweep_ranges(job)]
    [[1073741824, 2147483648, 2147483648, 4294967296]]
    """
    try:
        from kvplan.planner.sweep import grid
    except ImportError:
        raise KvplanError("a sweep needs numpy; install the `sweep` extra of kvplan-llm") from None
    if not axes:
        raise SpecError("grid", [("", "name at least one axis such as context=8k:1m:x2")])
    both = [name for name in axes if question.get(name) is not None]
    if both:
        raise SpecError("grid", [(name, "is an axis and an option; keep one") for name in both])
    values_of: dict[str, list[Any]] = {}
    for name, values in axes.items():
        if name not in NAMES or NAMES[name].kind == "options":
            raise UnknownName("axis", name, [n for n in NAMES if NAMES[n].kind != "options"])
        values_of[name] = [read(name, value) for value in values]
        if not values_of[name]:
            raise SpecError("grid", [(name, "an axis without values")])
    return Sweep(deployment(model, **question), grid(values_of))


def sweep_ranges(
    job: Sweep, rows: int = 100_000, start: int = 0, scheduler: str | None = None, workers: int | None = None
) -> Iterator[tuple[int, Columns]]:
    """The points of a sweep from `start` on, `rows` at a time: how many, and a column for each axis and figure.

    scheduler  a Dask scheduler's address, or `local`; None evaluates here
    """
    from kvplan.planner.sweep import chunks, columns

    ranges = chunks(job.over, rows, start)
    if scheduler is None:
        yield from ((last - first, columns(job.question, job.over, first, last)) for first, last in ranges)
        return
    from kvplan import cluster

    with cluster.connected(scheduler, workers) as client:
        yield from cluster.columns(client, job.question, job.over, ranges)
