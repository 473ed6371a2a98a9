"""A hit curve as inline SVG: the share found by the cache's size, on a logarithmic scale, between its bounds; the plan's own pool on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from kvplan.planner.hits import HitCurve, HitPoint
from kvplan.report.drawn import WIDTH, text
from kvplan.units import show_bytes

_LEFT, _TOP, _RIGHT, _BOTTOM, _HIGH = 70, 24, 20, 32, 260
#: Sizes named along the axis.
_TICKS = 5
#: What is drawn, under which name, and how.
LINES: Sequence[tuple[str, str, Callable[[HitPoint], float | None]]] = (
    ("best possible", "bound", lambda point: point.optimum),
    ("first in, first out", "bound", lambda point: point.fifo),
    ("found", "curve", lambda point: point.found),
)


def hits_figure(curve: HitCurve) -> str:
    """The picture; nothing where there are not two sizes."""
    points = curve.points
    if len(points) < 2 or points[-1].pages <= points[0].pages:
        return ""
    low, high = points[0].pages, max(points[-1].pages, curve.pool.pages if curve.pool else 0)
    top = max(math.ceil(10 * max(point.optimum or point.found for point in points)) / 10, 0.1)
    scale = (WIDTH - _LEFT - _RIGHT) / math.log(high / low)

    def x(pages: int) -> float:
        return _LEFT + math.log(pages / low) * scale

    def y(share: float) -> float:
        return _TOP + _HIGH * (1 - share / top)

    title = "prompt tokens found, by the size of the cache of a rank"
    body = "".join([*_axes(points, x, y, top), *_lines(curve, x, y), *_pool(curve, x, y)])
    legend = "".join(f'<li><i class="{kind}"></i>{text(name)}</li>' for name, kind, of in reversed(LINES) if of(points[-1]) is not None)
    return (
        f'<figure><figcaption>{text(title)}</figcaption><svg viewBox="0 0 {WIDTH} {_TOP + _HIGH + _BOTTOM}" role="img"'
        f' aria-label="{text(title)}">{body}</svg><ul class="legend">{legend}</ul></figure>'
    )


def _axes(points: Sequence[HitPoint], x: Callable[[int], float], y: Callable[[float], float], top: float) -> Iterator[str]:
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{_TOP + _HIGH}H{WIDTH - _RIGHT}"/>'
    for share in (0.0, top / 2, top):
        yield f'<text x="{_LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
    for n in range(_TICKS):
        point = points[n * (len(points) - 1) // (_TICKS - 1)]
        anchor = "start" if n == 0 else "end" if n == _TICKS - 1 else "middle"
        size = show_bytes(point.bytes) if point.bytes else f"{point.pages:,} pages"
        yield f'<text x="{x(point.pages):.1f}" y="{_TOP + _HIGH + 20}" text-anchor="{anchor}">{text(size)}</text>'


def _lines(curve: HitCurve, x: Callable[[int], float], y: Callable[[float], float]) -> Iterator[str]:
    for name, kind, of in LINES:
        row = [(point.pages, share) for point in curve.points if (share := of(point)) is not None]
        if row:
            ends = " ".join(f"{x(pages):.1f},{y(share):.1f}" for pages, share in row)
            yield f'<polyline class="{kind}" points="{ends}"><title>{text(name)}</title></polyline>'


def _pool(curve: HitCurve, x: Callable[[int], float], y: Callable[[float], float]) -> Iterator[str]:
    if curve.pool is None:
        return
    at = x(curve.pool.pages)
    side, anchor = (-6, "end") if at > WIDTH / 2 else (6, "start")
    told = f"your pool: {100 * curve.pool.found:.1f} %" + ("" if curve.batched is None else f", {100 * curve.batched:.1f} % with batching")
    yield f'<line class="limit" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 14}" y2="{_TOP + _HIGH}"/>'
    yield f'<text x="{at + side:.1f}" y="{_TOP - 10}" text-anchor="{anchor}">{text(told)}</text>'
