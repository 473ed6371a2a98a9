"""Engine options that a question names as the engine does, by a flag, a key of its file or a variable: read as its command reads them."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from kvplan.engines.common.arguments import RELEASE, Answer, Argument, Arguments, by_variable, dashed, is_flag, lacks
from kvplan.engines.common.arguments import has as has_option
from kvplan.engines.common.command_line import answered, parse, read, spellings
from kvplan.engines.common.exclusions import excluded
from kvplan.engines.common.kinds import KINDS, truth
from kvplan.engines.common.passed import ELSEWHERE, by_key, find, named, variable, variables
from kvplan.engines.common.stored import stored
from kvplan.engines.common.words import STOPS, WOULD_STOP, Given, Word, words
from kvplan.engines.common.written import write
from kvplan.errors import SpecError, UnsupportedError
from kvplan.units import spelled

Pairs = tuple[tuple[str, str], ...]


class Meant(NamedTuple):
    """What options set: names of the question, engine options by their names here; what is to be said; the engine's word for what the
    weights are stored in."""

    question: Mapping[str, Any]
    options: Pairs
    notes: tuple[str, ...] = ()
    weights: Given | None = None


def in_question(table: Arguments, ours: Container[str], version: str | None, options: Pairs) -> Meant:
    """What such options set.

    ours  the names that engine options have here
    Raises SpecError where the engine would stop at them, and where one option is said twice, with two values.
    """
    options = tuple(_flat(table, options))
    rows = {key: row for key, _ in options if (row := _of_release(table, key, key in ours, version)) is not None}
    theirs = {key: row for key, row in rows.items() if row.to[:1] not in ("", "!")}
    of_weights = [key for key, row in rows.items() if row.to == "@quantization"]
    if all(key in ours for key in rows) and not of_weights:
        return Meant({}, options)
    table = table._replace(exclusions=(), apart=False)  # stop_of_words
    said = [(key, value) for key, value in options if key in theirs]
    by_row: dict[tuple[str, str], tuple[str, str]] = {}
    for key, value in said:
        other, before = by_row.setdefault((theirs[key].to, _inside(table, theirs[key], key)), (key, value))
        if before != value:
            raise SpecError("engine_option", [(key, f"{other} says the same, with another value; keep one")])
    everything = _read(table, version, rows, [(key, value) for key, value in options if key in rows])
    if faults := [finding.message for finding in everything.findings if finding.severity == "error"]:
        raise SpecError("engine_option", [("", fault) for fault in faults])
    answer = _read(table, version, theirs, said)
    found = {name: given.value for name, given in answer.question.items()}
    set_here = _beyond(found, _read(table, version, theirs, []))
    apart = [one for one in said if theirs[one[0]].to[:1] == "@"]
    idle = [one for one in apart if not _beyond(found, _read(table, version, theirs, [other for other in said if other != one]))]
    moving = [key for key, value in idle if not set_here or any(one.effect for one in find(table, key, value, version))]
    kept = {key: value for key, value in options if key in ours or key not in theirs or key in moving}
    if answer.weights is not None and stored(answer.weights.value):
        kept = {key: value for key, value in kept.items() if key not in of_weights}
    dropped = [key for key, _ in idle if key not in {*kept, *of_weights}]
    notes = [finding.message for finding in answer.findings] + [f"{key} changes nothing of the plan" for key in dropped]
    asked = {}
    for name, value in set_here.items():
        _, option, key = name.rpartition("engine_option.")
        if option:
            kept.setdefault(key, spelled(value))
        else:
            asked[name] = value
    return Meant(asked, tuple(kept.items()), tuple(notes), answer.weights)


def _flat(table: Arguments, options: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Options with a section of a configuration file as its keys: `kv_cache_config` with `{"dtype": "fp8"}` as `kv_cache_config.dtype`."""
    for key, value in options:
        inside = any(row.key.startswith(f"{key}.") for row in table.rows) and not any(row.key == key and row.to for row in table.rows)
        try:
            section = json.loads(value) if inside else None
        except ValueError:
            section = None
        if isinstance(section, dict):
            yield from _flat(table, [(f"{key}.{name}", spelled(each)) for name, each in section.items()])
        else:
            yield key, value


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
            line += _words(table, row, key, value)
        else:
            more[row.to] = Given(_value(row, key, value), key)
    return read(table, words(*line), env, version, more)


