"""What searches over plans found, as text: devices that carry a model, questions side by side, bounds of speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.planner.compare import PLACE, Row
from kvplan.planner.fit import FitRow
from kvplan.planner.speed import ASSUMPTIONS
from kvplan.report import FOR_PEOPLE, render_data
from kvplan.units import show_bytes

BOUNDS = ("tokens/s, at most", "first token, at least", "per million tokens")


def fits(model: str, found: Sequence[FitRow], question: Mapping[str, Any], rank_by: str | None, fmt: str) -> str | bytes:
    """A row a device; for people without columns that say nothing."""
    if fmt not in FOR_PEOPLE:
        return render_data([dict(one.as_dict()) for one in found], fmt)
    rows = [_for_people(one) for one in found]
    if rows:
        kept = [key for key in rows[0] if any(row[key] is not None for row in rows)]
        kept = [key for key in kept if key != "ep" or any(row[key] not in (None, 1) for row in rows)]
        kept = [key for key in kept if rank_by or key not in BOUNDS]
        rows = [{key: row[key] for key in kept} for row in rows]
    return _page(f"What carries {model}", rows, question, rank_by) if fmt == "html" else _bounded(rows, fmt, rank_by)


def _for_people(c: FitRow) -> dict[str, Any]:
    row, bounds = c.as_dict(), c.pace
    return {
        **{name: row[name] for name in ("device", "devices", "tp", "pp", "dp", "ep", "price")},
        "memory bought": show_bytes(row["memory_bytes"]) if row["memory_bytes"] else None,
        "left a rank": show_bytes(c.plan.margin_bytes or 0) if c.plan else None,
        "certainty": row["certainty"],
        BOUNDS[0]: f"{bounds.tokens_per_second:,.0f}" if bounds else None,
        BOUNDS[1]: f"{bounds.first_token_seconds:.3g} s" if bounds else None,
        BOUNDS[2]: f"{bounds.cost_per_million:.3g}" if bounds and bounds.cost_per_million is not None else None,
        "why not": c.reason,
    }


def side_by_side(
    found: Sequence[Row], asked: Sequence[Mapping[str, Any]], rank_by: str | None, fmt: str, *, everything: bool
) -> str | bytes:
    """A column a question, what differs; `everything`: the rows that are equal too."""
    places = next((row.values for row in found if row.name == PLACE), range(1, len(asked) + 1))
    rows = [row for row in found if (row.differs or everything) and row.name != PLACE]
    headers = [_header(place - 1, asked[place - 1], asked) for place in places]
    if fmt not in FOR_PEOPLE:
        return render_data([{"name": row.name, "unit": row.unit, **dict(zip(headers, row.values, strict=True))} for row in rows], fmt)
    table = [
        {"": f"{row.name} ({row.unit})" if row.unit else row.name, **dict(zip(headers, map(_value, row.values, row.ratios), strict=True))}
        for row in rows
    ]
    if fmt == "html":
        said = {str(n): ", ".join(f"{name} {value}" for name, value in one.items()) for n, one in enumerate(asked, 1)}
        return _page("Side by side", table, said, rank_by)
    return _bounded(table, fmt, rank_by)


def bounds(rows: Sequence[dict[str, Any]], fmt: str) -> str | bytes:
    """Rows of a roofline."""
    return _bounded(rows, fmt, "speed")


def _bounded(rows: Sequence[dict[str, Any]], fmt: str, rank_by: str | None) -> str | bytes:
    """Rows; under a table for a terminal what their bounds rest on."""
    text = render_data(rows, fmt)
    return f"{text!s}\n\n{ASSUMPTIONS}" if rank_by and fmt == "table" else text


def _page(heading: str, rows: list[dict[str, Any]], question: Mapping[str, Any], rank_by: str | None) -> str:
    """A page with what was asked under the rows."""
    from kvplan.report import html

    return html.report(heading, rows, {"Bounds": html.listed([ASSUMPTIONS] if rank_by else []), "The question": html.facts(question)})


def _header(i: int, question: Mapping[str, Any], asked: Sequence[Mapping[str, Any]]) -> str:
    varied = [str(value) for name, value in question.items() if any(other.get(name) != value for other in asked)]
    return f"{i + 1}: {' '.join(varied)}" if varied else str(i + 1)


def _value(value: Any, ratio: float | None) -> str:
    text = "-" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    return text if ratio is None or ratio == 1 else f"{text} (x {ratio:.3g})"
