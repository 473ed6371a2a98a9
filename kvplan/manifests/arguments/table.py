"""What an engine's command line takes: one row per option, and how rows become names of the question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from kvplan.manifests.values import Finding, Place, Unresolved

#: one: a value; flag: none; switch: none, with a --no- form; many: values up to the next option; maybe: a value if one of `words` follows
Takes = Literal["one", "flag", "switch", "many", "maybe"]
#: How an option that is not modelled moves the memory that is needed.
Effect = Literal["", "more", "less", "either"]


class Argument(NamedTuple):
    """An option. `to`: a name of the contract, `option:KEY`, `@key` (the engine's own code reads it) or empty (no memory in it).

    since, until   first and last release it was seen in, among the engine's `releases`; empty: before the first, after the last
    value          what a flag stands for (for `disable_x` spellings of `enable_x`)
    """

    names: tuple[str, ...]
    to: str = ""
    kind: str = "text"
    takes: Takes = "one"
    since: str = ""
    until: str = ""
    effect: Effect = ""
    value: Any = True
    words: tuple[str, ...] = ()


class Given(NamedTuple):
    """An option that was given: its value, its spelling and its place."""

    value: Any
    spelled: str
    place: Place


class Answer(NamedTuple):
    """What an engine makes of its options."""

    question: Mapping[str, Given]
    model: Given | None = None
    findings: tuple[Finding, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    local_dp: int | None = None
    nodes: int = 1
    is_worker: bool = False


class Engine(NamedTuple):
    """One engine's command line.

    releases       whose option tables were read, oldest first; empty: one build only
    abbreviations  a unique beginning of a long option is taken for it (argparse)
    underscores    `_` and `-` are the same in a long option; dotted: --a.b 1 is --a '{"b": 1}', and -O3 is -O 3
    config         what the file of its @config option is: empty, `yaml` (long options as keys) or `trtllm`
    positional     how many words it takes besides its options; -1: any number
    environment    variables that set an option when it is not given; quiet_environment: without memory in them; loud_environment: with
                   memory that is not modelled; others with the prefix are not known, where there is a list of the quiet ones
    finish         special options (`@key`, as `key`) and the environment -> Answer; plain ones are already in its question
    """

    name: str
    arguments: tuple[Argument, ...]
    finish: Callable[[Mapping[str, Given], Mapping[str, Given], Mapping[str, Given]], Answer]
    releases: tuple[str, ...] = ()
    abbreviations: bool = False
    underscores: bool = False
    dotted: bool = False
    config: str = ""
    positional: int = -1
    environment: Mapping[str, str] = {}
    quiet_environment: tuple[str, ...] = ()
    loud_environment: tuple[str, ...] = ()
    environment_prefix: str = ""


def row(
    names: str, to: str = "", kind: str = "text", takes: Takes = "one", *, since: str = "", until: str = "", effect: Effect = "",
    value: Any = True, words: str = "",
) -> Argument:  # fmt: skip
    """A row; names are spellings apart by blanks."""
    return Argument(tuple(names.split()), to, kind, takes, since, until, effect, value, tuple(words.split()))


def block(blocks: Mapping[tuple[str, str], str], effect: Effect = "") -> tuple[Argument, ...]:
    """Rows of options that set nothing in the question: (since, until) -> names, `a=b` for spellings of one option.

    effect empty: there is no memory in them. A trailing ! is a flag, ? a switch with a --no- form, * takes several values.
    """
    marks: dict[str, Takes] = {"!": "flag", "?": "switch", "*": "many"}
    rows = []
    for (since, until), text in blocks.items():
        for word in text.split():
            names = word.rstrip("!?*").split("=")
            spelled = tuple(name if name.startswith("-") else f"--{name}" for name in names)
            to = f"!{spelled[0]}" if effect else ""
            rows.append(Argument(spelled, to, "text", marks.get(word[-1], "one"), since, until, effect))
    return tuple(rows)