def _beyond(found: Mapping[str, Any], without: Answer) -> dict[str, Any]:
    """What is set beyond another answer."""
    before = {name: given.value for name, given in without.question.items()}
    return {name: value for name, value in found.items() if name not in before or before[name] != value}


def _row(table: Arguments, key: str) -> Argument | None:
    """The option of that name, by a variable, a flag, a key of a file or a short flag; None for one that says where it runs."""
    flags = {dashed(name): row for name, (row, _) in spellings(table, None).items()}
    head = key.partition(".")[0] if table.dotted else key
    rows = [*(by_variable(table).get(name) for name in variables(table, key)), flags.get(f"--{dashed(head)}"), *by_key(table, key)]
    found = next((row for row in (*rows, flags.get(f"-{dashed(head)}")) if row is not None), None)
    return found if found and found.to not in ELSEWHERE else None


def _of_release(table: Arguments, key: str, is_ours: bool, version: str | None) -> Argument | None:
    """The option of that name; of a name of ours that the release spells otherwise, the option that says it there."""
    found = _row(table, key)
    if found is None or not is_ours or not lacks(table, found, version):
        return found
    others = (row for row in table.rows if row.to == found.to and row.names and row.takes == found.takes and row.value == found.value)
    return next((row for row in others if has_option(table, row, version)), None)


def _inside(table: Arguments, row: Argument, key: str) -> str:
    """What a key names inside the object that an option takes: `.mode` of `compilation_config.mode`; empty: the option itself."""
    head, dot, rest = key.partition(".")
    return f"{dot}{rest}" if table.dotted and any(is_flag(name, head) for name in row.names) else ""


def _words(table: Arguments, row: Argument, key: str, value: str) -> Iterator[str]:
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
        yield f"{name}{_inside(table, row, key)}={value}"


def _value(row: Argument, key: str, value: str) -> Any:
    """Raises SpecError for a value that the option does not take."""
    try:
        return truth(value) if row.takes in ("flag", "switch") else KINDS[row.kind].read(value)
    except ValueError as error:
        raise SpecError("engine_option", [(key, str(error))]) from None


def stop_of_words(table: Arguments, asked: Mapping[str, Any], of: Set[str], version: str | None) -> str:
    """Why an engine would stop at engine options of a question beside the rest, as its command would say them; empty where it goes on, or
    can not be told so. Left out is what its parser says of one option alone, which a question has by names of its own, and what a rank or
    a node of a command would lift, or an option that a question has no name for.

    asked  names of the question that were chosen, engine options as `option:KEY`
    of     the kind of model (exclusions.py kinds)
    """
    unsaid = [row for row in table.rows if row.to in ELSEWHERE or row.to.startswith("!")]
    elsewhere = {name.lstrip("-").replace("-", "_") for row in unsaid for name in row.names}
    told = {RELEASE: Given(version, version)} if version else {}
    names = {name: value for name, value in asked.items() if not name.startswith("option:")}
    try:
        whole, without = (parse(table, words(*write(table, each, version, checked=False).words), version) for each in (asked, names))
        findings = answered(table, {**whole.given, **told}).findings
    except (SpecError, UnsupportedError, ValueError):  # a value that its own reader refuses
        return ""
    given = whole.seen.keys() - without.seen.keys()
    exclusions = tuple(one for one in table.exclusions if one.keys & given and not one.lifted_by & elsewhere)
    apart = excluded(exclusions, whole.seen, version)
    stops = (*(one for kind, one in apart if not kind or kind in of), *(one for one in findings if one.severity == "error"))
    return next((one.message.removesuffix(f"; {WOULD_STOP}").removesuffix(f"; {STOPS}") for one in stops), "")
