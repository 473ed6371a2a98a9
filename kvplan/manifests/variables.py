"""The variables of a shell script as it is read: what is known of each, in which branch, and what words become of them.

A variable set in a branch is known inside it and open after it; one that a branch only adds to keeps what it had, with an open end.
One that a branch sets where it was empty (`[ -z "$X" ] && X=...`) has that value, as `${X:-...}` has. Where the texts that decide
between branches are known (conditions.py), one of them is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce

from kvplan.engines.common.words import Place, Word
from kvplan.errors import SpecError
from kvplan.manifests import budget
from kvplan.manifests.expansions import COUNTED, PART_OF, arithmetic, cut, own_folder, shown
from kvplan.manifests.held import POSITIONAL, Value, added, is_called_with, is_empty, positional, words_of
from kvplan.manifests.lexer import Piece, tokens

MAX_VALUE = 65_536
_LISTS = ("[@]", "[*]")
#: What every shell has: the user's home, where it runs.
OWN = {"HOME": "~", "PWD": "."}


@dataclass(slots=True, kw_only=True)
class _Scope:
    """A choice of branches: what was known before it, what they changed (True: only added to), what one sets where it was empty.

    asked   a variable that nothing here sets, which the branch asks to be a certain text
    sure    whether what decides is known of every branch so far; None: nobody asked
    live    whether the branch that is read is the one that is taken
    filled  1: its first branch is for when a variable that nothing sets holds something; 2: and it has an `else` and no other
    whose   that variable
    own     what the first branch takes from it
    taken   what is known at the end of the branch that is taken
    others  what the other branches set
    lost    what is not known after the branch that is taken, else before them all
    """

    is_chain: bool
    before: Mapping[str, Value]
    changed: dict[str, bool] = field(default_factory=dict)
    defaults: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    sure: bool | None = None
    live: bool = False
    filled: int = 0
    whose: str = ""
    own: set[str] = field(default_factory=set)
    taken: Mapping[str, Value] | None = None
    others: dict[str, Value] = field(default_factory=dict)
    lost: frozenset[str]


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
            budget.spend(len(self._values), place.line)
            self._environment = {name: value.words[0] for name, value in self._values.items() if name in self._exported and value.words}
        return self._environment

    def every(self, place: Place) -> Mapping[str, Word]:
        """All that is known, exported or not."""
        budget.spend(len(self._values), place.line)
        held = {name: [w for w in value.words if w.text] for name, value in self._values.items()}
        return {
            name: words[0] if len(words) == 1 else Word(" ".join(w.text for w in words), place, tuple(m for w in words for m in w.missing))
            for name, words in held.items()
        }

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
            value = value._replace(words=(Word(f"${name}", value.words[0].place, (name,)), *value.words))
        if not adds:
            self._lost.discard(name)
        budget.spend(len(value.words) + len(self._scopes), value.words[0].place.line if value.words else 1)
        for scope in self._scopes:
            scope.changed[name] = adds and scope.changed.get(name, True)
            if scope.filled == 1 and any(scope.whose in word.missing for word in value.words):
                scope.own.add(name)
        self._values[name] = value
        self._environment = None

    def is_default(self, value: Value) -> bool:
        """Whether a branch sets a variable to one of the script's own arguments, which are not known."""
        return bool(self._scopes) and not value.is_array and "0" not in self._values and is_called_with(value.words)

    def export(self, name: str) -> None:
        self._exported.add(name)
        self._environment = None

    def forget(self, name: str) -> None:
        self._values.pop(name, None)
        self._environment = None
        budget.spend(len(self._scopes), 1)
        for scope in self._scopes:
            scope.changed[name] = False

    # what a script or a function is called with

    @contextmanager
    def called(self, words: Sequence[Word] | None, local: Mapping[str, Word]) -> Iterator[None]:
        """Within it `$0`, `$1`, `$@` are of these words, and `local` holds; what `$@` is afterwards is what it was before."""
        mine = {name: Value((word,)) for name, word in local.items()} | (positional(words) if words is not None else {})
        names = {*POSITIONAL, *mine} if words is not None else mine.keys()
        before = {name: self._values.pop(name) for name in names if name in self._values}
        self._values |= mine
        self._environment = None
        yield
        for name in names:
            self._values.pop(name, None)
        self._values |= before
        self._environment = None

    def shifted(self, by: str) -> bool:
        """`shift N`; whether it is known what is left."""
        held, first = self._values.get("@"), self._values.get("0")
        if held is None or first is None or not by.isdecimal():
            return False
        for name, value in positional((*first.words, *held.words[int(by[:4]) :])).items():
            self.set(name, value)
        return True

    def loop(self) -> None:
        """What a loop over the words leaves of them: nothing that is known; a script that is called with none does not enter it."""
        for name in POSITIONAL if "0" in self._values else ():
            if name in self._values and name != "0":
                self.forget(name)

    # branches

    def open(self, place: Place, *, is_chain: bool = False) -> None:
        budget.spend(1 + len(self._values), place.line)
        self._scopes.append(_Scope(is_chain=is_chain, before=dict(self._values), lost=frozenset(self._lost)))

    def in_chain(self) -> bool:
        return bool(self._scopes) and self._scopes[-1].is_chain

    def is_sure(self) -> bool:
        """Whether what is read runs for sure."""
        return all(scope.sure and scope.live for scope in self._scopes)

    def empty(self, name: str) -> None:
        """The branch is for when this variable is empty."""
        if self._scopes and name not in self._values:
            self._scopes[-1].defaults.add(name)

    def filled(self, name: str) -> None:
        """The branch is for when this variable holds something: where nothing sets it, the `else` has the default of what it would give."""
        if self._scopes and name not in self._values and name not in self._lost:
            self._scopes[-1].filled, self._scopes[-1].whose = 1, name

    def otherwise(self, tested: Collection[str], *, is_last: bool) -> None:
        """The next branch of an `if`, or its `else`."""
        if self._scopes:
            self._scopes[-1].filled *= 2 if is_last else 0
        if is_last:
            self.judge(True, tested)

    def ask(self, name: str) -> None:
        """The branch is for when this variable is a certain text: one that nothing sets is not, unless the environment says so."""
        if self._scopes and name not in self._values and not self._scopes[-1].changed:
            self._scopes[-1].asked.append(name)

    def judge(self, holds: bool | None, tested: Collection[str] = ()) -> None:
        """What decides whether the branch that begins here is taken: known to hold, known not to, or not known. Where it is not taken, the
        variables that its condition tests would hold something else in it: there those that hold nothing, or 0, are open."""
        if not self._scopes:
            return
        scope = self._scopes[-1]
        if scope.taken is None or not scope.sure:  # else what the others ask does not matter
            scope.sure = holds is not None and scope.sure is not False and not (scope.live and scope.changed)
            scope.live = bool(holds) and scope.taken is None
        if scope.sure and not scope.live:
            off = [name for name in tested if name in self._values and all(w.text in ("", "0") for w in self._values[name].words)]
            self._values |= {name: Value((Word(f"${name}", Place(), (name,)),)) for name in off}
            self._environment = None

    def _end(self, scope: _Scope) -> None:
        """Keeps what the branch that ends here has made of the variables."""
        budget.spend(1 + len(scope.changed), 1)
        if scope.live:
            scope.taken, scope.lost = dict(self._values), frozenset(self._lost)
        else:
            scope.others |= {name: self._values[name] for name in scope.changed if name in self._values}
        scope.live = False

    def turn(self) -> None:
        """The next branch of the same choice."""
        if self._scopes:
            self._end(self._scopes[-1])
            budget.spend(1 + len(self._scopes[-1].before), 1)
            self._values, self._lost = dict(self._scopes[-1].before), set(self._scopes[-1].lost)
            self._environment = None
            self._scopes[-1].defaults.clear()
            self._scopes[-1].asked.clear()

    def _decided(self, scope: _Scope) -> None:
        """After a choice whose branch is known: what that one set, else what was before; empty words may be what another would set."""
        final = scope.taken if scope.taken is not None else scope.before
        self._lost = set(scope.lost)
        for name in scope.changed:
            if name not in final:
                self._values.pop(name, None)
                continue
            value = final[name]
            other = scope.others.get(name)
            if is_empty(value) and other is not None and not is_empty(other):
                more = ("", *(part for word in other.words for part in word.text.split()))
                value = value._replace(words=(Word(f"${name}", Place(), (name,), (), more),))
            self._values[name] = value

    def close(self) -> None:
        if not self._scopes:
            return
        self._environment = None
        scope, inside = self._scopes.pop(), self._values
        self._end(scope)
        self._values = dict(scope.before)
        if scope.sure:
            self._decided(scope)
            return
        for name, only_adds in scope.changed.items():
            if name in inside and (name in scope.defaults or (scope.filled == 2 and name in scope.own)):
                self._values[name] = inside[name]
            elif scope.asked and name in inside and is_empty(scope.before.get(name)):
                more = ("", *(part for word in inside[name].words for part in word.text.split()))
                self._values[name] = scope.before[name]._replace(words=(Word(f"${name}", Place(), (name,), (), more),))
            elif only_adds and name in scope.before:
                old = scope.before[name]
                more = added(old, inside[name]) if name in inside else ()
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
        budget.spend(len(done) + size // budget.CHARACTERS, place.line)
        if size > MAX_VALUE:
            raise SpecError(self._source, [(f"line {place.line}", "a word grows beyond 64 KiB; no serve command is that long")])
        yield from done

    def _parts(self, piece: Piece, place: Place) -> tuple[list[Word], bool]:
        """The words of one variable, and whether the first of them begins a new word."""
        value = self._lookup(piece, place)
        instead = piece.other.startswith(("+", ":+"))
        if piece.quoted and len(value.words) > 1 and (instead or piece.other == "[*]" or piece.text == "*"):  # one word, apart by blanks
            return [Word(" ".join(w.text for w in value.words), place, tuple(m for w in value.words for m in w.missing))], False
        if instead or piece.other in _LISTS or (piece.text == "@" and value.is_array):
            return list(value.words), False
        words = value.words[:1] if value.is_array else value.words
        if piece.quoted:
            return [Word("".join(w.text for w in words), place, tuple(m for w in words for m in w.missing))], False
        split = [part for w in words for part in words_of(w)]
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
        budget.spend(len(text) // budget.CHARACTERS, place.line)
        return Word(text, place, tuple(missing))

    def in_loop(self, pieces: tuple[Piece, ...], place: Place) -> Word:
        """One word of what a loop asks: where it is not known what the script is called with, it is called with nothing."""
        word = self.join(pieces, place)
        if "0" in self._values or not is_called_with((word,)):
            return word
        return Word(reduce(lambda text, name: text.replace(f"${name}", ""), word.missing, word.text), place)

    def _lookup(self, piece: Piece, place: Place) -> Value:
        if piece.kind == "command" and piece.text.startswith("(") and piece.text.endswith(")"):
            return Value((self._arithmetic(piece.text[1:-1], place),))
        if piece.kind == "command" and (piece.text.lstrip()[:1] in ("#", "")):  # a remark between the lines of a command
            return Value(())
        if piece.kind == "command":
            own = own_folder(piece.text)
            if own is not None:
                return Value((Word(own, place),))
            inner = self._named_file(piece.text)
            if inner is not None:
                return Value((inner._replace(place=place),))
            text = shown(piece.text)
            return Value((Word(text, place, (text,)),))
        if piece.other[:1] == "+" or piece.other[:2] == ":+":
            return self._instead(piece, place)
        known = piece.other in ("", *_LISTS) and piece.text in self._values
        if not known and piece.other and (cut := self._cut(piece)) is not None:
            return Value((cut._replace(place=place),))
        if not known and piece.text in OWN and not piece.other and piece.default is None:
            return Value((Word(OWN[piece.text], place),))
        if known:
            value = self._values[piece.text]
            if piece.default is None or any(w.text for w in value.words):
                return value
        if piece.default is not None and not (piece.text in self._lost and not known):  # what some branch set may stand instead
            value = Value((self.join(piece.default, place),))
            if piece.assigns:
                self.set(piece.text, value)
            return value
        return Value((Word(f"${piece.text}", place, (piece.text,)),))

    def _instead(self, piece: Piece, place: Place) -> Value:
        """`${X:+WORDS}`: the words where the variable holds something; where nothing sets it, as if it were empty, and open."""
        inner = [token for token in tokens(piece.other.partition("+")[2], self._source, place) if token.kind == "word"]
        words = tuple(w for token in inner for w in self.expand(token.pieces, place))
        value = self._values.get(piece.text)
        if value is not None and not any(w.missing for w in value.words):
            return Value(words if any(w.text for w in value.words) else (), True)
        return Value((Word(f"${piece.text}", place, (piece.text,), (), ("", *(w.text for w in words))),))

    def _cut(self, piece: Piece) -> Word | None:
        """`${X##*/}`, `${X%/*}`, `${X%.gguf}`, `${X,,}`, `${X//a/b}` of a variable that is known."""
        value = self._values.get(piece.text)
        if value is None or len(value.words) != 1 or any(w.missing for w in value.words):
            return Word(".", Place()) if piece.text == "BASH_SOURCE" and piece.other in ("[0]%/*", "%/*") else None
        text = cut(value.words[0].text, piece.other)
        return None if text is None else value.words[0]._replace(text=text)

    def _named_file(self, command: str) -> Word | None:
        """`$(basename "$X")`, `$(dirname "$X")` of a variable that is known; how many a list in it names."""
        match = PART_OF.fullmatch(command)
        counted = None if match else COUNTED.fullmatch(command.strip())
        name = match[2] if match else next(filter(None, counted.groups())) if counted else ""
        value = self._values.get(name)
        if value is None or len(value.words) != 1 or value.words[0].missing:
            return None
        if match is None:
            return value.words[0]._replace(text=str(len(value.words[0].text.split(","))))
        head, _, tail = value.words[0].text.rstrip("/").rpartition("/")
        return value.words[0]._replace(text=tail.removesuffix(match[3] or "") if match[1] == "basename" else head or ".")

    def _arithmetic(self, text: str, place: Place) -> Word:
        """`$(( ))` over whole numbers and variables that hold them; all else stays open."""
        result, missing = arithmetic(text, {name: value.words[0] for name, value in self._values.items() if value.words})
        if result is None:
            open_text = f"$(({text.strip()[:40]}))"
            return Word(open_text, place, missing or (open_text,))
        return Word(str(result), place)
