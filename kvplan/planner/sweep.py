"""Grids of questions: any names of the contract as axes, millions of points.

A range of points is a pure function of the question, the grid and two indices, so that a sweep can be streamed, resumed and dealt to
many machines. Context and batch are evaluated on arrays where the engine has a `surface` (its answer as curves over the two): `ideal`,
and `vllm` with a max_model_len that is chosen; without one vLLM's settings follow the context, and it is batch alone. Other axes are
lowered once for each combination; other engines answer point by point. A point that can not be asked, or that its engine
refuses, says why in a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kvplan import engines
from kvplan.constants import Constants
from kvplan.deployment import Deployment
from kvplan.engines.common.checks import refusal
from kvplan.engines.common.protocol import Pooled, Surface
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan

VECTOR = ("context", "batch")
FIGURES = (
    "cache_bytes_per_sequence", "cache_total_bytes", "rank_total_bytes", "kv_bytes", "tokens", "max_concurrency",
    "starts", "fits", "margin_bytes",
)  # fmt: skip
ERROR = "error"  # the column that says why a point could not be asked, or what its engine stops with, whatever memory there is
ConstantsOf = tuple[str, str, str | None]
Columns = dict[str, np.ndarray[Any, Any]]


class Grid(NamedTuple):
    """Axes, slowest first; context and batch, where they are axes, last. A point's index counts them like an odometer.

    constants  measured constants by engine, calibration and device, where points differ in one of them
    """

    axes: tuple[tuple[str, tuple[Any, ...]], ...]
    constants: Mapping[ConstantsOf, Constants | None] = {}

    @property
    def size(self) -> int:
        return prod(len(values) for _, values in self.axes)


def grid(axes: Mapping[str, Sequence[Any]], constants: Mapping[ConstantsOf, Constants | None] | None = None) -> Grid:
    """The grid of some axes, in the order in which its points are counted."""
    names = sorted(axes, key=lambda name: (name in VECTOR, VECTOR.index(name) if name in VECTOR else 0))
    return Grid(tuple((name, tuple(axes[name])) for name in names), constants or {})


def constants_of(d: Deployment) -> ConstantsOf:
    """What the measured constants of a question are looked up by: engine, calibration, and the device where they are the user's."""
    which = d.calibration or "packaged"
    return d.engine or engines.default(d), which, d.device.id if d.device and which == "user" else None


