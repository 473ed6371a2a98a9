"""`NAME=value`, `NAME+=(more words)`, `export NAME=value`: what a shell's assignment makes of a variable."""

from __future__ import annotations

import re

from kvplan.engines.common.words import Place, Word
from kvplan.manifests.held import Value
from kvplan.manifests.lexer import Token, tokens
from kvplan.manifests.variables import Variables

ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_FIRST = re.compile(r"\s*(\"\$\{\w+\[@\]\}\"|\"?\$\{?\w+\}?\"?)(?=\s|$)")


def assign(variables: Variables, token: Token, source: str, *, exported: bool) -> None:
    """Takes in one word of assignments; of `export NAME` too."""
    match = ASSIGN.match(token.text)
    if match is None:
        if exported:
            variables.export(token.text)
        return
    name, value = match[1], value_of(variables, token, match, source)
    first = next((p for p in token.pieces if p.text != match[0]), None)
    if variables.is_default(value):
        pass  # an option of the script itself, in a branch: called without arguments, what it had stands
    elif first is not None and first.kind == "variable" and first.text == name and variables.knows(name) and not value.is_array:
        variables.set(name, Value((variables.join(token.pieces[2:], token.place),)), adds=True)  # X="$X more"
    else:
        variables.set(name, value, adds=bool(match[2]))
    if exported:
        variables.export(name)


def value_of(variables: Variables, token: Token, match: re.Match[str], source: str) -> Value:
    """What stands behind the sign: a word, or the elements of an array."""
    first, *rest = token.pieces
    head = first._replace(text=first.text[len(match[0]) :])
    if len(rest) == 1 and rest[0].other == "array" and not head.text:
        inner = [t for t in tokens(rest[0].text, source, token.place) if t.kind == "word"]
        return Value(tuple(w for t in inner for w in variables.expand(t.pieces, t.place)), True)
    return Value((variables.join((head, *rest), token.place),))


def one_word(value: Value, token: Token) -> Word:
    """A value as one word: what stands before a command for it alone."""
    return value.words[0] if len(value.words) == 1 else Word(" ".join(w.text for w in value.words), token.place)


def begins(variables: Variables, text: str, place: Place, source: str) -> str:
    """The text of a command, with what its first word holds where that is a variable."""
    first = _FIRST.match(text)
    if first is None:
        return text
    pieces = next(tokens(first[1], source, place)).pieces
    return " ".join(word.text for word in variables.expand(pieces, place)) + text[first.end() :]
