"""Explanations as text."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.planner.explain import Line
from kvplan.report import render_data
from kvplan.report.printable import one_line


def render_lines(lines: Sequence[Line], fmt: str) -> str | bytes:
    """Each number with its formula and source under it; in every other format a row a number."""
    if fmt != "table":
        return render_data([line._asdict() for line in lines], fmt)
    return "\n".join(
        f"{one_line(line.name)} = {line.value:,} {line.unit}\n    {one_line(line.formula)}\n    source: {one_line(line.source)}"
        for line in lines
    )