def columns(d: Deployment, over: Grid, start: int, stop: int) -> Columns:
    """Points [start, stop) of the grid: a column for each axis, for each of FIGURES and for the error; bytes as integers, None for none.

    Equal on every point to `evaluate`.
    """
    inner = tuple(values for name, values in over.axes if name in VECTOR)
    block = prod(len(values) for values in inner)
    parts = []
    while start < stop:
        end = min(stop, (start // block + 1) * block)
        parts.append(_block(d, over, start, end, block))
        start = end
    return _joined(parts)


def _block(d: Deployment, over: Grid, start: int, stop: int, block: int) -> Columns:
    """Points that differ in context and batch alone."""
    outer = [(name, values) for name, values in over.axes if name not in VECTOR]
    fixed = _combination(outer, start // block)
    asked, n = replace(d, **fixed), stop - start
    asked = replace(asked, constants=over.constants.get(constants_of(asked), d.constants))
    inner = _inner(over, start % block, start % block + n)
    shown = {name: np.full(n, _plain(value), dtype=object) for name, value in fixed.items()}
    return {**shown, **inner, **_figures(asked, inner, n)}


def _figures(asked: Deployment, inner: Columns, n: int) -> Columns:
    """FIGURES and the error of the points of one combination, from as few answers of the engine as there are."""
    try:
        engine, settled = engines.settle(replace(asked, context=asked.context or 1))
        judged = asked.kv_memory is not None and asked.device is not None  # against the device, which no curve knows
        if engine.surface is None or judged or settled.lacks or refusal(settled.question, engine.facts):
            return _one_by_one(asked, inner, n)
        context = inner.get("context")
        if context is None:
            context = np.full(n, asked.context or engines.settle(asked)[1].question.context, dtype=np.int64)
        batch = inner.get("batch")
        batch = np.full(n, asked.batch or 1, dtype=np.int64) if batch is None else batch
        surface = engine.surface(replace(asked, context=None, batch=None))
        if surface is not None:
            return _on_surface(surface, context, batch)
    except KvplanError:
        return _one_by_one(asked, inner, n)
    parts = []
    for first, last in pairwise([0, *(np.flatnonzero(np.diff(context)) + 1).tolist(), n]):
        part = {name: values[first:last] for name, values in inner.items()}
        surface = None
        if last - first > 1:
            with suppress(KvplanError):
                surface = engine.surface(replace(asked, context=int(context[first]), batch=None))
        if surface is not None:
            parts.append(_on_surface(surface, context[first:last], batch[first:last]))
        else:
            parts.append(_one_by_one(asked, part, last - first))
    return _joined(parts)


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _on_surface(surface: Surface | Pooled, context: Any, batch: Any) -> Columns:
    figures = _on_pool(surface, context, batch) if isinstance(surface, Pooled) else _on_arrays(surface, context, batch)
    return figures | {ERROR: np.full(len(context), None, dtype=object)}


def _combination(axes: Sequence[tuple[str, tuple[Any, ...]]], index: int) -> dict[str, Any]:
    chosen = {}
    for name, values in reversed(axes):
        index, i = divmod(index, len(values))
        chosen[name] = values[i]
    return dict(reversed(chosen.items()))


def _inner(over: Grid, first: int, last: int) -> Columns:
    """Context and batch of the points, where they are axes."""
    axes = dict(over.axes)
    index = np.arange(first, last)
    n_batch = len(axes.get("batch", (0,)))
    at = {"context": index // n_batch, "batch": index % n_batch}
    return {name: np.asarray(axes[name], dtype=np.int64)[at[name]] for name in VECTOR if name in axes}


def _plain(value: Any) -> Any:
    return getattr(value, "id", value)


def _on_arrays(surface: Surface, context: Any, batch: Any) -> Columns:
    held = -(-batch // surface.replicas)
    if _exceeds_64_bits(surface, int(context.max()), int(held.max()) * surface.replicas):
        context, batch, held = (array.astype(object) for array in (context, batch, held))
    per_sequence = _at(surface.whole, context)
    totals, margins, ratios, needs, haves = [], [], [], [], []
    for rank in surface.ranks:
        need = _at(rank.curve, context)
        totals.append(rank.fixed_bytes + held * need)
        if rank.kv_bytes is not None:
            margins.append(rank.kv_bytes - held * need)
            have = max(rank.kv_bytes, 0)
            needs.append(need)
            haves.append(np.full_like(need, have))
            ratios.append(need / (have or 0.5))
    figures: Columns = {
        "cache_bytes_per_sequence": per_sequence,
        "cache_total_bytes": per_sequence * batch,
        "rank_total_bytes": np.maximum.reduce(totals),
    }
    if not margins:
        nothing = np.full(len(context), None, dtype=object)
        return figures | dict.fromkeys(FIGURES[3:], nothing)
    ratio = np.asarray(ratios, dtype=float)
    costly = ratio.max(axis=0) > 0
    tightest = np.where(costly, ratio.argmax(axis=0), np.asarray(haves).argmin(axis=0))
    rows = np.arange(len(context))
    request, kv_bytes = np.asarray(needs)[tightest, rows], np.asarray(haves)[tightest, rows]
    divisor = np.where(costly, request, 1)
    whole, rest = kv_bytes // divisor, kv_bytes % divisor
    margin = np.minimum.reduce(margins)
    starts = min(rank.kv_bytes for rank in surface.ranks if rank.kv_bytes is not None) >= 0
    return figures | {
        "kv_bytes": kv_bytes,
        "tokens": _where(costly, whole * context + rest * context // divisor),
        "max_concurrency": _where(costly, kv_bytes / divisor),
        "starts": np.full(len(context), starts),
        "fits": (margin >= 0) & (context <= (surface.longest or context)),
        "margin_bytes": margin,
    }


def _on_pool(pool: Pooled, context: Any, batch: Any) -> Columns:
    held = -(-batch // pool.replicas)
    if _pool_exceeds_64_bits(pool, int(context.max()), int(held.max())):
        context, batch, held = (array.astype(object) for array in (context, batch, held))
    per_sequence = _at(pool.whole, context)
    units = sum((np.maximum.reduce([_at(curve, context) for curve in group]) for group in pool.request), np.zeros_like(context))
    margin = (pool.free_units - held * units) * pool.unit_bytes
    starts = pool.lack_bytes is None
    if pool.lack_bytes is not None:
        margin = np.minimum(margin, pool.lack_bytes)
    fits = starts & (context <= pool.longest) & (held <= pool.most) & (margin >= 0)
    same = {name: getattr(pool, name) for name in ("rank_total_bytes", "kv_bytes", "tokens", "max_concurrency")} | {"starts": starts}
    figures = {"cache_bytes_per_sequence": per_sequence, "cache_total_bytes": per_sequence * batch, "fits": fits, "margin_bytes": margin}
    return {name: figures[name] if name in figures else np.full(len(context), same[name]) for name in FIGURES}


def _pool_exceeds_64_bits(pool: Pooled, context: int, held: int) -> bool:
    units = sum(max(curve.at(context) for curve in group) for group in pool.request)
    return max(pool.whole.at(context) * held * pool.replicas, (pool.free_units + held * units) * pool.unit_bytes) >= 1 << 62


def _where(mask: Any, values: Any) -> Any:
    if mask.all():
        return values
    result = values.astype(object)
    result[~mask] = None
    return result


def _at(curve: Any, tokens: Any) -> Any:
    """Curve.at on an array."""
    n_bytes = np.full_like(tokens, curve.fixed_bytes)
    for unit_bytes, unit_tokens, cap in curve.terms:
        units = -(-tokens // unit_tokens)
        n_bytes = n_bytes + unit_bytes * (units if cap is None else np.minimum(units, cap))
    return n_bytes


def _exceeds_64_bits(surface: Surface, context: int, batch: int) -> bool:
    """Whether any intermediate could leave 63 bits; then arrays of Python integers do the same, slower."""
    most = max(surface.whole.at(context) * batch, context**2)
    for rank in surface.ranks:
        need = rank.curve.at(context)
        most = max(most, need * batch + rank.fixed_bytes, need * context, (rank.kv_bytes or 0) * 2, (rank.kv_bytes or 0) * context)
    return most >= 1 << 62


def _one_by_one(asked: Deployment, inner: Columns, n: int) -> Columns:
    points = [dict(zip(inner, values, strict=True)) for values in zip(*(column.tolist() for column in inner.values()), strict=True)]
    answers = [_answer(replace(asked, **point)) for point in points or [{}] * n]
    return {name: _column([answer[name] for answer in answers]) for name in (*FIGURES, ERROR)}


def _answer(d: Deployment) -> dict[str, Any]:
    try:
        plan = evaluate(d)
    except KvplanError as error:
        return dict.fromkeys(FIGURES) | {ERROR: str(error)}
    checked = plan.starts is False and plan.margin_bytes is None
    return {name: figure(plan, name) for name in FIGURES} | {ERROR: plan.outcome.reason if checked else None}


def _column(values: list[Any]) -> Any:
    small = all(v is not None and not isinstance(v, str) and abs(v) < 1 << 62 for v in values)
    return np.asarray(values) if small else np.asarray(values, dtype=object)


def figure(plan: Plan, name: str) -> Any:
    """One of FIGURES of a plan."""
    if name in ("starts", "fits", "margin_bytes"):
        return getattr(plan, name)
    if name == "rank_total_bytes":
        return plan.rank_total_bytes
    if name.startswith("cache_"):
        return plan.cache.total_bytes if name == "cache_total_bytes" else plan.cache.bytes_per_sequence
    return getattr(plan.capacity, name) if plan.capacity else None


def chunks(over: Grid, rows: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """The grid's points as ranges of at most `rows`."""
    for first in range(start, over.size, rows):
        yield first, min(first + rows, over.size)
