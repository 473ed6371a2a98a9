"""What engines are, as text: a row each, or one with all its options and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.planner.records import EngineRecord
from kvplan.report import FOR_PEOPLE, STRUCTURED, render_data
from kvplan.report.screen import here
from kvplan.report.structured import dump, rows_text

_TABLES = {
    "options": "options (--engine-option KEY=VALUE)",
    "drafts": "ways of drafting (--speculative METHOD:TOKENS)",
    "unused": "no use for",
}


def render(found: Sequence[EngineRecord], fmt: str) -> str | bytes:
    """A row each; for people without the options themselves."""
    return render_data([_row(one) if fmt in FOR_PEOPLE else {**one} for one in found], fmt)


def render_one(one: EngineRecord, fmt: str) -> str | bytes:
    """One engine in full; in formats that hold rows alone, its row."""
    if fmt == "table":
        return _one(one)
    if fmt in STRUCTURED:
        return rows_text([{**one}], fmt) if fmt == "jsonl" else dump(one, fmt)
    return render([one], fmt)


def _row(one: EngineRecord) -> dict[str, Any]:
    releases = one["releases"]
    return {
        "engine": one["engine"],
        "releases": f"{releases[0]} to {releases[-1]}" if releases else None,
        "runs on": ", ".join(one["vendors"]) or "any",
        "cache memory": one["pool"],
        "options": len(one["options"]),
    }


def _one(one: EngineRecord) -> str:
    screen = here()
    width = max((len(key) for key in (*one["options"], *one["drafts"], *one["unused"])), default=0)
    facts = {
        "releases": ", ".join(one["releases"]) or "none: arithmetic",
        "runs on": ", ".join(one["vendors"]) or "any device",
        "cache memory": one["pool"],
        "weight formats": ", ".join(one["weight_formats"]) or "any",
        "forms of cache": ", ".join(one["forms"]),
    }
    lines = [one["title"], *(screen.fold(f"{what}: {text}", "    ", "  ") for what, text in facts.items())]
    for key, title in _TABLES.items():
        pairs: dict[str, str] = one[key]  # type: ignore[literal-required]
        if pairs:
            lines += ["", title, *(screen.fold(text, " " * (width + 4), f"  {name:<{width}}  ") for name, text in pairs.items())]
    return "\n".join(lines)
