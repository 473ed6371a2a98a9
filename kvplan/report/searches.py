"""What searches over plans found, as text: devices that carry a model, questions side by side, bounds of speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.planner.compare import PLACE, Row
from kvplan.planner.fit import FitRow
from kvplan.planner.speed import ASSUMPTIONS
from kvplan.report import FOR_PEOPLE, render_data
from kvplan.report.printable import one_line, prose
from kvplan.report.screen import here
from kvplan.report.words import requests, shown
from kvplan.units import MIB, show_bytes, size

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
    if fmt == "html":
        return _page(f"What carries {model}", rows, question, rank_by)
    text = _bounded(rows, fmt, rank_by)
    return f"{here().fold(one_line(_best(model, found, rank_by)))}\n\n{text!s}" if fmt == "table" else text


def _best(model: str, found: Sequence[FitRow], rank_by: str | None) -> str:
    """The answer in a sentence: the first row, and the first that is certain where it is not."""
    carry = [one for one in found if one.plan is not None]
    if not carry:
        return f"No device that was tried carries {model}." if found else f"No device carries {model}; --all says why not."
    first, sure = carry[0], next((one for one in carry if one.plan and one.plan.certainty == "certain"), None)
    what = _BEST.get(rank_by or ("price" if first.price is not None else ""), "the least memory")
    then = f"; the first that is certain: {_bought(sure)}" if sure not in (None, first) else ""
    return f"{_bought(first)} carries {requests(first.plan)}, {what}{then}." if first.plan else ""


#: What the first row is best by.
_BEST = {
    "price": "the lowest price",
    "tokens-per-second": "the most tokens a second",
    "first-token": "the soonest first token",
    "cost-per-token": "the lowest cost a token",
}


def _bought(one: FitRow | None) -> str:
    """`8 x l40s (tp 8, likely)`."""
    row: Mapping[str, Any] = {**one.as_dict()} if one else {}
    sizes = [f"{name} {row[name]}" for name in ("tp", "pp", "dp", "ep") if (row.get(name) or 1) > 1]
    sure = [] if row.get("certainty") == "certain" else [str(row.get("certainty"))]
    said = f" ({', '.join((*sizes, *sure))})" if sizes or sure else ""
    return f"{row.get('devices')} x {row.get('device')}{said}"


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
        {"": _named(row), **{name: _value(n, by, row.unit) for name, n, by in zip(headers, row.values, row.ratios, strict=True)}}
        for row in rows
    ]
    if fmt == "html":
        said = {str(n): ", ".join(f"{name} {value}" for name, value in one.items()) for n, one in enumerate(asked, 1)}
        return _page("Side by side", table, said, rank_by)
    text, fit = _bounded(table, fmt, rank_by), _who_fits(found, headers)
    return f"{here().fold(one_line(fit))}\n\n{text!s}" if fmt == "table" and fit else text


def _who_fits(found: Sequence[Row], headers: Sequence[str]) -> str:
    """`Fits: 2: h200. Too close to call: 1: h100. Does not fit: 3: l4.`; empty where no question says what it has to fit."""
    by_name = {row.name: row.values for row in found}
    verdicts = list(zip(by_name.get("fits", ()), by_name.get("certainty", ()), strict=True))
    if all(fits is None for fits, _ in verdicts):
        return ""
    said = ["Too close to call" if sure == "too close to call" else _VERDICTS[fits] for fits, sure in verdicts]
    groups = (
        (what, [name for name, one in zip(headers, said, strict=True) if one == what]) for what in dict.fromkeys(sorted(said, key=_ORDER))
    )
    return " ".join(f"{what}: {', '.join(names)}." for what, names in groups)


_VERDICTS = {True: "Fits", False: "Does not fit", None: "Not known"}
_ORDER = ["Fits", "Too close to call", "Does not fit", "Not known"].index


def bounds(rows: Sequence[dict[str, Any]], fmt: str) -> str | bytes:
    """Rows of a roofline."""
    if fmt != "table":
        return _bounded(rows, fmt, "speed")
    best = max(rows, key=lambda row: row["tokens_per_second"])
    after, said = best["first_token_ms"], f"At most {best['tokens_per_second']:,.0f} tokens a second"
    if after is None:
        said += (
            " by memory alone: the device's arithmetic rate is not known, so neither is when a first token comes nor where decoding turns."
        )
    else:
        said += f", and a first token after {after:,.0f} ms at least."
    return f"{said}\n\n{_bounded([_short(row) for row in rows], fmt, 'speed')!s}"


#: What a table of bounds calls them, where there is a line for each of their names otherwise.
_SHORT = {
    "tokens_per_second": "tokens/s",
    "without_cache": "no cache",
    "step_ms": "step ms",
    "bound_by": "bound by",
    "weight_bytes": "weights",
    "cache_bytes": "cache",
    "first_token_ms": "prompt ms",
    "compute_bound_batch": "turns at batch",
}


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """A row of bounds on a screen: short names, bytes as sizes."""
    return {_SHORT.get(key, key): size(value) if key.endswith("_bytes") else value for key, value in row.items()}


def _bounded(rows: Sequence[dict[str, Any]], fmt: str, rank_by: str | None) -> str | bytes:
    """Rows; under a table for a terminal what their bounds rest on."""
    text = render_data(rows, fmt)
    return f"{text!s}\n\n{prose(ASSUMPTIONS, fmt)}" if rank_by and fmt == "table" else text


def _page(heading: str, rows: list[dict[str, Any]], question: Mapping[str, Any], rank_by: str | None) -> str:
    """A page with what was asked under the rows."""
    from kvplan.report import html

    return html.report(heading, rows, {"Bounds": html.listed([ASSUMPTIONS] if rank_by else []), "The question": html.facts(question)})


def _header(i: int, question: Mapping[str, Any], asked: Sequence[Mapping[str, Any]]) -> str:
    varied = [str(value) for name, value in question.items() if any(other.get(name) != value for other in asked)]
    return f"{i + 1}: {' '.join(varied)}" if varied else str(i + 1)


def _named(row: Row) -> str:
    return f"{row.name} ({row.unit})" if row.unit not in ("", "B") else row.name


def _value(value: Any, ratio: float | None, unit: str) -> str:
    if type(value) is int:
        text = size(value) if unit == "B" and abs(value) >= MIB else f"{value:,}{' B' if unit == 'B' else ''}"
    else:
        text = "-" if value is None else f"{value:,.2f}" if isinstance(value, float) else shown(value)
    return text if ratio is None or ratio == 1 or ratio < 0 else f"{text} (x {ratio:.3g})"
