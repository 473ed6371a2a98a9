"""Shell text into tokens with their places: words in pieces (by quoting), operators, redirections, here-documents.

The grammar is POSIX sh's (IEEE 1003.1, chapter 2) as far as serve scripts use it; unquoting is shlex's. Nothing is run.
"""

from __future__ import annotations

import re
import shlex
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from kvplan.engines.common.words import START, Breaks, Place, Word
from kvplan.errors import SpecError
from kvplan.manifests.budget import spend

MAX_TOKENS, MAX_NESTED = 50_000, 8
UNCLOSED = "is not closed"
_OPERATOR = re.compile(r"&&|\|\||;;|;|\||&(?![>\d])|\n|\(|\)")
_REDIRECT = re.compile(r"(?:\d*|&)(?:<<<|<<-?|>>|>&|<&|>\||<>|>|<)")
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_PLAIN = re.compile(r"(?:[^\s;&|<>()'\"\\$`]|\\(?!\r?\n)[\s\S])+")
_NAME = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|([0-9@*#?$!-]))")
_SINGLE = re.compile(r"'[^']*'")
_ESCAPED = re.compile(r"\$'((?:[^'\\]|\\[\s\S])*)'")
_IN_DEFAULT = re.compile(r"""(?:[^"'\\$`]|\\[\s\S])+""")
_IN_DOUBLE = re.compile(r'(?:[^"\\$`]|\\[\s\S])+')
_DOUBLE = re.compile(r'"(?:[^"\\]|\\[\s\S])*"')
_IN_HERE = re.compile(r"(?:[^$`\\]|\\[$`\\]|\\)+")

_BY_LETTER = dict(zip("abefnrtv", "\a\b\x1b\f\n\r\t\v", strict=True))

Kind = Literal["text", "variable", "command"]
Fail = Callable[[int, str], SpecError]


class Piece(NamedTuple):
    """Part of a word: literal text, a variable with its `:-default` part, or the output of a command."""

    kind: Kind
    text: str
    quoted: bool = False
    default: tuple[Piece, ...] | None = None
    assigns: bool = False  # `:=`: the default is kept
    other: str = ""  # the rest of a `${...}` that is not read here


class Token(NamedTuple):
    """A word (`pieces`), an operator (`text`) or a redirection (`text`, target in `pieces`, here-document in `body`)."""

    kind: Literal["word", "operator", "redirect"]
    text: str
    place: Place
    pieces: tuple[Piece, ...] = ()
    body: str = ""
    body_place: Place = Place()


class Lines:
    """Offsets to places. `base` is where the text starts in its file, `breaks` where it was folded."""

    def __init__(self, text: str, base: Place = START, breaks: Breaks = ()) -> None:
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._base, self._breaks = base, breaks

    def at(self, offset: int) -> Place:
        if self._breaks and offset >= self._breaks[0][0]:
            start, line = self._breaks[bisect_right(self._breaks, (offset, sys.maxsize)) - 1]
            return Place(line, offset - start + 1)
        line = bisect_right(self._starts, offset)
        column = offset - self._starts[line - 1]
        return Place(self._base.line + line - 1, column + (self._base.column if line == 1 else 1))


def tokens(text: str, source: str, base: Place = START, breaks: Breaks = (), *, remarks: bool = True) -> Iterator[Token]:
    """The tokens of a script. `remarks`: whether there are any. Raises SpecError at an unbalanced quote or bracket, or past MAX_TOKENS."""
    lines, at, count = Lines(text, base, breaks), 0, 0
    waiting: list[tuple[Token, str, bool]] = []

    def fail(offset: int, message: str) -> SpecError:
        return SpecError(source, [(f"line {lines.at(offset).line}", message)])

    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
            continue
        if remarks and (comment := _COMMENT.match(text, at)):
            at = comment.end()
            continue
        count += 1
        if count > MAX_TOKENS:
            raise fail(at, f"more than {MAX_TOKENS:,} words; no serve script is that long")
        place = lines.at(at)
        spend(1, place.line)
        if redirect := _REDIRECT.match(text, at):
            at = redirect.end()
            if text[at : at + 1] == "(":  # process substitution
                _, at = _substitution(text, at, fail)
                continue
            if blank := _BLANK.match(text, at):
                at = blank.end()
            start = at
            pieces, at = _word(text, at, fail)
            token = Token("redirect", redirect[0].lstrip("0123456789&"), place, pieces)
            if token.text in ("<<", "<<-"):
                delimiter = "".join(piece.text for piece in pieces)
                waiting.append((token, delimiter, text[start:at] != delimiter))
            else:
                yield token
            continue
        if operator := _OPERATOR.match(text, at):
            at = operator.end()
            if operator[0] == "\n":
                for token, delimiter, is_quoted in waiting:
                    body, body_at, at = _here(text, at, delimiter, token.text == "<<-", fail)
                    quoted = Piece("text", delimiter, is_quoted)
                    yield token._replace(pieces=(quoted,), body=body, body_place=lines.at(body_at))
                waiting = []
            yield Token("operator", operator[0], place)
            continue
        start = at
        pieces, at = _word(text, at, fail)
        if at == start:  # a lone & before a digit and the like
            at += 1
            continue
        yield Token("word", text[start:at], place, pieces)
    if waiting:
        raise fail(len(text), f"the here-document is not ended by {waiting[0][1][:40]!r}")
    yield Token("operator", "\n", lines.at(len(text)))


def split(whole: Word, source: str) -> Iterator[Word]:
    """The words of a string that no shell reads: operators and `#` are words like others (go-shellwords, Python's shlex, systemd)."""
    for token in tokens(whole.text, source, whole.place, whole.breaks, remarks=False):
        if token.kind == "operator" and token.text == "\n":
            continue
        text = "".join(p.text if p.kind == "text" else f"${p.text}" for p in token.pieces) if token.kind == "word" else token.text
        missing = tuple(m for m in whole.missing if f"${m}" in text)
        yield Word(text, token.place, missing)


def pieces_of(text: str, source: str) -> tuple[Piece, ...]:
    """Text as inside double quotes: variables are pieces, the rest literal."""

    def fail(_: int, message: str) -> SpecError:
        return SpecError(source, [("", message)])

    return _double(text, 0, fail, end="")[0]


def _word(text: str, at: int, fail: Fail) -> tuple[tuple[Piece, ...], int]:
    pieces: list[Piece] = []
    while at < len(text):
        char = text[at]
        if plain := _PLAIN.match(text, at):
            literal = "".join(shlex.split(plain[0], comments=False)) if "\\" in plain[0] else plain[0]
            pieces.append(Piece("text", literal))
            at = plain.end()
        elif char == "'":
            single = _SINGLE.match(text, at)
            if single is None:
                raise fail(at, f"a quote ' {UNCLOSED}")
            pieces.append(Piece("text", single[0][1:-1], True))
            at = single.end()
        elif char == '"':
            inner, at = _double(text, at + 1, fail)
            pieces += inner or (Piece("text", "", True),)
        elif escaped := _ESCAPED.match(text, at):
            pieces.append(Piece("text", _unescaped(escaped[1]), True))
            at = escaped.end()
        elif char in "$`":
            piece, at = _dollar(text, at, False, fail)
            pieces.append(piece)
        elif char == "(" and pieces and text[at - 1] == "=":  # NAME=( ... ) stays one word; its inside is read as words
            inside, at = _substitution(text, at, fail)
            pieces.append(Piece("command", inside, other="array"))
        elif text.startswith("\\\n", at) or text.startswith("\\\r\n", at):
            at += 2 if text[at + 1] == "\n" else 3
        else:
            break
    return tuple(pieces), at


def _unescaped(text: str) -> str:
    """What stands in `$'...'` (POSIX.1-2024, 2.2.4), but for escapes by number."""
    return re.sub(r"\\([abefnrtv\\'\"?])", lambda match: _BY_LETTER.get(match[1], match[1]), text)


def _double(text: str, at: int, fail: Fail, end: str = '"') -> tuple[tuple[Piece, ...], int]:
    pieces: list[Piece] = []
    start = at
    while at < len(text):
        if text[at] == end:
            return tuple(pieces), at + 1
        if plain := (_IN_DOUBLE if end else _IN_HERE).match(text, at):
            literal = re.sub(r'\\(?:\r?\n|([$`"\\]))', lambda m: m[1] or "", plain[0]) if end else re.sub(r"\\([$`\\])", r"\1", plain[0])
            pieces.append(Piece("text", literal, True))
            at = plain.end()
        elif text[at] in "$`":
            piece, at = _dollar(text, at, True, fail)
            pieces.append(piece)
        else:
            pieces.append(Piece("text", text[at], True))
            at += 1
    if end:
        raise fail(start - 1, f'a quote " {UNCLOSED}')
    return tuple(pieces), at


def _dollar(text: str, at: int, quoted: bool, fail: Fail) -> tuple[Piece, int]:
    if text[at] == "`":
        end = text.find("`", at + 1)
        if end < 0:
            raise fail(at, f"a quote ` {UNCLOSED}")
        return Piece("command", text[at + 1 : end], quoted), end + 1
    if text.startswith("$(", at):
        inside, end = _substitution(text, at + 1, fail)
        return Piece("command", inside, quoted), end
    if text.startswith("${", at):
        inside, end = _balanced(text, at + 1, "{", "}", fail, quoted)
        return _braces(inside, quoted, fail), end
    if name := _NAME.match(text, at):
        return Piece("variable", name[1] or name[2], quoted), name.end()
    return Piece("text", "$", quoted), at + 1


def _braces(inside: str, quoted: bool, fail: Fail) -> Piece:
    match = re.match(r"([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?])(.*)", inside, re.DOTALL)
    if match is None or inside.count("${") > MAX_NESTED:
        return Piece("variable", inside[:60], quoted, other="?")
    name, rest = match[1], match[2]
    if rest[:2] in (":-", ":=") or rest[:1] in ("-", "="):
        return Piece("variable", name, quoted, _default(rest[2:] if rest[0] == ":" else rest[1:], quoted, fail), "=" in rest[:2])
    if rest[:2] == ":?" or rest[:1] == "?":
        rest = ""
    return Piece("variable", name, quoted, other=rest)


def _default(text: str, quoted: bool, fail: Fail) -> tuple[Piece, ...]:
    """What stands behind `:-`: its double quotes are taken off, its single ones where the whole stands in no double ones (POSIX 2.6.2)."""
    pieces: list[Piece] = []
    at = 0
    while at < len(text):
        if plain := _IN_DEFAULT.match(text, at):
            pieces.append(Piece("text", re.sub(r"\\(\r?\n|[\s\S])", _escaped if quoted else r"\1", plain[0])))
            at = plain.end()
        elif text[at] == '"':
            inner, at = _double(text, at + 1, fail)
            pieces += inner
        elif text[at] in "$`":
            piece, at = _dollar(text, at, quoted, fail)
            pieces.append(piece)
        else:
            single = None if quoted else _SINGLE.match(text, at)
            pieces.append(Piece("text", single[0][1:-1], True) if single else Piece("text", text[at]))
            at = single.end() if single else at + 1
    return tuple(pieces)


def _escaped(match: re.Match[str]) -> str:
    return match[1] if match[1] in '$`"\\}' else match[0]


def _substitution(text: str, at: int, fail: Fail) -> tuple[str, int]:
    return _balanced(text, at, "(", ")", fail)


def _balanced(text: str, at: int, opening: str, closing: str, fail: Fail, quoted: bool = False) -> tuple[str, int]:
    """What stands between brackets, but for those in quotes and comments; in `${ }` no `{` counts, nor single quotes where double ones
    stand around."""
    start, depth = at, 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'" and not quoted:
            at = max(text.find("'", at + 1), at)
        elif opening == "(" and char == "#" and text[at - 1] in " \t\r\n(;|&":
            at = _COMMENT.match(text, at).end() - 1  # type: ignore[union-attr]
        elif opening == "{" and text.startswith("$(", at):
            at = _substitution(text, at + 1, fail)[1] - 1
        elif char == '"' and (opening == "(" or _DOUBLE.match(text, at)):
            at = _double(text, at + 1, fail)[1] - 1
        elif char == opening and (char == "(" or text[at - 1] == "$"):
            depth += 1
        elif char == closing:
            depth -= 1
            if not depth:
                return text[start + 1 : at], at + 1
        at += 1
    raise fail(start, f"a bracket {opening} {UNCLOSED}")


def _here(text: str, at: int, delimiter: str, strip_tabs: bool, fail: Fail) -> tuple[str, int, int]:
    start = at
    body: list[str] = []
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].rstrip("\r")
        line = line.lstrip("\t") if strip_tabs else line
        at = min(end + 1, len(text))
        if line == delimiter:
            return "\n".join(body) + "\n", start, at
        body.append(line)
        if end == len(text):
            break
    raise fail(start, f"the here-document is not ended by {delimiter[:40]!r}")
