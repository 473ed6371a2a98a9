"""A shell script as the commands it may run, each with the variables that the script itself sets.

Branches are all looked at; a variable set only in a branch is known inside it and open after it. Nothing is run, and no
variable comes from anywhere but the script and the `env` that the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvplan.errors import SpecError
from kvplan.manifests.lexer import Piece, Token, tokens
from kvplan.manifests.values import START, Place
from kvplan.manifests.words import Command, Word

_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_DECLARES = frozenset({"export", "local", "declare", "typeset", "readonly"})
_OPENS = frozenset({"if", "for", "while", "until", "case", "{", "function", "select"})
_TURNS = frozenset({"else", "elif", ";;"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_SKIPPED = frozenset({"then", "do", "!", "time"})
MAX_VALUE = 65_536

Values = dict[str, "tuple[Word, ...]"]


class Script(NamedTuple):
    """Commands in order, and the files that here-documents write, by name: their text and where it starts."""

    commands: tuple[Command, ...]
    files: Mapping[str, tuple[str, Place]]


class _Scope(NamedTuple):
    before: Values
    changed: set[str]


def read_script(text: str, source: str, *, base: Place = START, env: Mapping[str, Word] | None = None) -> Script:
    """The commands of a script. `env` are variables known from outside it. Raises SpecError where it is no shell text."""
    return _Reader(source, env or {}).read(text, base)


class _Reader:
    """One pass over the tokens; local to read_script."""

    def __init__(self, source: str, env: Mapping[str, Word]) -> None:
        self._source = source
        self._values: Values = {name: (word,) for name, word in env.items()}
        self._exported = set(env)
        self._scopes: list[_Scope] = []
        self._commands: list[Command] = []
        self._files: dict[str, tuple[str, Place]] = {}

    def read(self, text: str, base: Place) -> Script:
        current: list[Token] = []
        conditional = False
        for token in tokens(text, self._source, base):
            if token.kind != "operator":
                current.append(token)
                continue
            if token.text == "(" and not current:
                continue
            if token.text == "(":  # name ( ) of a function
                continue
            self._command(current, conditional, token.place)
            conditional = token.text in ("&&", "||")
            current = []
            if token.text == ";;":
                self._turn()
        return Script(tuple(self._commands), self._files)

    def _command(self, parts: list[Token], conditional: bool, end: Place) -> None:
        words = [t for t in parts if t.kind == "word"]
        while words and (words[0].text in _SKIPPED | _OPENS | _TURNS | _CLOSES):
            first = words.pop(0).text
            if first in _OPENS:
                self._scopes.append(_Scope(dict(self._values), set()))
                if first in ("for", "select") and words:
                    self._forget(words[0].text)
                    words = []
                elif first in ("case", "function"):
                    words = []
            elif first in _TURNS:
                self._turn()
            elif first in _CLOSES:
                self._close()
        if not words:
            return
        local: dict[str, Word] = {}
        if words[0].text in _DECLARES:
            for token in words[1:]:
                self._assign(token, conditional, exported=words[0].text == "export")
            return
        if words[0].text == "unset":
            for token in words[1:]:
                self._forget(token.text)
            return
        if words[0].text == "read":
            for token in words[1:]:
                self._forget(token.text)
            return
        n = 0
        while n < len(words) and _ASSIGN.match(words[n].text):
            n += 1
        if n == len(words):
            for token in words:
                self._assign(token, conditional, exported=False)
            return
        for token in words[:n]:
            name, value = self._value_of(token)
            local[name] = value[0] if len(value) == 1 else Word(" ".join(w.text for w in value), token.place)
        run = [word for token in words[n:] for word in self._expand(token.pieces, token.place)]
        for token in parts:
            if token.kind == "redirect":
                self._redirect(token, run, [t for t in parts if t.kind == "redirect"])
        if run:
            env = {name: self._values[name][0] for name in self._values if name in self._exported and self._values[name]}
            last = max((t.place.line for t in parts), default=end.line)
            self._commands.append(Command(tuple(run), {**env, **local}, words[n].place, max(last, min(end.line, last))))

    def _redirect(self, token: Token, run: list[Word], redirects: list[Token]) -> None:
        if token.text not in ("<<", "<<-") or not run:
            return
        target = None
        if run[0].text == "cat":
            target = next((r for r in redirects if r.text in (">", ">|", ">>")), None)
            name = self._join(target.pieces, target.place) if target else None
        elif run[0].text == "tee" and len(run) > 1:
            name = next((w for w in run[1:] if not w.text.startswith("-")), None)
        else:
            return
        if name is None or name.missing:
            return
        body = token.body
        if not token.pieces[0].quoted:
            from kvplan.manifests.lexer import pieces_of

            body = self._join(pieces_of(token.body, self._source), token.place).text
        before = self._files.get(name.text)
        if before and target is not None and target.text == ">>":
            self._files[name.text] = (before[0] + body, before[1])
        else:
            self._files[name.text] = (body, token.body_place)

    # variables

    def _assign(self, token: Token, conditional: bool, *, exported: bool) -> None:
        match = _ASSIGN.match(token.text)
        if match is None:
            if exported:
                self._exported.add(token.text)
            return
        name, value = self._value_of(token)
        if match[2]:
            value = (*self._values.get(name, ()), *value)
        for scope in self._scopes:
            scope.changed.add(name)
        if conditional and self._values.get(name) != value:
            value = (Word(f"${name}", token.place, (name,)),)
        self._values[name] = value
        if exported:
            self._exported.add(name)

    def _value_of(self, token: Token) -> tuple[str, tuple[Word, ...]]:
        match = _ASSIGN.match(token.text)
        assert match is not None
        first, *rest = token.pieces
        head = first._replace(text=first.text[len(match[0]) :])
        if len(rest) == 1 and rest[0].other == "array" and not head.text:
            inner = [t for t in tokens(rest[0].text, self._source, token.place) if t.kind == "word"]
            return match[1], tuple(w for t in inner for w in self._expand(t.pieces, t.place))
        return match[1], (self._join((head, *rest), token.place),)

    def _forget(self, name: str) -> None:
        self._values.pop(name, None)
        for scope in self._scopes:
            scope.changed.add(name)

    def _turn(self) -> None:
        if self._scopes:
            scope = self._scopes[-1]
            self._values = dict(scope.before)

    def _close(self) -> None:
        if self._scopes:
            scope = self._scopes.pop()
            self._values = dict(scope.before)
            for name in scope.changed:
                self._values.pop(name, None)

    # expansion

    def _expand(self, pieces: tuple[Piece, ...], place: Place) -> Iterator[Word]:
        """The words that one token becomes: unquoted variables are split at blanks, arrays give a word each."""
        done: list[Word] = []
        text, is_open = "", False
        missing: list[str] = []
        for piece in pieces:
            if piece.kind == "text":
                text, is_open = text + piece.text, True
                continue
            values = self._lookup(piece, place)
            is_list = piece.other in ("[@]", "[*]") or len(values) > 1
            parts = list(values) if is_list else []
            if not is_list:
                one = values[0]
                split = [one] if piece.quoted or one.missing else [one._replace(text=t) for t in one.text.split()]
                if not piece.quoted and one.text[:1].isspace() and is_open:
                    done.append(Word(text, place, tuple(missing)))
                    text, missing, is_open = "", [], False
                parts = split
            for n, part in enumerate(parts):
                if n:
                    done.append(Word(text, place, tuple(missing)))
                    text, missing = "", []
                text, is_open = text + part.text, True
                missing = [*missing, *part.missing]
            if piece.quoted and not is_list:
                is_open = True
        if is_open:
            done.append(Word(text, place, tuple(missing)))
        if sum(len(w.text) for w in done) > MAX_VALUE:
            raise SpecError(self._source, [(f"line {place.line}", "a word grows beyond 64 KiB; no serve command is that long")])
        yield from done

    def _join(self, pieces: tuple[Piece, ...], place: Place) -> Word:
        """One word: nothing is split."""
        text = ""
        missing: list[str] = []
        for piece in pieces:
            if piece.kind == "text":
                text += piece.text
                continue
            values = self._lookup(piece, place)
            text += " ".join(w.text for w in values)
            missing += [m for w in values for m in w.missing]
            if len(text) > MAX_VALUE:
                raise SpecError(self._source, [(f"line {place.line}", "a value grows beyond 64 KiB; no serve command is that long")])
        return Word(text, place, tuple(missing))

    def _lookup(self, piece: Piece, place: Place) -> tuple[Word, ...]:
        if piece.kind == "command":
            shown = f"$({piece.text.strip()[:40]})"
            return (Word(shown, place, (shown,)),)
        if piece.other in ("", "[@]", "[*]") and piece.text in self._values:
            values = self._values[piece.text]
            if values and not (piece.default is not None and values[0].text == ""):
                return values
        if piece.default is not None:
            return (self._join(piece.default, place),)
        if piece.other in ("[@]", "[*]") and piece.text in self._values:
            return ()
        shown = f"${piece.text}"
        return (Word(shown, place, (piece.text,)),)
