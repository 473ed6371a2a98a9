"""Explanations as text."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kvplan.planner.explain import Line


def render_lines(lines: Sequence[Line], fmt: str) -> str:
    """Each number with its formula and source under it, or JSON objects."""
    if fmt == "json":
        return json.dumps([line._asdict() for line in lines], indent=2)
    return "\n".join(f"{line.name} = {line.value:,} {line.unit}\n    {line.formula}\n    source: {line.source}" for line in lines)
