"""A bar for each distinct device: what weights, cache and the rest take of it, and how far the engine may go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan import engines
from kvplan.ledger import Ledger
from kvplan.planner.plan import Plan
from kvplan.report.printable import one_line
from kvplan.report.screen import Screen
from kvplan.report.words import engine
from kvplan.units import GIB, size

#: What a part is drawn with: a block, its stand-in where there are none, its colour (ECMA-48 SGR).
_MARKS = {
    "weights": ("█", "#", 34),
    "cache": ("▓", "=", 32),
    "cache to spare": ("░", "-", 36),
    "overhead": ("▒", "+", 33),
    "free": ("·", ".", 90),
    "lacking": ("▞", "X", 31),
}
_LIMIT = ("│", "|")
_LEAST_BAR = 20


class Part(NamedTuple):
    """A stretch of a bar, in bytes."""

    name: str
    bytes: int


class Bar(NamedTuple):
    """One distinct device: its parts in order, where the engine's limit is (None: nowhere, or at the end) and what there is of it."""

    label: str
    parts: tuple[Part, ...]
    limit: int | None
    has: int | None
    several: bool

    @property
    def title(self) -> str:
        return f"{self.label}{', each' if self.several else ''}"


def bars(plan: Plan, screen: Screen) -> str:
    """A bar and its legend for every distinct device of the plan, all on one scale."""
    found = bars_of(plan)
    if not found:
        return ""
    label = max(len(bar.label) for bar in found)
    ends = [_end(bar) for bar in found]
    width = max(screen.width - label - max(map(len, ends)) - 4, _LEAST_BAR)
    scale = max(max(sum(p.bytes for p in bar.parts), bar.has or 0) for bar in found)
    lines = []
    for bar, end in zip(found, ends, strict=True):
        lines.append(f"{bar.label:<{label}}  {_drawn(bar, width, scale, screen)}  {end}")
        lines.append(_legend(plan, bar, label, screen))
    return "\n".join(lines)


def bars_of(plan: Plan) -> list[Bar]:
    """What is drawn: devices that hold something."""
    return [bar for bar in (bar_of(plan, ledger) for ledger in plan.ledgers) if bar.parts]


def bar_of(plan: Plan, ledger: Ledger) -> Bar:
    """What is drawn of a device."""
    margin = plan.margin_bytes or 0
    mine = plan.outcome.limiting_rank in ledger.ranks
    weights, cache = ledger.bytes_of("weights"), ledger.bytes_of("cache")
    outside = sum(entry.bytes for entry in ledger.outside)
    rest = ledger.total_bytes - weights - cache
    spare = margin if mine and plan.fits and _pooled(plan) and 0 < margin < cache else 0
    has = ledger.device_bytes or ledger.limit_bytes
    held = ledger.total_bytes + outside
    over = ledger.limit_bytes is not None and ledger.total_bytes > ledger.limit_bytes
    lacking = -margin if mine and not over and margin < 0 else 0
    parts = (("weights", weights), ("cache", cache - spare), ("cache to spare", spare), ("overhead", rest + outside),
             ("lacking", lacking), ("free", max((has or 0) - held - lacking, 0)))  # fmt: skip
    limit = ledger.limit_bytes if ledger.limit_bytes is not None and (ledger.limit_bytes != has or held > ledger.limit_bytes) else None
    return Bar(ledger.place, tuple(Part(*part) for part in parts if part[1]), limit, has, len(ledger.ranks) > 1)


def _pooled(plan: Plan) -> bool:
    """The cache's line is a pool, not what the sequences need."""
    return engines.facts(plan.asked("engine")).pool == "set aside" or plan.asked("kv_memory") is not None


def _end(bar: Bar) -> str:
    total = bar.has or sum(part.bytes for part in bar.parts)
    return f"{total / GIB:,.2f} GiB{' each' if bar.several else ''}"


def _drawn(bar: Bar, width: int, scale: int, screen: Screen) -> str:
    """Parts cut at whole columns, so that together they are as wide as their sum; the limit takes a column of its own."""
    cells: list[tuple[str, int]] = []
    sofar = 0
    for part in bar.parts:
        char, plain, colour = _MARKS[part.name]
        n = round((sofar + part.bytes) * width / scale) - round(sofar * width / scale)
        sofar += part.bytes
        cells += [(char if screen.blocks else plain, colour)] * n
    cells += [(" ", 0)] * (width - len(cells))
    if bar.limit is not None:
        at = min(round(bar.limit * width / scale), width - 1)
        cells[at] = (_LIMIT[0] if screen.blocks else _LIMIT[1], 0)
    return "".join(screen.paint(text, colour) if colour else text for text, colour in _runs(cells))


def _runs(cells: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    start = 0
    for i in range(1, len(cells) + 1):
        if i == len(cells) or cells[i] != cells[start]:
            yield "".join(char for char, _ in cells[start:i]), cells[start][1]
            start = i


def _legend(plan: Plan, bar: Bar, label: int, screen: Screen) -> str:
    words = [(*_MARKS[part.name], f"{part.name} {_figure(part.bytes)}") for part in bar.parts]
    if bar.limit is not None:
        whose = "" if bar.limit == bar.has else f" of {one_line(engine(plan))}"
        words.append((*_LIMIT, 0, f"limit{whose} {_figure(bar.limit)}"))
    lines, used, indent = [""], 0, " " * (label + 2)
    for char, plain, colour, text in words:
        needs = len(text) + 4
        if used and len(indent) + used + needs > screen.width:
            lines, used = [*lines, ""], 0
        lines[-1] += f"{screen.paint(char if screen.blocks else plain, colour) if colour else char if screen.blocks else plain} {text}  "
        used += needs
    return "\n".join(indent + line.rstrip() for line in lines)


def _figure(n: int) -> str:
    return f"{n / GIB:,.2f} GiB" if n >= GIB // 100 else size(n)
