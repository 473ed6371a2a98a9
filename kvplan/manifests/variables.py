"""The variables of a shell script as it is read: what is known of each, in which branch, and what words become of them.

A variable set in a branch is known inside it and open after it; one that a branch only adds to keeps what it had, with an open end.
One that a branch sets where it was empty (`[ -z "$X" ] && X=...`) has that value, as `${X:-...}` has.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kvplan.engines.common.words import Place, Word
from kvplan.errors import SpecError
from kvplan.manifests import budget
from kvplan.manifests.lexer import Piece
from kvplan.manifests.syntax import parse

MAX_VALUE = 65_536
_LISTS = ("[@]", "[*]")
_DEFAULTED = re.compile(r"\$\{([A-Za-z_]\w*):?-(\d+)\}")
_PART_OF = re.compile(r"""\s*(basename|dirname)\s+["']?\$\{?([A-Za-z_]\w*)\}?["']?(?:\s+["']?(\.\w+)["']?)?\s*""")
#: What every shell has: the user's home, where it runs.
OWN = {"HOME": "~", "PWD": "."}
_NUMBER = re.compile(r"\$?\{?\b([A-Za-z_]\w*)\}?")


class Value(NamedTuple):
    """What a variable holds: the elements of an array, or one word (with an open one behind it where more may follow)."""

    words: tuple[Word, ...]
    is_array: bool = False


class _Scope(NamedTuple):
    """A branch: what was known before it, what it changed (True: only added to), what it sets where it was empty.

    asked  a variable that nothing here sets, which the branch asks to be a certain text
    """

    is_chain: bool
    before: Mapping[str, Value]
    changed: dict[str, bool]
    defaults: set[str]
    asked: list[str]


