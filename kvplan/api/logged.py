"""The plan for what a log says: an option that no plan takes is left out and said, never the end of the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.api.plans import estimate
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.planner.plan import Plan

MOST = 16
#: What is left out one after the other where an error names nothing: the log's engine runs with it, so it is this plan that can not.
LAST = ("speculative", "lora", "kv_dtype", "block_size", "multimodal", "ep", "dcp")
#: Names whose value an error quotes.
QUOTED = ("kv_dtype", "weight_dtype", "dtype", "speculative", "lora")


def plan_of(model: str, question: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and what of the question was left out of it, with why. `mine`: names that a person gave, which stay. Raises KvplanError."""
    asked: dict[str, Any] = {**question, "engine_option": dict(question.get("engine_option") or {})}
    kept_options = set(dict(mine.get("engine_option") or {}))
    left: list[str] = []
    for _ in range(MOST):
        try:
            plan = estimate(model, advise=False, **asked)
        except KvplanError as error:
            why, name = str(error).splitlines()[0], _cause(error, asked, mine, kept_options)
            if name is None:
                raise
        else:
            why = plan.outcome.reason or ""
            found = _named(why, asked, kept_options) if plan.starts is False else None
            if found is None:
                return plan, tuple(left)
            name = found
        left.append(f"{_without(asked, name)}: {why[:300]}")
    return estimate(model, advise=False, **asked), tuple(left)


def _cause(error: KvplanError, asked: Mapping[str, Any], mine: Mapping[str, Any], kept: set[str]) -> str | None:
    """What of the log's own question an error is about: `option:KEY`, or a name; None where it is the model, the device or a person's."""
    if isinstance(error, UnknownName) and error.kind in ("model", "device"):
        return None
    paths = [path or error.source for path, _ in error.faults] if isinstance(error, SpecError) else []
    words = [error.kind.replace(" ", "_")] if isinstance(error, UnknownName) else [path.partition(".")[0] for path in paths]
    for word in words:
        if word in asked["engine_option"]:
            return None if word in kept else f"option:{word}"
        if word in asked and word not in ("engine", "engine_option", "device"):
            return None if word in mine else word
    if isinstance(error, SpecError) and any(word in mine for word in words):
        return None
    quoted = next((n for n, value in asked.items() if n not in mine and n in QUOTED and repr(str(value)) in str(error)), None)
    if quoted:
        return quoted
    named = _named(str(error), asked, kept)
    free = [f"option:{key}" for key in asked["engine_option"] if key not in kept]
    return named or next((name for name in (*free, *LAST) if name.startswith("option:") or (asked.get(name) and name not in mine)), None)


def _named(text: str, asked: Mapping[str, Any], kept: set[str]) -> str | None:
    """An option of the log that a sentence names, by its key or its value."""
    low = text.lower().replace("-", "_")
    for key, value in asked["engine_option"].items():
        words = (key, key.replace("_", " "), *((str(value).lower().replace("-", "_"),) if len(str(value)) > 4 else ()))
        if key not in kept and any(word in low for word in words):
            return f"option:{key}"
    return None


def _without(asked: dict[str, Any], name: str) -> str:
    """Takes a name out of the question; how the log says it."""
    if name.startswith("option:"):
        key = name.removeprefix("option:")
        return f"{key}={str(asked['engine_option'].pop(key))[:80]}"
    return f"{name}={str(asked.pop(name))[:80]}"
