"""What a shell's test says: `[ ... ]`, `[[ ... ]]` and `test` over texts that are known (POSIX, "test"; bash, 6.4).

True or False, None for what is not known here: files, programs, variables that nothing sets, tests of several parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kvplan.engines.common.words import Place, Word
from kvplan.manifests.lexer import Piece, Token

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b, "-lt": lambda a, b: a < b, "-le": lambda a, b: a <= b,
}  # fmt: skip


@dataclass(slots=True)
class Case:
    """A `case` that is read: what it looks at, the patterns of its next branch, whether they are awaited."""

    subject: Word
    patterns: list[Word] = field(default_factory=list)
    waits: bool = True


_MOST = 400  # characters of a text that is compared
#: An expression of `=~` that Python reads as bash does: characters and sets of them, each repeated at most by a sign behind it.
_EXPRESSION = re.compile(r"\^?(?:(?:\[\^?[\w.,/ +-]+\]|[\w.,:/=-])[*+?]?){1,12}\$?")


def weighed(words: list[Token], join: Callable[[tuple[Piece, ...], Place], Word], is_file: Callable[[str], bool]) -> bool | None:
    """`truth` of the words as they are written: of an expression behind `=~`, a quote or `\\` says what is no sign in it."""
    if len(words) > 3 and words[2].text == "=~" and re.search(r"[\\'\"$]", words[3].text.removesuffix("$")):
        return None
    return truth([join(token.pieces, token.place) for token in words], is_file)


def truth(words: Sequence[Word], is_file: Callable[[str], bool]) -> bool | None:
    """Whether a test holds. `is_file`: whether a file of that name is known to be there."""
    name, end = (words[0].text, words[-1].text) if words else ("", "")
    if name == "test":
        inner = list(words[1:])
    elif (name, end) in (("[", "]"), ("[[", "]]")):
        inner = list(words[1:-1])
    else:
        return None
    turned = len(inner) > 1 and inner[0].text == "!"
    answer = _plain(inner[1:] if turned else inner, is_file, patterns=name == "[[")
    return answer if answer is None or not turned else not answer


def _plain(inner: Sequence[Word], is_file: Callable[[str], bool], *, patterns: bool) -> bool | None:
    if any(w.missing or len(w.text) > _MOST for w in inner):
        return None
    texts = [w.text for w in inner]
    if len(texts) == 1:
        return bool(texts[0])
    if len(texts) == 2 and texts[0] in ("-n", "-z"):
        return bool(texts[1]) == (texts[0] == "-n")
    if len(texts) == 2 and texts[0] in ("-f", "-e", "-r", "-s"):
        return True if is_file(texts[1]) else None
    if len(texts) != 3:
        return None
    left, sign, right = texts
    if sign in ("=", "=="):
        return fits(left, right) if patterns else left == right
    if sign == "!=":
        return not (fits(left, right) if patterns else left == right)
    if sign == "=~" and _EXPRESSION.fullmatch(right) and right.count("*") + right.count("+") < 4:
        try:
            return re.search(right.removesuffix("$") + (r"\Z" if right.endswith("$") else ""), left, re.ASCII) is not None
        except re.error:  # `[z-a]`
            return None
    if sign in _NUMBERS and all(re.fullmatch(r"-?\d{1,18}", text) for text in (left, right)):
        return _NUMBERS[sign](int(left), int(right))
    return None


def fits(text: str, pattern: str) -> bool:
    """Whether a text is one of a pattern of `case` and `[[ = ]]`."""
    return len(pattern) <= _MOST and pattern.count("*") < 5 and fnmatchcase(text, pattern)


def tested(words: list[Token], sign: str) -> str:
    """The variable of `[ -z "$NAME" ]`, `[ -n "$NAME" ]`."""
    if len(words) < 3 or words[0].text not in ("[", "[[", "test") or words[1].text != sign:
        return ""
    pieces = [p for p in words[2].pieces if p.text]
    return pieces[0].text if len(pieces) == 1 and pieces[0].kind == "variable" else ""


def compared(words: list[Token]) -> str:
    """The variable of `[ "$NAME" = text ]`."""
    if len(words) < 4 or words[0].text not in ("[", "[[", "test") or words[2].text not in ("=", "==", "-eq"):
        return ""
    pieces = [p for p in words[1].pieces if p.text]
    plain = all(p.kind == "text" for p in words[3].pieces) and any(p.text for p in words[3].pieces)
    return pieces[0].text if plain and len(pieces) == 1 and pieces[0].kind == "variable" and pieces[0].default is None else ""
