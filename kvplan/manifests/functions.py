"""The functions of a shell script that use what they are called with (`$1`, `$@`): kept aside, and read again where they are called."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.manifests.lexer import Piece, Token

MOST_CALLS = 300  # of one function
MOST_WITHIN = 4
_NAME = re.compile(r"[A-Za-z_][\w.:-]*")
_POSITIONAL = re.compile(r"\$\{?[1-9@*#]")
Bodies = dict[str, tuple[Token, ...]]


def kept_aside(stream: Iterator[Token], bodies: Bodies) -> Iterator[Token]:
    """The tokens without the bodies of such functions, which go into `bodies`; those of all other functions stay where they are."""
    held: list[Token] = []
    begins = True  # whether a command may begin here
    for token in stream:
        held.append(token)
        state = _opening(held) if begins or len(held) > 1 else "no"
        if state == "maybe":
            continue
        if state == "yes":
            name, inner = _name(held), list(_body(stream))
            if inner and inner[-1].text == "}" and any(map(_is_positional, inner)):
                bodies[name] = tuple(inner[:-1])
                held = [token._replace(kind="operator", text="\n", pieces=())]
            else:
                held += inner
        last = held[-1]
        begins = last.kind == "operator" or last.text in ("{", "then", "do", "else")
        yield from held
        held = []
    yield from held


def _opening(held: list[Token]) -> str:
    """Whether tokens begin a function: `NAME ( ) {`, `function NAME {`, `function NAME ( ) {`, with line ends before the bracket."""
    shape = [("w" if t.kind == "word" else "o", t.text) for t in held]
    if shape[0] == ("w", "function"):
        if len(shape) == 1:
            return "maybe"
        shape = shape[1:]
        bare = True
    else:
        bare = False
    if shape[0][0] != "w" or not _NAME.fullmatch(shape[0][1]):
        return "no"
    rest = shape[1:]
    if rest[:1] == [("o", "(")]:
        if len(rest) > 1 and rest[1] != ("o", ")"):
            return "no"
        rest = rest[2:] if len(rest) > 1 else []
    elif rest and not bare:
        return "no"
    while rest[:1] == [("o", "\n")]:
        rest = rest[1:]
    return "maybe" if not rest else "yes" if rest == [("w", "{")] else "no"


def _name(held: list[Token]) -> str:
    return held[1].text if held[0].text == "function" else held[0].text


def _body(stream: Iterator[Token]) -> Iterator[Token]:
    """The tokens up to the bracket that closes the function, with it."""
    depth, begins = 1, True
    for token in stream:
        if token.kind == "word" and begins:
            depth += (token.text == "{") - (token.text == "}")
        yield token
        if not depth:
            return
        begins = token.kind == "operator" or (begins and token.text in ("{", "then", "do", "else", "}"))


def _is_positional(token: Token) -> bool:
    return any(map(_piece, token.pieces)) or _POSITIONAL.search(token.body or "") is not None


def _piece(piece: Piece) -> bool:
    if piece.kind == "variable":
        return piece.text.isdecimal() or piece.text in ("@", "*", "#") or any(map(_piece, piece.default or ()))
    return (piece.kind == "command" or piece.other == "array") and _POSITIONAL.search(piece.text) is not None
