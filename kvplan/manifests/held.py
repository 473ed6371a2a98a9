"""What a variable of a shell holds, and what becomes of it: words, elements of an array, what a script is called with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Word

POSITIONAL = ("#", "@", "*", *map(str, range(10)))
_CALLED_WITH = frozenset({*POSITIONAL, "OPTARG"}) - {"0"}
_OPEN_WORD = re.compile(r"(?:\$\((?:[^()]|\([^()]*\))*\)|\S)+")  # `$(...)` is within one


class Value(NamedTuple):
    """What a variable holds: the elements of an array, or one word (with an open one behind it where more may follow)."""

    words: tuple[Word, ...]
    is_array: bool = False


def words_of(word: Word) -> list[Word]:
    """The words that an unquoted value becomes; one where it is not seen in which of them what is open stands."""
    parts = [word._replace(text=text) for text in (_OPEN_WORD.findall(word.text) if word.missing else word.text.split())]
    if not word.missing:
        return parts
    parts = [w._replace(missing=tuple(m for m in word.missing if f"${m.removeprefix('$')}" in w.text)) for w in parts]
    return parts if {m for w in parts for m in w.missing} == set(word.missing) else [word]


def positional(words: Sequence[Word]) -> dict[str, Value]:
    """`$0`, `$1`, ..., `$#`, `$@` of a program's name and the words behind it."""
    every = Value(tuple(words[1:]), True)
    empty = dict.fromkeys(map(str, range(1, 10)), Value((Word(""),)))
    count = {"#": Value((Word(str(len(words) - 1)),))}
    return {**empty, **{str(n): Value((word,)) for n, word in enumerate(words[:10])}, **count, "@": every, "*": every}


def is_called_with(words: Sequence[Word]) -> bool:
    """Whether words are nothing but what a script is called with, none of it known."""
    return bool(words) and all(w.missing and all(m in _CALLED_WITH or m.isdecimal() for m in w.missing) for w in words)


def is_empty(value: Value | None) -> bool:
    """Whether the script itself leaves it empty."""
    return value is not None and not any(word.text for word in value.words)


def added(old: Value, new: Value) -> tuple[str, ...]:
    """The words that a branch added to a variable."""
    if len(old.words) == len(new.words) == 1:
        return tuple(new.words[0].text.removeprefix(old.words[0].text).split())
    return tuple(word.text for word in new.words[len(old.words) :])
