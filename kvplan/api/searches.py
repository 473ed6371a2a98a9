"""Searches over plans."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from kvplan import catalogue, engines
from kvplan.api.asking import asked, at_least_one, calibrated, deployment, read
from kvplan.api.found import device
from kvplan.deployment import NAMES, Deployment
from kvplan.devices import Device
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.extras import missing
from kvplan.planner.evaluate import evaluate
from kvplan.planner.offload import with_offload
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from os import PathLike

    from kvplan.api.names import Question
    from kvplan.planner.compare import Row
    from kvplan.planner.fit import FitRow
    from kvplan.planner.sweep import Columns, Grid
    from kvplan.roofline import Roofline


def fit(
    model: str | PathLike[str] | ModelSpec,
    *,
    devices: str | Sequence[str | Device] | None = None,
    prices: Mapping[str, float] | None = None,
    most: int = 16,
    rank_by: str | None = None,
    every_layout: bool = False,
    watch: Callable[[int, int, Device], None] | None = None,
    **question: Unpack[Question],
) -> tuple[FitRow, ...]:
    """Which hardware carries the question: for each device the fewest that fit and their layout, ranked, losers with their reason.

    devices  ids, names or sizes, a list or joined by commas; None: every packaged device
    prices   device id -> price of one, in any unit; per hour where `rank_by` is cost_per_token
    most     how many of one device are tried
    rank_by  price (the default: all devices together; without prices, memory), memory (bought), tokens_per_second, first_token or
             cost_per_token: bounds (`kvplan.roofline`), by which the layout is chosen too
    every_layout  any number of devices, any tp, pp, dp and ep; else powers of two, tensors split within a machine and along whole heads
    watch    told before each device: its place, how many there are, and which

    >>> best = fit("meta-llama/llama-3.1-8b", devices=["h100", "l4"], engine="ideal", context="8k", batch=16)[0]
    >>> best.device.id, best.n_devices
    ('l4', 2)
    >>> fast = fit("meta-llama/llama-3.1-8b", devices=["h100", "l4"], engine="ideal", context="8k", batch=16, rank_by="tokens_per_second")
    >>> fast[0].device.id, fast[0].pace.tokens_per_second > fast[1].pace.tokens_per_second
    ('h100-80gb', True)
    """
    from kvplan.planner.fit import fit as search

    for name, why in (("device", "fit looks for the device and for how many; name candidates with devices (--devices h100,l4)"),
                      ("kv_memory", "given bytes for the cache fit any device; leave it out, or ask estimate")):  # fmt: skip
        if question.get(name) is not None:
            raise SpecError(name, [("", why)])
    candidates, named, d = among(devices), prices_by_id(prices), candidate(model, question)
    mine = {}
    if d.calibration == "user":
        mine = {x.id: calibrated(replace(d, device=x), d.engine or engines.DEFAULT).constants for x in candidates}
    ranked = ranking(rank_by, named)
    most, told = at_least_one("most", most), None if watch is None else lambda i, x: watch(i, len(candidates), x)
    return search(d, candidates, most=most, prices=named, rank_by=ranked, constants=mine, every_layout=every_layout, watch=told)


def among(devices: str | Sequence[str | Device] | None) -> list[Device]:
    """The candidates of a search, each once, in text joined by commas; None: every packaged device."""
    if isinstance(devices, str):
        devices = [name.strip() for name in devices.split(",")]
    if devices is not None and any(isinstance(name, str) and not name.strip() for name in devices):
        raise SpecError("devices", [("", "an empty name; write ids, names or sizes with commas between them, such as h100,l4")])
    found = list({x.id: x for x in map(device, devices)}.values()) if devices is not None else catalogue.devices()
    if not found:
        raise SpecError("devices", [("", "name at least one")])
    return found


def prices_by_id(prices: Mapping[str, float] | None) -> dict[str, float]:
    """What users pay for a device, by its id."""
    return {device(name).id: _price(name, price) for name, price in (prices or {}).items()}


def candidate(model: str | PathLike[str] | ModelSpec, question: Mapping[str, Any]) -> Deployment:
    """The question of a search for devices, as a device will be asked it."""
    if question.get("engine") is not None:
        return deployment(model, **question)
    return replace(deployment(model, **{**question, "engine": engines.DEFAULT}), engine=None)


def ranking(rank_by: str | None, prices: Mapping[str, float]) -> str | None:
    from kvplan.planner.speed import RANKINGS

    if rank_by is None:
        return None
    name = rank_by.strip().lower().replace("-", "_")
    if name not in RANKINGS:
        raise UnknownName("ranking", rank_by, list(RANKINGS))
    if name in ("price", "cost_per_token") and not prices:
        raise SpecError("rank_by", [("", f"{name} needs prices, which are yours to give: --price DEVICE=PRICE")])
    return name


def compare(*questions: Mapping[str, Any], rank_by: str | None = None, prices: Mapping[str, float] | None = None) -> tuple[Row, ...]:
    """Questions side by side, what differs first; each is a mapping of `model` and the contract's names.

    rank_by  as for `fit`: the values of every row in that order, the best first; None: as they were asked
    prices   device id -> price of one, per hour for the cost of tokens

    The rows of speed are bounds (`kvplan.roofline`), None where a question has no device or its device declares no rates.

    >>> rows = compare({"model": "meta-llama/llama-3.1-8b", "context": "8k"}, {"model": "meta-llama/llama-3.1-8b", "context": "16k"})
    >>> [row.ratios for row in rows if row.name == "cache of a sequence"]
    [(1.0, 2.0)]
    >>> one = {"model": "meta-llama/llama-3.1-8b", "engine": "ideal", "device": "h100", "context": "8k"}
    >>> rows = compare(one, one | {"kv_dtype": "fp8"}, rank_by="tokens_per_second")
    >>> [row.values for row in rows if row.name == "kv_dtype"]
    [('fp8', 'auto')]
    """
    from kvplan.planner.compare import Compared, ranked
    from kvplan.planner.compare import compare as side_by_side

    if not questions:
        raise SpecError("compare", [("", "name at least one question")])
    named = prices_by_id(prices)
    compared = []
    for question in questions:
        if "model" not in question:
            raise SpecError("compare", [("model", "every question names its model")])
        d = asked(**question)
        compared.append(Compared.of(*with_offload(d, evaluate(d)), named))
    return side_by_side(ranked(compared, ranking(rank_by, named)))


def _price(name: str, price: Any) -> float:
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
        raise SpecError("prices", [(name[:60], f"{str(price)[:60]!r} is not a price; write a number such as 2.5")])
    return float(price)


def roofline(model: str | PathLike[str] | ModelSpec, **question: Unpack[Question]) -> Roofline:
    """The least time a decode step and a prompt can take on the question's device: bytes over bandwidth, operations over rate.

    Of a device without a published rate memory bounds decoding alone, and a prompt is not bounded (`rated`).

    >>> roofline("meta-llama/llama-3.1-8b", device="h100", engine="ideal", context="8k").decode.bound_by
    'memory'
    """
    from kvplan.planner.speed import speed

    return speed(asked(model, **question), unrated=True)


class Sweep(NamedTuple):
    """A grid of questions: what stays the same, and the axes."""

    question: Deployment
    over: Grid


#: Values of one axis: each is read and kept.
MOST_VALUES = 1_000_000


def sweep(model: str | PathLike[str] | ModelSpec, axes: Mapping[str, Sequence[Any] | str], **question: Unpack[Question]) -> Sweep:
    """A grid over any names of a question; `sweep_ranges` evaluates it. Needs numpy (the `sweep` extra).

    >>> job = sweep("meta-llama/llama-3.1-8b", {"context": ["8k", "16k"], "batch": range(1, 3)}, engine="ideal")
    >>> [columns["cache_total_bytes"].tolist() for _, columns in sweep_ranges(job)]
    [[1073741824, 2147483648, 2147483648, 4294967296]]
    """
    try:
        from kvplan.planner.sweep import ERROR, columns, grid
    except ImportError:
        raise missing("a sweep needs numpy", "sweep") from None
    if not axes:
        raise SpecError("grid", [("", "name at least one axis, such as --grid context=8k:1m:x2, or give several values of an option")])
    both = [name for name in axes if question.get(name) is not None]
    if both:
        raise SpecError("grid", [(name, "is an axis and an option; keep one") for name in both])
    values_of: dict[str, list[Any]] = {}
    for name, values in axes.items():
        if name not in NAMES or NAMES[name].kind == "options":
            raise UnknownName("axis", name, [n for n in NAMES if NAMES[n].kind != "options"])
        if isinstance(values, str):
            values = [one.strip() for one in values.split(",")]
        if len(values) > MOST_VALUES:
            raise SpecError("grid", [(name, f"more than {MOST_VALUES:,} values on one axis; write a step, such as 1k:1m:x2")])
        values_of[name] = [read(name, value) for value in values]
        if not values_of[name]:
            raise SpecError("grid", [(name, "an axis without values")])
    d = candidate(model, question) if "device" in axes and "engine" not in axes else deployment(model, **question)
    over = grid(values_of, _constants(d, values_of))
    first, last = (columns(d, over, i, i + 1) for i in (0, over.size - 1))
    if all(one["cache_total_bytes"][0] is None for one in (first, last)):  # a mistake rather than a point that contradicts itself
        raise KvplanError(first[ERROR][0])
    return Sweep(d, over)


def _constants(d: Deployment, axes: Mapping[str, list[Any]]) -> dict[Any, Any]:
    """The measured constants that points of the grid would use, where axes change which those are."""
    from kvplan.planner.sweep import constants_of

    names = [name for name in ("engine", "device", "calibration") if name in axes]
    found: dict[Any, Any] = {}
    for values in product(*(axes[name] for name in names)) if names else ():
        point = replace(d, **dict(zip(names, values, strict=True)))
        key = constants_of(point)
        if key not in found:
            found[key] = calibrated(point).constants
    return found


def sweep_ranges(
    job: Sweep, rows: int = 100_000, start: int = 0, scheduler: str | None = None, workers: int | None = None
) -> Iterator[tuple[int, Columns]]:
    """The points of a sweep from `start` on, `rows` at a time: how many, and a column for each axis and figure.

    scheduler  a Dask scheduler's address, or `local`; None evaluates here

    >>> job = sweep("meta-llama/llama-3.1-8b", {"batch": range(1, 6)}, engine="ideal", context="8k", kv_memory="4GiB")
    >>> [(n, columns["fits"].tolist()) for n, columns in sweep_ranges(job, rows=3)]
    [(3, [True, True, True]), (2, [True, False])]
    """
    from kvplan.planner.sweep import chunks, columns

    ranges = chunks(job.over, rows, start)
    if scheduler is None:
        yield from ((last - first, columns(job.question, job.over, first, last)) for first, last in ranges)
        return
    from kvplan import cluster

    with cluster.connected(scheduler, workers) as client:
        yield from cluster.columns(client, job.question, job.over, ranges)
