"""JSON, JSON lines and YAML: the contract's object, as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kvplan.planner.plan import Plan
from kvplan.report.printable import printable


def plans_text(plans: Sequence[Plan], fmt: str) -> str:
    """One object for one plan, an array for several; JSON lines: one object a line."""
    objects = [plan.as_dict() for plan in plans]
    return rows_text(objects, fmt) if fmt == "jsonl" or len(objects) > 1 else dump(objects[0], fmt)


def rows_text(rows: Sequence[dict[str, Any]], fmt: str) -> str:
    """An array of rows, or one row a line."""
    if fmt == "jsonl":
        return "\n".join(_calm(json.dumps(row)) for row in rows)
    return dump(list(rows), fmt)


def dump(value: Any, fmt: str) -> str:
    """Plain data as JSON or YAML text; of JSON lines the one line."""
    if fmt == "yaml":
        import yaml

        text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)
        if printable(text) != text:  # written out by YAML itself, so that it reads as the same value
            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, default_style='"', width=1 << 30)
        return _calm(text.rstrip("\n"))
    return _calm(json.dumps(value, indent=None if fmt == "jsonl" else 2))


def _calm(text: str) -> str:
    """Two hashes, which stand nowhere but in strings, so that no CI log reads a command behind them."""
    return text.replace("##", "#\\u0023")
