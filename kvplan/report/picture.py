"""A plan as a picture for slides: a stacked bar for each distinct device, the cache against the length. Needs matplotlib (`plot` extra)."""

from __future__ import annotations

import textwrap
from typing import Any

from kvplan.planner.plan import Plan
from kvplan.report import answer
from kvplan.report.bars import Bar, bars_of
from kvplan.report.drawn import curve_of
from kvplan.report.first import model_line
from kvplan.report.plot import save
from kvplan.report.printable import one_line
from kvplan.report.words import engine
from kvplan.units import GIB, counted, size

COLOURS = {
    "weights": "#3b6fb6", "cache": "#2e8b57", "cache to spare": "#8fd0a8", "overhead": "#d9902f", "free": "#e6eaee", "lacking": "#c93c37",
}  # fmt: skip


def draw(plan: Plan, path: str) -> None:
    """Writes the picture to a file. Raises SpecError where it can not be written."""
    from matplotlib.figure import Figure

    found = bars_of(plan)
    figure = Figure(figsize=(12, 5 + 0.5 * len(found)), layout="constrained")
    upper, lower = figure.subplots(2, 1, height_ratios=[1 + 0.5 * len(found), 3])
    title = "\n".join(textwrap.wrap(one_line(answer.sentence(plan)), 100))
    figure.suptitle(title, parse_math=False, fontweight="bold")
    _bars(upper, plan, found)
    _curve(lower, plan)
    save(figure, path)


def _bars(panel: Any, plan: Plan, found: list[Bar]) -> None:
    """In GiB, the engine's limit as a dashed line on each bar that has one."""
    said: set[str] = set()
    for row, bar in enumerate(found):
        start = 0
        for part in bar.parts:
            label = None if part.name in said else part.name
            panel.barh(row, part.bytes / GIB, left=start / GIB, color=COLOURS[part.name], height=0.6, label=label)
            if part.bytes * 14 > max(sum(p.bytes for p in bar.parts), 1):
                panel.text((start + part.bytes / 2) / GIB, row, size(part.bytes), ha="center", va="center", fontsize="small")
            said.add(part.name)
            start += part.bytes
        if bar.limit is not None:
            panel.plot([bar.limit / GIB] * 2, [row - 0.4, row + 0.4], color="black", linestyle="--", label=_limit(plan, said))
    panel.set_yticks(range(len(found)), [bar.title for bar in found], parse_math=False)
    panel.invert_yaxis()
    panel.set_xlabel("GiB")
    panel.set_title(model_line(plan), parse_math=False, fontsize="medium")
    if said:
        panel.legend(fontsize="small", ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.35))


def _limit(plan: Plan, said: set[str]) -> str | None:
    """The legend's word for it, once."""
    if "limit" in said:
        return None
    said.add("limit")
    return f"limit of {one_line(engine(plan))}".replace("$", r"\$")


def _curve(panel: Any, plan: Plan) -> None:
    """GiB of all sequences against their length."""
    curve = curve_of(plan)
    panel.plot([n for n, _ in curve.points], [n_bytes / GIB for _, n_bytes in curve.points], color=COLOURS["cache"], linewidth=2)
    panel.axvline(plan.asked("context"), color="grey", label=f"asked: {plan.asked('context'):,} tokens, {size(plan.cache.total_bytes)}")
    if curve.longest:
        panel.axvline(curve.longest, color="black", linestyle="--", label=f"the longest that fits: {curve.longest:,}")
    panel.set(
        xlabel="tokens a sequence", ylabel="GiB", title=f"cache of {counted(plan.asked('batch'), 'sequence')}, all layers, whole model"
    )
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    panel.legend(fontsize="small", loc="upper left")
