"""Engine options that a question names as the engine does, by a flag, a key of its file or a variable: read as its command reads them."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from kvplan.engines.common.arguments import Answer, Argument, Arguments, by_variable
from kvplan.engines.common.command_line import read, spellings
from kvplan.engines.common.kinds import KINDS, truth
from kvplan.engines.common.passed import ELSEWHERE, by_key, named, variable, variables
from kvplan.engines.common.words import Given, Word, words
from kvplan.errors import SpecError

Pairs = tuple[tuple[str, str], ...]


def in_question(
    table: Arguments, ours: Container[str], version: str | None, options: Pairs
) -> tuple[dict[str, Any], Pairs, tuple[str, ...]]:
    """What such options set: names of the question, engine options by their names here, and what is to be said of them.

    ours  the names that engine options have here
    Raises SpecError where the engine would stop at them, and where one option is said twice, with two values.
    """
    theirs = {key: row for key, _ in options if (row := _row(table, key)) is not None}
    if all(key in ours for key in theirs):
        return {}, options, ()
    said = [(key, value) for key, value in options if key in theirs]
    by_row: dict[str, tuple[str, str]] = {}
    for key, value in said:
        other, before = by_row.setdefault(theirs[key].to, (key, value))
        if before != value:
            raise SpecError("engine_option", [(key, f"{other} says the same, with another value; keep one")])
    answer = _read(table, version, theirs, said)
    if faults := [finding.message for finding in answer.findings if finding.severity == "error"]:
        raise SpecError("engine_option", [("", fault) for fault in faults])
    found = {name: given.value for name, given in answer.question.items()}
    set_here = _beyond(found, _read(table, version, theirs, []))
    apart = [one for one in said if theirs[one[0]].to[:1] == "@"]
    idle = [one for one in apart if not _beyond(found, _read(table, version, theirs, [other for other in said if other != one]))]
    kept = {key: value for key, value in options if key in ours or key not in theirs or ((key, value) in idle and not set_here)}
    notes = [finding.message for finding in answer.findings] + [f"{key} changes nothing of the plan" for key, _ in idle if key not in kept]
    asked = {}
    for name, value in set_here.items():
        _, option, key = name.rpartition("engine_option.")
        if option:
            kept.setdefault(key, _plain(value))
        else:
            asked[name] = value
    return asked, tuple(kept.items()), tuple(notes)


def has(table: Arguments, key: str) -> bool:
    """Whether an engine has an option of that name, by whatever it is called."""
    return bool(_row(table, key) or named(table, key) or variable(table, key))


def _read(table: Arguments, version: str | None, rows: Mapping[str, Argument], said: Sequence[tuple[str, str]]) -> Answer:
    """What the engine makes of options. Raises SpecError for a value that one of them does not take."""
    line: list[str] = []
    env: dict[str, Word] = {}
    more: dict[str, Given] = {}
    for key, value in said:
        row = rows[key]
        if name := next((name for name in variables(table, key) if name in row.variables), ""):
            env[name] = Word(value)
        elif row.names:
            line += _words(row, key, value)
        else:
            more[row.to] = Given(_value(row, key, value), key)
    return read(table, words(*line), env, version, more)


def _beyond(found: Mapping[str, Any], without: Answer) -> dict[str, Any]:
    """What is set beyond another answer."""
    before = {name: given.value for name, given in without.question.items()}
    return {name: value for name, value in found.items() if name not in before or before[name] != value}


def _row(table: Arguments, key: str) -> Argument | None:
    """What an option of that name sets, where a question says it otherwise; None for what moves nothing or is not modelled."""
    flags, flag = spellings(table, None), key.replace("_", "-")
    rows = [*(by_variable(table).get(name) for name in variables(table, key)), flags.get(f"--{flag}", (None,))[0], *by_key(table, key)]
    found = next((row for row in rows if row is not None), None)
    return found if found and found.to[:1] not in ("", "!") and found.to not in ELSEWHERE else None


def _words(row: Argument, key: str, value: str) -> Iterator[str]:
    """The words of a command line that say it."""
    name = next((name for name in row.names if name.startswith("--")), row.names[0])
    if row.takes in ("flag", "switch"):
        on = _value(row, key, value)
        negated = key.startswith(("no_", "no-")) and row.takes == "switch"
        if on is not negated:
            yield name
        elif row.takes == "switch":
            yield f"--no-{name[2:]}"
    elif row.takes == "many":
        yield from (name, *value.replace(",", " ").split())
    else:
        yield f"{name}={value}"


def _value(row: Argument, key: str, value: str) -> Any:
    """Raises SpecError for a value that the option does not take."""
    try:
        return truth(value) if row.takes in ("flag", "switch") else KINDS[row.kind].read(value)
    except ValueError as error:
        raise SpecError("engine_option", [(key, str(error))]) from None


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_plain, value))
    return json.dumps(value) if isinstance(value, bool | dict) else str(value)
