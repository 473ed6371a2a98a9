"""What a table of log wordings is made of, and how one is applied to a line.

A wording is a literal that must be in the line (so that noise costs one substring search) and an expression with bounded repeats.
Its named groups say what they give: `weights__GiB` a figure with its unit, `q__tp` a name of the question, `rank` who it belongs to,
and `version`, `model`, `device`. In an expression `{n}` is a number, `{w}` a word, `{weights__GiB}` a group that takes a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvplan.startup_logs.lines import Line

_NUMBER = r"-?[0-9][0-9,]{0,18}(?:\.[0-9]{1,9})?"
_MACROS = {"{n}": _NUMBER, "{w}": r"[\w.+/@:~-]{1,200}"}
_GROUP = re.compile(r"\{(\w+__\w+)\}")
#: Printed unit -> (our unit, factor).
_UNITS = {"bytes": ("GiB", 1 / 2**30), "KiB": ("MiB", 1 / 1024)}


class Figure(NamedTuple):
    """One number that a line printed. `rank`: the printer's word for itself; None where the line names none."""

    name: str
    value: float
    unit: str
    rank: str | None
    line: int


class Wording(NamedTuple):
    """One wording. `since` / `until`: the releases known to print it (for readers of the table; a match needs no version)."""

    needle: str
    expression: str
    since: str = ""
    until: str = ""

    def compiled(self) -> re.Pattern[str]:
        text = self.expression
        for macro, meaning in _MACROS.items():
            text = text.replace(macro, meaning)
        return re.compile(_GROUP.sub(rf"(?P<\1>{_NUMBER.replace(chr(92), chr(92) * 2)})", text))


class Arguments(NamedTuple):
    """Where an engine prints its arguments: after `needle`, as a `mapping`, a `call`, a bare `list` or a `command` line.

    A higher `rank` wins where two lines name the same argument: what a person typed before what the engine resolved.
    """

    needle: str
    form: str
    rank: int


class Table(NamedTuple):
    """How one engine's start-up log is read.

    starts     literals that begin a new start of the server
    settle     arguments as printed -> names of the contract
    unread     arguments that change memory and that settle can not say
    printed_options   engine options that wordings give (`q__backend`): printed word, in lower case -> value
    """

    engine: str
    wordings: tuple[Wording, ...]
    arguments: tuple[Arguments, ...]
    starts: tuple[str, ...]
    settle: Callable[[Mapping[str, Any]], dict[str, Any]]
    finish: Callable[[list[Figure]], list[Figure]] = lambda figures: figures
    unread: tuple[str, ...] = ()
    printed_options: Mapping[str, Mapping[str, str]] = {}


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
