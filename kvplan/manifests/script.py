"""A shell script as the commands it may run, each with the variables that the script itself sets.

Commands of all branches are looked at; a variable that branches set has what the one sets that is taken, where that is known
(conditions.py). Nothing is run, and no variable comes from anywhere but the script and the `env` that the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from kvplan.engines.common.words import START, Breaks, Place, Word
from kvplan.errors import SpecError
from kvplan.manifests.assignments import ASSIGN, assign, begins, one_word, value_of
from kvplan.manifests.budget import CHARACTERS, bounded, spend
from kvplan.manifests.conditions import Case, compared, fits, tested, weighed
from kvplan.manifests.functions import MOST_CALLS, MOST_WITHIN, Bodies, kept_aside
from kvplan.manifests.held import Value
from kvplan.manifests.lexer import UNCLOSED, Token, pieces_of, tokens
from kvplan.manifests.programs import echoed, edited, stops, to_shell
from kvplan.manifests.variables import Variables
from kvplan.manifests.words import Command, Script, Sourced, Text

MAX_WORDS = 1000  # of one command
MAX_SOURCED = 4  # files that take each other in
_DECLARES = frozenset({"export", "local", "declare", "typeset", "readonly"})
_OPENS = frozenset({"if", "for", "while", "until", "case", "{", "function", "select"})
_TURNS = frozenset({"else", "elif", ";;"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_FUNCTION = re.compile(r"^[ \t]*(?:function[ \t]+)?([A-Za-z_][\w-]*)[ \t]*\(\)", re.MULTILINE)
_CONTAINER, _SKIPPED = re.compile(r"\b(docker|podman|nerdctl)\s+(container\s+)?(run|create)\b"), frozenset({"then", "do", "!", "time"})


def read_script(
    text: str,
    source: str,
    *,
    base: Place = START,
    breaks: Breaks = (),
    env: Mapping[str, Word] | None = None,
    arguments: Sequence[Word] | None = None,
    ends: bool = False,
    beside: Callable[[str], str | None] | None = None,
) -> Script:
    """The commands of a script. Raises SpecError where it is no shell text.

    env        variables known from outside it
    arguments  what it is called with, its own name first; None: not known
    ends       whether its variables at the end are asked for
    beside     reads a file next to it, for `source`; None: there are none
    """
    with bounded(source):
        reader = _Reader(source, env or {}, arguments, beside)
        script = reader.whole(text, base, breaks)
        return script._replace(env=reader.variables.every(base)) if ends else script


class _Reader:
    """One pass over the tokens; local to read_script."""

    def __init__(
        self, source: str, env: Mapping[str, Word], arguments: Sequence[Word] | None, beside: Callable[[str], str | None] | None
    ) -> None:
        self._source, self._beside = source, beside
        self._read: dict[str, str | None] = {}
        self._sourced: list[Sourced] = []
        self._within: list[str] = []  # files that are being taken in
        self._truth: bool | None = None  # of the list of commands that is read: `[ a ] && [ b ]`
        self._joined, self._tested = "", set[str]()  # what stands before its next command, the variables of the last test
        self._cases: list[Case] = []
        self.variables = Variables(source, env)
        self._commands: list[Command] = []
        self._files: dict[str, tuple[str, Place]] = {}
        self._texts: list[Text] = []
        self._functions: frozenset[str] = frozenset()
        self._bodies: Bodies = {}  # of those that use what they are called with
        self._calls: dict[str, int] = {}
        self._inside: list[str] = []  # functions that are being read
        self._piped: Word | None = None  # a here-document that goes on through a pipe
        self._brackets = 0  # subshells around the next command
        self._cut: SpecError | None = None
        self._over = False  # `exec` has taken the shell's place
        self._branch: list[int] = []
        self._turns = self._stops = self._began = 0
        self._call(arguments)

    def _call(self, arguments: Sequence[Word] | None) -> None:
        self.variables.set("#", Value((Word(str(len(arguments or "$") - 1)),)))  # none where they are not known
        for n, word in enumerate((arguments or ())[:10]):
            self.variables.set(str(n), Value((word,)))
        for name in "@*" if arguments is not None else "":
            self.variables.set(name, Value(tuple((arguments or ())[1:]), True))

    def whole(self, text: str, base: Place, breaks: Breaks) -> Script:
        """A script, with the functions that it never calls: each may be called from outside it."""
        self.read(text, base, breaks)
        for name in [name for name in self._bodies if name not in self._calls] if self._cut is None else ():
            self._inside_of(name)
        return Script(tuple(self._commands), self._files, tuple(self._texts), {}, tuple(self._sourced), self._cut)

    def read(self, text: str, base: Place, breaks: Breaks) -> None:
        current: list[Token] = []
        self._functions |= frozenset(match[1] for match in _FUNCTION.finditer(text))
        self._through(kept_aside(self._tokens(text, base, breaks, current), self._bodies), current)

    def _through(self, stream: Iterator[Token], current: list[Token]) -> None:
        for token in stream:
            if token.kind != "operator":
                current.append(token)
                continue
            if token.text == "(":  # a subshell, or the name ( ) of a function
                self._brackets += not current
                continue
            if token.text in ("|", ")") and self._pattern(current, token.text == ")"):
                current.clear()
                continue
            empty = self._command(current, token.place)
            self._brackets -= token.text == ")" and self._brackets > 0
            current.clear()
            if token.text == "&":
                self._commands[self._began :] = [one._replace(stays=True) for one in self._commands[self._began :]]
            if token.text in (";", "\n", "&", ";;"):
                self._began = len(self._commands)
            if token.text != "|":
                self._piped = None
            if token.text in ("&&", "||"):
                self._chain(token, empty)
            elif token.text != "|" and self.variables.in_chain():
                self.variables.close()
            self._joined = token.text if token.text in ("&&", "||", "|") else ""
            if token.text == ";;":
                self._turn()
                if self._cases:
                    self._cases[-1].waits = True

    def _inside_of(self, name: str) -> None:
        """Reads the body of a function among the script's own commands."""
        spend(len(self._bodies[name]), self._bodies[name][0].place.line if self._bodies[name] else 1)
        held = (self._joined, self._cases, self._began, self._piped)
        self._cases, self._joined = [], ""
        self._inside.append(name)
        end = Token("operator", "\n", self._bodies[name][-1].place if self._bodies[name] else START)
        self._through(iter((*self._bodies[name], end)), [])
        self._inside.pop()
        self._truth, (self._joined, self._cases, self._began, self._piped) = None, held

    def _is_call(self, run: Sequence[Word], local: Mapping[str, Word]) -> bool:
        """Takes in a call of a function that uses its words. What the script itself is called with (`"$@"`) is not known there either."""
        name = run[0].text if run else ""
        if name not in self._bodies or name in self._inside or len(self._inside) >= MOST_WITHIN or self._calls.get(name, 0) >= MOST_CALLS:
            return False
        self._calls[name] = self._calls.get(name, 0) + 1
        with self.variables.called(None if any(m in "@*" for word in run for m in word.missing) else run, local):
            self._inside_of(name)
        return True

    def _tokens(self, text: str, base: Place, breaks: Breaks, current: list[Token]) -> Iterator[Token]:
        """The tokens up to a quote that is left open: a shell has run the lines before it when it comes there."""
        try:
            yield from tokens(text, self._source, base, breaks)
        except SpecError as error:
            (at, message), *_ = error.faults
            line = min([int(at.removeprefix("line ") or 0), *(token.place.line for token in current)])
            before = [one for one in self._commands if one.end_line < line]
            if not message.endswith(UNCLOSED) or self._branch or not before:
                raise
            self._commands, self._cut = before, error

    def _chain(self, token: Token, empty: str) -> None:
        """What follows `&&` runs where the commands before it succeed, what follows `||` where they fail."""
        holds = self._truth if token.text == "&&" or self._truth is None else not self._truth
        if not self.variables.in_chain():
            self.variables.open(token.place, is_chain=True)
            if empty and token.text == "&&":
                self.variables.empty(empty)
        elif token.text == "||" and holds is not None:
            self.variables.turn()
        self.variables.judge(holds)

    def _pattern(self, current: list[Token], last: bool) -> bool:
        """Takes in a pattern of `case`, up to its bracket. Returns whether it was one."""
        words = [t for t in current if t.kind == "word"]
        if len(words) > 3 and (words[0].text, words[2].text) == ("case", "in"):
            self._command(current, words[0].place)
            words = words[3:]
        if not words or words[0].text == "esac" or not self._cases or not self._cases[-1].waits:
            return False
        case = self._cases[-1]
        case.patterns += [self.variables.join(t.pieces, t.place) for t in words]
        if last:
            known = not case.subject.missing and not any(p.missing for p in case.patterns)
            self.variables.judge(any(fits(case.subject.text, p.text) for p in case.patterns) if known else None)
            case.patterns, case.waits = [], False
        return True

    def _command(self, parts: list[Token], end: Place) -> str:
        """Takes in one command. Returns the name of a variable that it tests for being empty."""
        words = [t for t in parts if t.kind == "word"]
        first = ""
        while words and (words[0].text in _SKIPPED | _OPENS | _TURNS | _CLOSES):
            first = words.pop(0).text
            if first == "then":
                self.variables.judge(self._truth, self._tested)
            elif first in _OPENS:
                self.variables.open(end)
                self._turns += 1
                self._branch.append(self._turns)
                if first in ("while", "until") and any(p.text == "#" or p.text.isdecimal() for t in words for p in t.pieces):
                    self.variables.loop()  # over what it is called with: each turn has other words
                elif first in ("for", "select") and words:
                    self.variables.forget(words[0].text)
                    words = []
                elif first in ("case", "function"):
                    self._cases += [Case(self.variables.join(t.pieces, end)) for t in words[: first == "case"]]
                    words = []
            elif first in _TURNS:
                self._turn()
                self.variables.otherwise(self._tested, is_last=first == "else")
            elif first in _CLOSES:
                self.variables.close()
                self._branch = self._branch[:-1]
                if first == "esac":
                    self._cases = self._cases[:-1]
        self._weigh(words, first)
        if (first == "while" and self._truth is False) or (first == "until" and self._truth):
            self.variables.judge(False, self._tested)  # a loop that is not entered
        if not words:
            return ""
        self._within_words(words)
        empty = tested(words, "-z")
        if first == "if" and (empty or (asked := tested(words, "-n"))):
            self.variables.empty(empty) if empty else self.variables.filled(asked)
        elif first == "if" and (asked := compared(words)):
            self.variables.ask(asked)
        elif not self._sets(words) and not self._takes_in(words):
            self._run(parts, words, end)
        return empty

    def _weigh(self, words: list[Token], first: str) -> None:
        """Whether the list of commands succeeds, with this one, as far as it is known. `first`: the word of the shell before it."""
        holds: bool | None = None
        if words and words[0].text in ("[", "[[", "test"):
            self._tested = {p.text for t in words for p in t.pieces if p.kind == "variable"} | (self._tested if self._joined else set())
            join = self.variables.in_loop if first in ("while", "until") else self.variables.join
            holds = weighed(words, join, lambda name: self._text_of(name) is not None)
        elif words and words[0].text == "getopts" and len(words) == 3 and not self.variables.knows("0"):
            holds = False
        elif words and (words[0].text in ("true", ":", "false") or all(ASSIGN.match(t.text) for t in words)):
            holds = words[0].text != "false"
        holds = not holds if first == "!" and holds is not None else holds
        before = self._truth
        if self._joined == "&&":
            self._truth = False if before is False or holds is False else before and holds
        elif self._joined == "||":
            self._truth = True if before or holds else None if before is None or holds is None else False
        elif words or self._joined:
            self._truth = None if self._joined == "|" else holds

    def _text_of(self, name: str) -> str | None:
        if self._beside is None or not name:
            return None
        if name not in self._read:
            self._read[name] = self._beside(name.removeprefix("./"))
        return self._read[name]

    def _within_words(self, words: list[Token]) -> None:
        """`ID=$(docker run ...)`: the command whose answer a variable takes; `ID=$("${COMMAND[@]}")`, by what the array holds."""
        for t, piece in ((one, piece) for one in words for piece in one.pieces if ASSIGN.match(words[0].text) and piece.other != "array"):
            if piece.kind == "command" and _CONTAINER.search(begins(self.variables, piece.text, t.place, self._source)):
                self._apart(piece.text, t.place)

    def _apart(self, text: str, place: Place) -> None:
        """Reads a text that runs among the script's own commands."""
        held = (self._joined, self._cases)
        self._cases = []
        self.read(text, place, ((0, place.line),))
        self._truth, (self._joined, self._cases) = None, held

    def _takes_in(self, words: list[Token]) -> bool:
        """`source FILE`: its commands and variables are the script's own."""
        if words[0].text not in ("source", ".") or len(words) < 2 or self._beside is None:
            return False
        name = self.variables.join(words[1].pieces, words[1].place)
        if not re.search(r"[./$]", words[1].text):  # the end of a sentence, in a text that is no command
            return words[0].text == "."
        if re.search(r"(activate|conda\.sh|setvars\.sh|\.?(bash|zsh)?rc|profile)$", name.text):
            return True
        text = None if name.missing or name.text in self._within or len(self._within) >= MAX_SOURCED else self._text_of(name.text)
        self._sourced.append(Sourced(name.text, name.place, text is not None))
        if text is not None:
            self._within.append(name.text)
            self._apart(text, name.place)
            self._within.pop()
        return True

    def _group(self) -> str:
        return ".".join(map(str, [self._stops, *self._branch])) if self._stops or self._branch else ""

    def _turn(self) -> None:
        self.variables.turn()
        self._turns += 1
        self._branch[-1:] = [self._turns] if self._branch else []

    def _sets(self, words: list[Token]) -> bool:
        """Whether it is a command that changes variables and starts nothing."""
        name = words[0].text
        if name in _DECLARES:
            for token in words[1:]:
                assign(self.variables, token, self._source, exported=name == "export")
        elif name == "shift" and self.variables.shifted(words[1].text if len(words) > 1 else "1"):
            pass
        elif name in ("unset", "read", "shift", ":", "true"):
            for t in words[1:]:
                self.variables.forget(t.text) if name in ("unset", "read") else self.variables.join(t.pieces, t.place)
        elif name == "set" and any(t.text == "--" for t in words):
            after = words[[t.text for t in words].index("--") + 1 :]
            self._call([Word(name), *(w for t in after for w in self.variables.expand(t.pieces, t.place))])
        elif all(ASSIGN.match(token.text) for token in words):
            for token in words:
                assign(self.variables, token, self._source, exported=False)
        else:
            return False
        return True

    def _run(self, parts: list[Token], words: list[Token], end: Place) -> None:
        local: dict[str, Word] = {}
        n = 0
        while match := ASSIGN.match(words[n].text):
            local[match[1]] = one_word(value_of(self.variables, words[n], match, self._source), words[n])
            n += 1
        run = [word for token in words[n:] for word in self.variables.expand(token.pieces, token.place)]
        self._files |= edited(run, self._files)
        redirects = [t for t in parts if t.kind == "redirect"]
        piped, self._piped = self._piped, None
        told = bool(piped and run and self._told(run, piped))
        for token in redirects:
            told = self._here_document(token, run, redirects) or told
        told = told or bool(run and redirects and self._echoed(run, redirects))
        if len(run) > MAX_WORDS:
            raise SpecError(self._source, [(f"line {words[n].place.line}", f"a command of more than {MAX_WORDS:,} words")])
        if run and not told and not self._over and not self._is_call(run, local):
            last, self._stops = max((t.place.line for t in parts), default=end.line), self._stops + stops(run)
            env = {**self.variables.exported(words[0].place), **local}
            self._commands.append(Command(tuple(run), env, words[n].place, last, self._group()))
            self._over = run[0].text == "exec" and len(run) > 1 and not self._brackets and self.variables.is_sure()

    def _here_document(self, token: Token, run: list[Word], redirects: list[Token]) -> bool:
        """Takes in what a here-document holds. Returns whether a shell is told it."""
        if token.text not in ("<<", "<<-") or not run:
            return False
        body, missing = token.body, tuple[str, ...]()
        if not token.pieces[0].quoted:
            joined = self.variables.join(pieces_of(token.body, self._source), token.place)
            body, missing = joined.text, joined.missing
        spend(len(body) // CHARACTERS, token.place.line)
        if self._told(run, Word(body, token.body_place)):
            return True
        target = next((r for r in redirects if r.text in (">", ">|", ">>")), None)
        name: Word | None = None
        if run[0].text == "cat" and target:
            name = self.variables.join(target.pieces, target.place)
        elif run[0].text == "tee":
            name = next((w for w in run[1:] if not w.text.startswith("-")), None)
        if name is None:
            self._piped = Word(body, token.body_place) if run[0].text in ("cat", "envsubst") else None
            self._texts.append(Text(body, token.body_place, missing))
        elif not name.missing or (target and len(target.pieces) == 1 and target.pieces[0].kind == "variable"):
            path = f"${target.pieces[0].text}" if name.missing and target else name.text
            self._keep(path, body, token.body_place, adds=target is not None and target.text == ">>")
            self._texts.append(Text(body, token.body_place, missing))
        return False

    def _keep(self, path: str, body: str, place: Place, *, adds: bool) -> None:
        """A file that the script writes."""
        path = path.removeprefix("./")
        before = self._files.get(path)
        self._files[path] = (before[0] + body, before[1]) if before and adds else (body, place)
        spend(len(self._files[path][0]) // CHARACTERS, place.line)

    def _echoed(self, run: list[Word], redirects: list[Token]) -> bool:
        """`echo TEXT > FILE`: a file of those lines. Returns whether it was one."""
        target = next((r for r in redirects if r.text in (">", ">|", ">>")), None)
        body = echoed(run) if target else ""
        if target and body and not (name := self.variables.join(target.pieces, target.place)).missing:
            self._keep(name.text, body, run[1].place, adds=target.text == ">>")
        return bool(body)

    def _told(self, run: list[Word], body: Word) -> bool:
        """Takes in a text that a command hands to a shell: here, in a container, on another machine, or by a function of the script."""
        told = to_shell(run, body)
        note, env = "", self.variables.exported(body.place)
        if told is None and run[0].text in self._functions and not re.match(r"[\w-]+:(\s|$)", body.text):
            told, env = [Word("bash", run[0].place), Word("-c", run[0].place), body], self.variables.every(body.place)
            note = f"{run[0].text} is taken to run this text in a shell that has the script's variables"
        elif told is not None and told[0].text.endswith("ssh"):
            env = {}
        if told is None:
            return False
        self._commands.append(Command(tuple(told), env, run[0].place, body.place.line + body.text.count("\n"), self._group(), note=note))
        return True
