"""Workers that prefill and that decode, as text: a row each way of splitting them, losers with their reason, or flat rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.planner.disaggregate import BOUNDS, Disaggregated
from kvplan.report import FOR_PEOPLE, render_data
from kvplan.report.printable import noted, prose
from kvplan.report.words import seconds
from kvplan.units import show_bytes


def render(model: str, found: Sequence[Disaggregated], asked: Mapping[str, Any], fmt: str, *, everything: bool) -> str | bytes:
    """The rows in a format."""
    shown = [row for row in found if row.split is not None or everything]
    if fmt not in FOR_PEOPLE:
        return render_data([dict(row.as_dict()) for row in shown], fmt)
    rows = [_for_people(row) for row in shown]
    rows = [{key: row[key] for key in rows[0] if any(one[key] is not None for one in rows)} for row in rows]
    if fmt == "html":
        from kvplan.report import html

        sections = {"Bounds": html.listed([BOUNDS]), "The question": html.facts(asked)}
        return html.report(f"What prefills and what decodes {model}", rows, sections)
    return f"{render_data(rows, fmt)!s}\n\n{prose(noted([BOUNDS]), fmt)}"


def _for_people(row: Disaggregated) -> dict[str, Any]:
    split, one, other, moved = row.split, row.prefill, row.decode, row.moved
    names = row.prefill_device.id, row.decode_device.id
    if split is None or one is None or other is None or moved is None:
        empty = dict.fromkeys(("GPUs", "requests/s, at most", "bound by", "ratio", "a request moves", "first token", "a step", "price"))
        return {"prefill": names[0], "decode": names[1], **empty, "why not": row.reason}
    return {
        "prefill": f"{split.prefill:,} x tp {one.tp} {names[0]}",
        "decode": f"{split.decode:,} x tp {other.tp} {names[1]}, {other.batch:,} at once",
        "GPUs": split.gpus,
        "requests/s, at most": f"{split.requests_per_second:.3g}",
        "bound by": split.bound_by,
        "ratio": f"{other.per_second / one.per_second:.3g} : 1",
        "a request moves": f"{show_bytes(moved.total_bytes)}, {seconds(moved.times[0].seconds)} over {moved.times[0].link}",
        "first token": f"{seconds(row.first_token_seconds or 0)} at least",
        "a step": seconds(other.seconds),
        "price": row.price,
        "why not": None,
    }
