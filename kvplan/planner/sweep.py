"""Grids of questions: any names of the contract as axes, millions of points.

A range of points is a pure function of the question, the grid and two indices, so that a sweep can be streamed, resumed and dealt to
many machines. With an engine that has a `surface` (bytes as curves over context and batch), those two axes are evaluated on arrays;
the others, and other engines, point by point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.engines.base import Surface
from kvplan.planner.evaluate import default_engine, evaluate
from kvplan.planner.plan import Plan

VECTOR = ("context", "batch")
FIGURES = (
    "cache_bytes_per_sequence", "cache_total_bytes", "rank_total_bytes", "kv_bytes", "tokens", "max_concurrency",
    "starts", "fits", "margin_bytes",
)  # fmt: skip
Columns = dict[str, np.ndarray[Any, Any]]


class Grid(NamedTuple):
    """Axes, slowest first; context and batch, where they are axes, last. A point's index counts them like an odometer."""

    axes: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def size(self) -> int:
        return prod(len(values) for _, values in self.axes)


def grid(axes: Mapping[str, Sequence[Any]]) -> Grid:
    """The grid of some axes, in the order in which its points are counted."""
    names = sorted(axes, key=lambda name: (name in VECTOR, VECTOR.index(name) if name in VECTOR else 0))
    return Grid(tuple((name, tuple(axes[name])) for name in names))


def columns(d: Deployment, over: Grid, start: int, stop: int) -> Columns:
    """Points [start, stop) of the grid: a column for each axis and for each of FIGURES; bytes as integers, None where there is none.

    Equal on every point to `evaluate`.
    """
    inner = tuple(values for name, values in over.axes if name in VECTOR)
    block = prod(len(values) for values in inner)
    parts = []
    while start < stop:
        end = min(stop, (start // block + 1) * block)
        parts.append(_block(d, over, start, end, block))
        start = end
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _block(d: Deployment, over: Grid, start: int, stop: int, block: int) -> Columns:
    outer = [(name, values) for name, values in over.axes if name not in VECTOR]
    fixed = _combination(outer, start // block)
    asked = replace(d, **fixed)
    engine = engines.find(asked.engine or default_engine(asked))
    context, batch = _inner(over, asked, start % block, start % block + stop - start)
    surface = engine.surface(asked) if hasattr(engine, "surface") else None
    n = stop - start
    shown = {name: np.full(n, _plain(value), dtype=object) for name, value in fixed.items()}
    axes = {name: array for name, array in (("context", context), ("batch", batch)) if any(name == axis for axis, _ in over.axes)}
    figures = _on_arrays(surface, context, batch) if surface else _one_by_one(asked, context, batch)
    return {**shown, **axes, **figures}


def _combination(axes: Sequence[tuple[str, tuple[Any, ...]]], index: int) -> dict[str, Any]:
    chosen = {}
    for name, values in reversed(axes):
        index, i = divmod(index, len(values))
        chosen[name] = values[i]
    return dict(reversed(chosen.items()))


def _inner(over: Grid, asked: Deployment, first: int, last: int) -> tuple[Any, Any]:
    """Context and batch of the points, from the grid where they are axes, else as asked (context by the engine's default)."""
    axes = dict(over.axes)
    index = np.arange(first, last)
    n_batch = len(axes.get("batch", (0,)))
    question = engines.find(asked.engine or default_engine(asked)).settle(asked).question
    contexts = np.asarray(axes.get("context", (question.context,)), dtype=np.int64)
    batches = np.asarray(axes.get("batch", (question.batch,)), dtype=np.int64)
    return contexts[index // n_batch], batches[index % n_batch]


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
        "fits": margin >= 0,
        "margin_bytes": margin,
    }


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


def _one_by_one(asked: Deployment, context: Any, batch: Any) -> Columns:
    plans = [evaluate(replace(asked, context=int(c), batch=int(b))) for c, b in zip(context, batch, strict=True)]
    return {name: _column([figure(plan, name) for plan in plans]) for name in FIGURES}


def _column(values: list[Any]) -> Any:
    return np.asarray(values) if all(v is not None and abs(v) < 1 << 62 for v in values) else np.asarray(values, dtype=object)


def figure(plan: Plan, name: str) -> Any:
    """One of FIGURES of a plan."""
    if name in ("starts", "fits", "margin_bytes"):
        return getattr(plan, name)
    if name == "rank_total_bytes":
        return max(ledger.total_bytes for ledger in plan.ledgers)
    if name.startswith("cache_"):
        return plan.cache.total_bytes if name == "cache_total_bytes" else plan.cache.bytes_per_sequence
    return getattr(plan.capacity, name) if plan.capacity else None


def chunks(over: Grid, rows: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """The grid's points as ranges of at most `rows`."""
    for first in range(start, over.size, rows):
        yield first, min(first + rows, over.size)