class Variables:
    """Grows as a script is read; local to read_script."""

    def __init__(self, source: str, env: Mapping[str, Word]) -> None:
        self._source = source
        self._values = {name: Value((word,)) for name, word in env.items()}
        self._exported = set(env)
        self._lost: set[str] = set()  # set in some branch: not known behind it
        self._scopes: list[_Scope] = []
        self._environment: dict[str, Word] | None = None

    def exported(self, place: Place) -> Mapping[str, Word]:
        """What a command started now finds in its environment; the same mapping until a variable changes."""
        if self._environment is None:
            self._spend(len(self._values), place)
            self._environment = {name: value.words[0] for name, value in self._values.items() if name in self._exported and value.words}
        return self._environment

    def every(self, place: Place) -> Mapping[str, Word]:
        """All that is known, exported or not."""
        self._spend(len(self._values), place)
        held = {name: [w for w in value.words if w.text] for name, value in self._values.items()}
        return {
            name: words[0] if len(words) == 1 else Word(" ".join(w.text for w in words), place, tuple(m for w in words for m in w.missing))
            for name, words in held.items()
        }

    def _spend(self, n: int, place: Place) -> None:
        budget.spend(n, place.line)

    def knows(self, name: str) -> bool:
        return name in self._values

    # changes

    def set(self, name: str, value: Value, *, adds: bool = False) -> None:
        """`adds`: to what it holds; a word to a word without a blank between, elements to an array."""
        if adds and name in self._values:
            old = self._values[name]
            if value.is_array or len(old.words) != 1:
                value = Value((*old.words, *value.words), old.is_array or value.is_array)
            else:
                first, more = old.words[0], value.words[0]
                value = Value((Word(first.text + more.text, more.place, (*first.missing, *more.missing)),), old.is_array)
        elif adds and name in self._lost and value.words:
            before = Word(f"${name}", value.words[0].place, (name,))
            value = value._replace(words=(before, *value.words))
        if not adds:
            self._lost.discard(name)
        self._spend(len(value.words) + len(self._scopes), value.words[0].place if value.words else Place())
        for scope in self._scopes:
            scope.changed[name] = adds and scope.changed.get(name, True)
        self._values[name] = value
        self._environment = None

    def is_default(self, name: str, value: Value) -> bool:
        """Whether a branch sets a variable to one of the script's own arguments, which are not known."""
        return bool(
            self._scopes and name in self._values and value.words and not value.is_array
            and all(m.isdecimal() or m in "@*#" for w in value.words for m in w.missing) and all(w.missing for w in value.words)
            and "0" not in self._values
        )  # fmt: skip

    def export(self, name: str) -> None:
        self._exported.add(name)
        self._environment = None

    def forget(self, name: str) -> None:
        self._values.pop(name, None)
        self._environment = None
        self._spend(len(self._scopes), Place())
        for scope in self._scopes:
            scope.changed[name] = False

    # branches

    def open(self, place: Place, *, is_chain: bool = False) -> None:
        self._spend(1 + len(self._values), place)
        self._scopes.append(_Scope(is_chain, dict(self._values), {}, set(), []))

    def in_chain(self) -> bool:
        return bool(self._scopes) and self._scopes[-1].is_chain

    def empty(self, name: str) -> None:
        """The branch is for when this variable is empty."""
        if self._scopes and name not in self._values:
            self._scopes[-1].defaults.add(name)

    def ask(self, name: str) -> None:
        """The branch is for when this variable is a certain text: one that nothing sets is not, unless the environment says so."""
        if self._scopes and name not in self._values and not self._scopes[-1].changed:
            self._scopes[-1].asked.append(name)

    def turn(self) -> None:
        """The next branch of the same choice."""
        if self._scopes:
            self._spend(1 + len(self._scopes[-1].before), Place())
            self._values = dict(self._scopes[-1].before)
            self._environment = None
            self._scopes[-1].defaults.clear()
            self._scopes[-1].asked.clear()

    def close(self) -> None:
        if not self._scopes:
            return
        self._environment = None
        scope, inside = self._scopes.pop(), self._values
        self._values = dict(scope.before)
        for name, only_adds in scope.changed.items():
            if name in scope.defaults and name in inside:
                self._values[name] = inside[name]
            elif scope.asked and name in inside and _is_empty(scope.before.get(name)):
                more = ("", *(part for word in inside[name].words for part in word.text.split()))
                self._values[name] = scope.before[name]._replace(words=(Word(f"${name}", Place(), (name,), (), more),))
            elif only_adds and name in scope.before:
                old = scope.before[name]
                more = _added(old, inside[name]) if name in inside else ()
                self._values[name] = old._replace(words=(*old.words, Word(f"${name}", Place(), (name,), (), more)))
            else:
                self._values.pop(name, None)
                self._lost.add(name)

    # words

    def expand(self, pieces: tuple[Piece, ...], place: Place) -> Iterator[Word]:
        """The words that one token becomes: unquoted variables are split at blanks, arrays give a word each."""
        done: list[Word] = []
        text, is_open = "", False
        missing: list[str] = []
        maybe: tuple[str, ...] = ()
        for piece in pieces:
            if piece.kind == "text":
                text, is_open = text + piece.text, True
                continue
            parts, begins = self._parts(piece, place)
            if begins and is_open:
                done.append(Word(text, place, tuple(missing), (), maybe))
                text, missing, is_open = "", [], False
            for n, part in enumerate(parts):
                if n:
                    done.append(Word(text, place, tuple(missing), (), maybe))
                    text, missing = "", []
                maybe = part.maybe if not text else ()
                text, is_open = text + part.text, True
                missing += part.missing
        if is_open:
            done.append(Word(text, place, tuple(missing), (), maybe if missing else ()))
        size = sum(len(w.text) for w in done)
        self._spend(len(done) + size // budget.CHARACTERS, place)
        if size > MAX_VALUE:
            raise SpecError(self._source, [(f"line {place.line}", "a word grows beyond 64 KiB; no serve command is that long")])
        yield from done

    def _parts(self, piece: Piece, place: Place) -> tuple[list[Word], bool]:
        """The words of one variable, and whether the first of them begins a new word."""
        value = self._lookup(piece, place)
        if piece.quoted and len(value.words) > 1 and (piece.other == "[*]" or piece.text == "*"):  # one word, apart by blanks
            return [Word(" ".join(w.text for w in value.words), place, tuple(m for w in value.words for m in w.missing))], False
        if piece.other in _LISTS or (piece.text == "@" and value.is_array):
            return list(value.words), False
        words = value.words[:1] if value.is_array else value.words
        if piece.quoted:
            return [Word("".join(w.text for w in words), place, tuple(m for w in words for m in w.missing))], False
        split = [part for w in words for part in ([w] if w.missing else [w._replace(text=t) for t in w.text.split()])]
        return split, bool(words) and words[0].text[:1].isspace()

    def join(self, pieces: tuple[Piece, ...], place: Place) -> Word:
        """One word: nothing is split."""
        text = ""
        missing: list[str] = []
        for piece in pieces:
            if piece.kind == "text":
                text += piece.text
                continue
            value = self._lookup(piece, place)
            text += (" " if value.is_array else "").join(w.text for w in value.words)
            missing += [m for w in value.words for m in w.missing]
            if len(text) > MAX_VALUE:
                raise SpecError(self._source, [(f"line {place.line}", "a value grows beyond 64 KiB; no serve command is that long")])
        self._spend(len(text) // budget.CHARACTERS, place)
        return Word(text, place, tuple(missing))

    def _lookup(self, piece: Piece, place: Place) -> Value:
        if piece.kind == "command" and piece.text.startswith("(") and piece.text.endswith(")"):
            return Value((self._arithmetic(piece.text[1:-1], place),))
        if piece.kind == "command":
            own = _own_folder(piece.text)
            if own is not None:
                return Value((Word(own, place),))
            inner = self._named_file(piece.text)
            if inner is not None:
                return Value((inner._replace(place=place),))
            shown = _shown(piece.text)
            return Value((Word(shown, place, (shown,)),))
        known = piece.other in ("", *_LISTS) and piece.text in self._values
        if not known and piece.other and (cut := self._cut(piece)) is not None:
            return Value((cut._replace(place=place),))
        if not known and piece.text in OWN and not piece.other and piece.default is None:
            return Value((Word(OWN[piece.text], place),))
        if known:
            value = self._values[piece.text]
            if piece.default is None or any(w.text for w in value.words):
                return value
        if piece.default is not None:
            value = Value((self.join(piece.default, place),))
            if piece.assigns:
                self.set(piece.text, value)
            return value
        return Value((Word(f"${piece.text}", place, (piece.text,)),))

    def _cut(self, piece: Piece) -> Word | None:
        """`${X##*/}`, `${X%/*}`, `${X%.gguf}`, `${X,,}`, `${X//a/b}` of a variable that is known."""
        value = self._values.get(piece.text)
        if value is None or len(value.words) != 1 or any(w.missing for w in value.words):
            return Word(".", Place()) if piece.text == "BASH_SOURCE" and piece.other in ("[0]%/*", "%/*") else None
        text = cut(value.words[0].text, piece.other)
        return None if text is None else value.words[0]._replace(text=text)

    def _named_file(self, command: str) -> Word | None:
        """`$(basename "$X")` and `$(dirname "$X")` of a variable that is known."""
        match = _PART_OF.fullmatch(command)
        value = self._values.get(match[2]) if match else None
        if match is None or value is None or len(value.words) != 1 or value.words[0].missing:
            return None
        head, _, tail = value.words[0].text.rstrip("/").rpartition("/")
        return value.words[0]._replace(text=tail.removesuffix(match[3] or "") if match[1] == "basename" else head or ".")

    def _arithmetic(self, text: str, place: Place) -> Word:
        """`$(( ))` over whole numbers and variables that hold them; all else stays open."""
        missing: list[str] = []

        def number(match: re.Match[str]) -> str:
            value = self._values.get(match[1])
            held = value.words[0] if value and value.words else None
            if held is not None and not held.missing and held.text.strip().isdecimal():
                return held.text.strip()[:12]
            missing.append(match[1])
            return "0"

        plain = _DEFAULTED.sub(lambda m: m[0] if m[1] in self._values else m[2], text)
        plain = _NUMBER.sub(number, plain.strip())
        result = None if missing else calculate(plain)
        if result is None:
            shown = f"$(({text.strip()[:40]}))"
            return Word(shown, place, tuple(missing) or (shown,))
        return Word(str(result), place)


def _is_empty(value: Value | None) -> bool:
    """Whether the script itself leaves it empty."""
    return value is not None and not any(word.text for word in value.words)


def _added(old: Value, new: Value) -> tuple[str, ...]:
    """The words that a branch added to a variable."""
    if len(old.words) == len(new.words) == 1:
        return tuple(new.words[0].text.removeprefix(old.words[0].text).split())
    return tuple(word.text for word in new.words[len(old.words) :])


def cut(text: str, operation: str) -> str | None:
    """What POSIX sh and bash make of a variable's text (2.6.2, "Parameter Expansion"); None for what is not read here."""
    if operation in (",,", "^^"):
        return text.lower() if operation == ",," else text.upper()
    if match := re.fullmatch(r"//?([^/*?\[\]]{1,80})/([^*?$`]{0,80})", operation, re.DOTALL):
        return text.replace(match[1], match[2]) if operation.startswith("//") else text.replace(match[1], match[2], 1)
    match = re.fullmatch(r"(##?|%%?)(.{1,80})", operation, re.DOTALL)
    if match is None or re.search(r"[$`\\\[\]]", match[2]) or len(text) > MAX_VALUE // 16:
        return None
    pattern = re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in match[2]), re.DOTALL)
    sizes = range(len(text) + 1)
    longest, front = len(match[1]) == 2, match[1][0] == "#"
    order = reversed(sizes) if longest else sizes
    n = next((n for n in order if pattern.fullmatch(text[:n] if front else text[len(text) - n :])), 0) if match[2].count("*") < 3 else None
    return None if n is None else text[n:] if front else text[: len(text) - n]


