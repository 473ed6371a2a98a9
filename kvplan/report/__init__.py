"""Plans as text. FORMATS names the file that prints each format; a file is read when its format is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kvplan.planner.plan import Plan

FORMATS: dict[str, str] = {
    "table": "table",
    "markdown": "table",
    "html": "table",
    "json": "structured",
    "jsonl": "structured",
    "yaml": "structured",
    "csv": "flat",
}


def render(plans: Sequence[Plan], fmt: str) -> str:
    """The plans in a format: structured ones print an object for one plan and an array for several."""
    text: str = import_module(f"kvplan.report.{FORMATS[fmt]}").plans_text(plans, fmt)
    return text


def render_rows(rows: Sequence[dict[str, Any]], fmt: str) -> str:
    """Rows of equal keys in a format."""
    text: str = import_module(f"kvplan.report.{FORMATS[fmt]}").rows_text(rows, fmt)
    return text
