"""Pictures of a plan as inline SVG: a stacked bar for each distinct device, the cache against the length. No script, no request."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from kvplan.planner.plan import Plan
from kvplan.report.bars import Bar, bars_of
from kvplan.report.printable import one_line
from kvplan.report.words import engine
from kvplan.units import counted, size

WIDTH, BAR_HEIGHT, LINE = 760, 34, 20
_LEFT, _TOP, _RIGHT, _BOTTOM, _HIGH = 90, 28, 20, 36, 220


def text(value: object) -> str:
    """Foreign text as text of a page: one line, printable, escaped, quotes too."""
    return escape(one_line(value))


def device_bars(plan: Plan) -> str:
    """A bar for each distinct device, all on one scale, each with its legend."""
    found = bars_of(plan)
    scale = max((max(sum(p.bytes for p in bar.parts), bar.has or 0, bar.limit or 0) for bar in found), default=0)
    return "".join(_bar(plan, bar, scale) for bar in found if scale)


def _bar(plan: Plan, bar: Bar, scale: int) -> str:
    title = f"{bar.title}: {size(bar.has or sum(part.bytes for part in bar.parts))}"
    return (
        f'<figure><figcaption>{text(title)}</figcaption><svg viewBox="0 0 {WIDTH} {BAR_HEIGHT}" role="img" aria-label="{text(title)}">'
        f'{"".join(_parts(bar, scale))}</svg><ul class="legend">{"".join(_legend(plan, bar))}</ul></figure>'
    )


def _parts(bar: Bar, scale: int) -> Iterator[str]:
    start = 0
    for part in bar.parts:
        x, end = start * WIDTH / scale, (start + part.bytes) * WIDTH / scale
        start += part.bytes
        yield (
            f'<rect class="{_class(part.name)}" x="{x:.2f}" y="4" width="{end - x:.2f}" height="{BAR_HEIGHT - 8}">'
            f"<title>{text(part.name)}: {part.bytes:,} B</title></rect>"
        )
    if bar.limit is not None:
        x = min(bar.limit * WIDTH / scale, WIDTH - 1)
        yield f'<line class="limit" x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="{BAR_HEIGHT}"><title>limit: {bar.limit:,} B</title></line>'


def _legend(plan: Plan, bar: Bar) -> Iterator[str]:
    for part in bar.parts:
        yield f'<li><i class="{_class(part.name)}"></i>{text(part.name)} {text(size(part.bytes))}</li>'
    if bar.limit is not None:
        yield f'<li><i class="limit"></i>limit of {text(engine(plan))} {text(size(bar.limit))}</li>'


def _class(name: str) -> str:
    return name.replace(" ", "-")


class Curve(NamedTuple):
    """Bytes of all sequences against tokens of one: corners, where it ends, and the longest length at which all of them fit."""

    points: tuple[tuple[int, float], ...]
    end: int
    longest: int | None


def curve_of(plan: Plan) -> Curve:
    """What is drawn of a plan's cache: up to a bit beyond the longest that fits, else to twice the length that was asked."""
    context, batch = plan.asked("context"), plan.asked("batch")
    longest = plan.capacity.max_context_at_batch if plan.capacity else None
    end = int(1.15 * max(context, longest)) + 1 if longest else 2 * context
    return Curve(tuple((n, batch * n_bytes) for n, n_bytes in _points(plan, end)), end, longest)


def cache_curve(plan: Plan) -> str:
    """The cache of all sequences against their length: the length that was asked, and the longest at which all of them fit."""
    context, batch = plan.asked("context"), plan.asked("batch")
    points, end, longest = curve_of(plan)
    high = max((n_bytes for _, n_bytes in points), default=0)
    if not high:
        return ""
    across, up = (WIDTH - _LEFT - _RIGHT) / end, _HIGH / high
    line = " ".join(f"{_LEFT + n * across:.1f},{_TOP + _HIGH - n_bytes * up:.1f}" for n, n_bytes in points)
    title = f"cache of {counted(batch, 'sequence')}, all layers, whole model"
    marks = [_mark(context, across, f"asked: {context:,} tokens, {size(plan.cache.total_bytes)}", "asked", 0)]
    marks += [_mark(longest, across, f"the longest that fits: {longest:,}", "limit", 1)] if longest else []
    return (
        f'<figure><figcaption>{text(title)}</figcaption><svg viewBox="0 0 {WIDTH} {_TOP + _HIGH + _BOTTOM}" role="img"'
        f' aria-label="{text(title)}"><path class="axis" d="M{_LEFT} {_TOP}V{_TOP + _HIGH}H{WIDTH - _RIGHT}"/>'
        f'<polyline class="curve" points="{line}"/>{"".join(marks)}'
        f'<text x="{_LEFT - 6}" y="{_TOP + 5}" text-anchor="end">{text(size(int(high)))}</text>'
        f'<text x="{_LEFT - 6}" y="{_TOP + _HIGH}" text-anchor="end">0</text>'
        f'<text x="{WIDTH - _RIGHT}" y="{_TOP + _HIGH + 30}" text-anchor="end">{end:,} tokens</text></svg></figure>'
    )


def _points(plan: Plan, end: int) -> Iterator[tuple[int, float]]:
    """Corners of one sequence's curve up to `end` tokens, from its segments."""
    segments = [segment for segment in plan.cache.curve if segment["from_tokens"] < end]
    for segment, then in zip(segments, [*(int(s["from_tokens"]) for s in segments[1:]), end], strict=True):
        for n in (int(segment["from_tokens"]), then):
            yield n, segment["fixed_bytes"] + segment["bytes_per_token"] * n


def _mark(n: int, across: float, told: str, kind: str, row: int) -> str:
    x = _LEFT + n * across
    anchor = "end" if x > WIDTH / 2 else "start"
    at = x + (-6 if anchor == "end" else 6)
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 12}" y2="{_TOP + _HIGH}"/>'
        f'<text x="{at:.1f}" y="{_TOP - 14 + row * LINE}" text-anchor="{anchor}">{text(told)}</text>'
    )
