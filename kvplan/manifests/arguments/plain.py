"""What the engines' `finish` functions share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.manifests.arguments.table import Given
from kvplan.manifests.values import Finding, Place


def names(given: Mapping[str, Given]) -> dict[str, Given]:
    """The options that are names of the question, engine options as `engine_option.KEY`."""
    question = {}
    for to, one in given.items():
        if to.startswith("option:"):
            question[f"engine_option.{to[7:]}"] = one
        elif to[:1] not in ("@", "!"):
            question[to] = one
    return question


def number(given: Mapping[str, Given], key: str, default: int = 1) -> int:
    """A whole number among the options."""
    one = given.get(key)
    return int(one.value) if one is not None and isinstance(one.value, (int, float)) else default


def warn(rule: str, message: str, place: Place) -> Finding:
    return Finding(rule, "warning", message, place)


def refuse(message: str, place: Place, rule: str = "bad-value") -> Finding:
    return Finding(rule, "error", message, place)


def moved(one: Given, value: Any) -> Given:
    """The same place, another value."""
    return one._replace(value=value)


def allowed(one: Given) -> Finding:
    """A variable that lets the engine go beyond the model's own length."""
    return Finding("longer-allowed", "note", f"{one.spelled} allows lengths beyond the model's own", one.place)
