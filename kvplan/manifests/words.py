"""Commands and scripts as a file says them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvplan.engines.common.words import Place, Word
from kvplan.errors import SpecError
from kvplan.manifests.budget import grown

#: Lines of a text that is not the checked file's own begin here, so that they can be told and put where the text is named.
ASIDE = 1_000_000
_VARIABLE = re.compile(
    r"\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])((?:[^{}]|\$\{(?:[^{}]|\$\{[^{}]*\})*\})*))?\})"
)

_LINE = re.compile(r"""\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(?:'([^']*)'|"([^"]*)"|(.*))""")
_COMMENT = re.compile(r"(?<=\s)#.*")


class Command(NamedTuple):
    """A simple command with the environment it runs in: what the file sets, nothing else.

    group  the same for commands of a script that run one after the other in one branch, with no server stopped between them
    stays  it is left running (`&`)
    note   what is taken for granted to follow it
    """

    words: tuple[Word, ...]
    env: Mapping[str, Word]
    place: Place
    end_line: int
    group: str = ""
    stays: bool = False
    note: str = ""


class Text(NamedTuple):
    """What a here-document holds: where it starts, and the variables in it that nothing sets."""

    text: str
    place: Place
    missing: tuple[str, ...] = ()


class Sourced(NamedTuple):
    """A file whose commands a script takes in (`source`), and whether it was read."""

    name: str
    place: Place
    is_read: bool


class Script(NamedTuple):
    """Commands in order, the files that here-documents write by name (`$NAME` where a variable names it), the here-documents that go into a
    command or a pipe, the variables at its end, the files it takes in, what is wrong with an end that no shell reads."""

    commands: tuple[Command, ...]
    files: Mapping[str, tuple[str, Place]]
    texts: tuple[Text, ...] = ()
    env: Mapping[str, Word] = {}
    sourced: tuple[Sourced, ...] = ()
    cut: SpecError | None = None


def replaced(pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], word: Word) -> Word:
    """The word with every match replaced; its line breaks move along."""
    parts: list[str] = []
    moves: list[tuple[int, int]] = []  # offset in the old text -> by how much what follows moves
    at = length = 0
    for match in pattern.finditer(word.text):
        parts += [word.text[at : match.start()], replace(match)]
        length += match.start() - at + len(parts[-1])
        at = match.end()
        moves.append((at, length - at))
    text = "".join([*parts, word.text[at:]])
    grown(len(word.text), len(text), word.place.line)
    ends = [end for end, _ in moves]
    breaks = tuple((offset + (moves[n - 1][1] if (n := bisect_right(ends, offset)) else 0), line) for offset, line in word.breaks)
    return word._replace(text=text, breaks=breaks)


def filled(word: Word, asked: Mapping[str, Word]) -> Word:
    """`$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:+more}` replaced, as compose and Dockerfiles have it; a name nobody gives is open."""
    missing: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is None:
            return "$"
        given = asked.get(name)
        if match[3] in ("+", ":+"):  # of a variable that nothing sets, nothing
            return _VARIABLE.sub(replace, match[4]) if given is not None and (given.text or match[3] == "+") else ""
        if given is not None and not given.missing and (given.text or not (match[3] or "").startswith(":")):
            return given.text
        if match[3] in ("-", ":-"):  # `${A:-${B:-default}}`
            return _VARIABLE.sub(replace, match[4])
        missing.append(name)
        return f"${name}"

    return replaced(_VARIABLE, replace, word)._replace(missing=tuple(missing))


def dotenv(text: str) -> dict[str, Word]:
    """NAME=value lines of an environment file; quotes as compose reads them, ${NAME} from the lines before."""
    env: dict[str, Word] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            value = match[2] if match[2] is not None else match[3] if match[3] is not None else _COMMENT.sub("", match[4]).strip()
            env[match[1]] = filled(Word(value), env) if match[2] is None else Word(value)
    return env
