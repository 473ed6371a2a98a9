"""How an engine's log wordings are applied to a line."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kvplan.engines.common.logs import Figure, Wording
from kvplan.startup_logs.lines import Line

#: Printed unit -> (our unit, factor).
_UNITS = {"bytes": ("GiB", 1 / 2**30), "KiB": ("MiB", 1 / 1024)}


class Found(NamedTuple):
    """What the wordings of one line gave."""

    figures: list[Figure]
    facts: dict[str, Any]


def number(text: str) -> float:
    """`38,944` -> 38944.0"""
    return float(text.replace(",", ""))


def apply(wordings: tuple[tuple[Wording, re.Pattern[str]], ...], line: Line) -> Found:
    """Every figure and fact on one cleaned line."""
    figures: list[Figure] = []
    facts: dict[str, Any] = {}
    text = line.text
    for wording, expression in wordings:
        if wording.needle not in text:
            continue
        for match in expression.finditer(text):
            groups = {key: value for key, value in match.groupdict().items() if value is not None}
            owner = groups.pop("rank", None) or line.rank
            for key, value in groups.items():
                name, _, unit = key.partition("__")
                if not unit or name == "q":
                    facts.setdefault(key, value)
                else:
                    kind, factor = _UNITS.get(unit, (unit, 1.0))
                    figures.append(Figure(name, number(value) * factor, kind, owner, line.number))
    return Found(figures, facts)