def _own_folder(command: str) -> str | None:
    """The folder of the script itself, as scripts find it: `cd "$(dirname "$0")" && pwd`, `dirname "$(readlink -f "$0")"`, `pwd`."""
    text = re.sub(r"[\"']|--|2>\s*/dev/null|>\s*/dev/null|&>\s*/dev/null|-[PLef]\b", "", command)
    text = re.sub(r"\$\{BASH_SOURCE(\[0\])?(:-\$0)?\}|\$BASH_SOURCE|\$\{0\}|\$\{\(%\):-%[xN]\}", "$0", text)
    text = re.sub(r"\s+", " ", text).strip()
    for _ in range(3):
        text = re.sub(r"\$\((readlink|realpath) \$0\)", "$0", text)
        text = re.sub(r"\$\(dirname \$0\)|\$\{0%/\*\}", ".", text).replace("$(pwd)", ".").replace("$PWD", ".")
    if text in ("dirname $0", "pwd", "dirname $(readlink $0)"):
        return "."
    match = re.fullmatch(r"(?:cd (\.[./\w-]*) ?(?:&&|;) ?pwd|(?:realpath|readlink) (\.[./\w-]*)|dirname (\.))", text)
    if match is None:
        return None
    return match[1] or match[2] or ".."


def _shown(command: str) -> str:
    """A command whose output is not known, short, and such that it can be read as shell text again."""
    text = command.strip()[:40]
    program = re.split(r"[^\w./-]", text)[0] or "command"
    return f"$({program})" if re.search(r"[\"'`()\\]", text) else f"$({text})"


def calculate(text: str) -> int | None:
    """Whole numbers with + - * / % and brackets, as a shell reckons; None for anything else."""
    if len(text) > 200 or not re.fullmatch(r"[\d\s+*/%()-]+", text) or "**" in text:
        return None

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](value(node.left), value(node.right))
        raise ValueError

    try:
        return value(parse(text.strip().replace("//", "? ").replace("/", "//"), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
