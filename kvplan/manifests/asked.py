"""How `check` asks the planner: each question once, and what is wrong with the caller's own values told from what a file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan import engines
from kvplan.engines.common.words import Given
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.planner.plan import Plan

#: `ask(model, **question)`: kvplan.estimate, or anything that answers like it.
Ask = Callable[..., Plan]


class GivenError(KvplanError):
    """What the caller gives beside the files is wrong by itself: no verdict on what they say."""


def remembered(ask: Ask) -> Ask:
    """Asks each question once: engines of one file are often alike."""
    known: dict[str, Plan | KvplanError] = {}

    def again(model: str, **question: Any) -> Plan:
        key = repr((model, sorted(question.items())))
        if key not in known:
            try:
                known[key] = ask(model, **question)
            except KvplanError as error:
                known[key] = error
        found = known[key]
        if isinstance(found, KvplanError):
            raise found
        return found

    return again


def in_own_names(engine: str, version: str | None, given: Mapping[str, Any]) -> tuple[dict[str, Any], Given | None, tuple[str, ...]]:
    """What the caller gives, with engine options in the engine's own names as what they set there; the engine's word for what the weights
    are stored in; what is to be said.

    Raises GivenError for what the engine does not take, or what he gives by its name here too, with another value.
    """
    options = tuple((str(key), str(value)) for key, value in dict(given.get("engine_option") or {}).items())
    if not options:
        return dict(given), None, ()
    try:
        meant = engines.in_own_names(engine, given.get("engine_version") or version, options)
    except SpecError as error:
        raise GivenError(str(error)) from None
    for name, value in meant.question.items():
        if str(given.get(name, value)) != str(value):
            raise GivenError(f"engine_option: {name} is said twice: {given[name]} and {value}; keep one")
    return {**meant.question, **given, "engine_option": dict(meant.options)}, meant.weights, meant.notes


def blaming(ask: Ask, given: Mapping[str, Any]) -> Ask:
    """`ask` that tells a fault of the caller's own values (the same without the file, none without them) from one of the file."""

    def why(model: str, question: Mapping[str, Any]) -> str:
        try:
            ask(model, **question)
        except KvplanError as error:
            return str(error)
        return ""

    def asking(model: str, **question: Any) -> Plan:
        try:
            return ask(model, **question)
        except (SpecError, UnknownName) as error:
            engine: dict[str, Any] = {"engine": question["engine"]}
            of_model = isinstance(error, UnknownName) and error.kind == "model"
            if given and not of_model and why(model, {**engine, **given}) == str(error) != why(model, engine):
                raise GivenError(str(error)) from None
            raise

    return asking
