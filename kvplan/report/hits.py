"""Hit curves as text: a line for each size, the contract's object, or flat rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvplan.planner.hits import HitCurve, HitPoint
from kvplan.report import render_answers, render_rows
from kvplan.report.printable import noted, one_line, prose
from kvplan.report.words import chosen, model
from kvplan.units import counted, show_bytes


def render(curves: Sequence[HitCurve], fmt: str) -> str | bytes:
    """The curves in a format."""
    return render_answers(curves, fmt, _flat, _one, _page)


def _page(curves: Sequence[HitCurve]) -> str:
    """One document, each curve with its picture."""
    from kvplan.report.hits_drawn import hits_figure
    from kvplan.report.html import page, question, rows_table

    body = [
        prose(_head(one), "html")
        + hits_figure(one)
        + rows_table(_rows(one))
        + "".join(prose(text, "html") for text in _after(one))
        + question(one.plan)
        for one in curves
    ]
    return page("hit rate by size", "\n".join(body))


def _flat(curve: HitCurve) -> list[dict[str, Any]]:
    question = {"model": curve.plan.model.id, **chosen(curve.plan), **curve.workload}
    return [question | {"own_pool": own} | point._asdict() for point, own in _points(curve)]


def _points(curve: HitCurve) -> list[tuple[HitPoint, bool]]:
    """In order of size, each with whether it is the plan's own pool."""
    own = [(curve.pool, True)] if curve.pool else []
    return sorted([*((point, False) for point in curve.points), *own], key=lambda one: one[0].pages)


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def _one(curve: HitCurve, fmt: str) -> str:
    rows = _rows(curve)
    parts = [prose(_head(curve), fmt), *([render_rows(rows, fmt)] if rows else []), *(prose(text, fmt) for text in _after(curve))]
    return "\n\n".join(parts)


def _rows(curve: HitCurve) -> list[dict[str, str]]:
    """A line for each size, without columns that are empty."""
    rows = [_row(point, own) for point, own in _points(curve)]
    return [{name: row[name] for name in row if any(one[name] for one in rows)} for row in rows]


def _after(curve: HitCurve) -> Iterator[str]:
    """What is said below the sizes."""
    if curve.pool is not None:
        text = f"your pool of {curve.pool.pages:,} pages: {_share(curve.pool.found)} of prompt tokens found, requests one after another"
        yield f"{text}; {_share(curve.batched)} with the engine's batching"
    for tier in curve.tiers:
        words = f"{tier.system}, {tier.tokens:,} tokens in {'RAM' if tier.place == 'cpu' else 'files'}"
        yield f"{words}: {_share(tier.found)} found in it or above it, {_share(tier.adds)} by it alone"
    if curve.notes:
        yield noted(curve.notes)


def _row(point: HitPoint, own: bool) -> dict[str, str]:
    return {
        "pages": f"{point.pages:,}", "tokens": f"{point.tokens:,}", "bytes a rank": show_bytes(point.bytes), "found": _share(point.found),
        "first in, first out": _share(point.fifo), "best possible": _share(point.optimum), " ": "your pool" if own else "",
    }  # fmt: skip


def _head(curve: HitCurve) -> str:
    what, plan = curve.workload, curve.plan
    where = f" on {plan.asked('n_devices') or 1} x {plan.asked('device')}" if plan.asked("device") else ""
    who = f"{model(plan)}, {plan.asked('engine')}{where}"
    if not curve.requests:
        return who
    many = f"{curve.requests:,} requests of {one_line(what['trace'] or what['name'])}, {curve.asked_tokens:,} prompt tokens"
    many += f"; {curve.too_long:,} more are longer than the longest request" if curve.too_long else ""
    how = {"stack distance": "every size in one pass", "samples": f"a sample of one page in {curve.one_in:,}"}.get(
        curve.method, "sizes run one by one"
    )
    pages = f"pages of {counted(curve.page_tokens, 'token')}, {show_bytes(curve.page_bytes)} a page and rank"
    most = f"at most {_share(curve.most)} found, with {curve.working_set:,} pages"
    return f"{who}: {pages}\n{many}\n{most} ({how})"
