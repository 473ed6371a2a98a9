"""Ways in which an engine stops, as data: when it does, in what words, what they mean, which settings move it.

`STOPS` in engines/<name>/refusals.py. A text is written once and used both ways: the verdict of a plan says it with its numbers, and
`kvplan why` finds it in what people paste. In it `{n}` is a number, `{x:w}` a word, `{x:t}` some text and `...` anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from kvplan.engines.common.lines import Refusal
from kvplan.engines.common.methods import Drafting
from kvplan.engines.common.protocol import RULE, Outcome, Settled
from kvplan.engines.common.releases import in_force

#: What a condition finds: the values of its text; None where the engine goes on.
Values = Mapping[str, object] | None

_FIELD = re.compile(r"\{(\w+)(?::([wt]))?\}|\.\.\.")
_KINDS = {None: r"-?[0-9]{1,19}(?:,[0-9]{3}){0,5}(?:\.[0-9]{1,12})?", "w": r"[\w.+/@:~-]{0,119}[\w+/@:~-]", "t": r".{1,200}?"}
_GAP = r".{0,300}?"


class Move(NamedTuple):
    """A setting that moves it: a name of the question, `option:KEY`, or none, and what to do with it, with values of the text."""

    setting: str
    how: str


class Stop(NamedTuple):
    """One wording of one way to stop.

    name           what it is; of rows with one name the first whose text is found is told
    text           the words that mark it
    means          in plain words, with values of the text
    moves          best first
    source         the engine's file and symbol
    since, before  the first release that says so, the first that does not any more; empty: as far as was read
    near           words of which one must be in the text too
    when           the condition on a settled question; None: known by its words alone
    tail           what it goes on to say, for a verdict; a pasted text may be cut before it
    numbers        what a verdict adds to words that have no number in them
    loading        it comes while the weights are loaded: with kv_memory, which is a question about the cache alone, it is only warned of
    """

    name: str
    text: str
    means: str
    moves: tuple[Move, ...]
    source: str
    since: str = ""
    before: str = ""
    near: tuple[str, ...] = ()
    when: Callable[[Settled], Values] | None = None
    tail: str = ""
    numbers: str = ""
    loading: bool = False


def say(text: str, values: Mapping[str, object]) -> str:
    """A text with its values; a field without one stays as its name."""
    return _FIELD.sub(lambda m: str(values.get(m[1], m[1])) if m[1] else m[0], text)


@cache
def expression(text: str) -> re.Pattern[str]:
    """What finds a text in one whose white space is single blanks; the name of an error alone, where no message follows it."""
    parts, at, seen = [], 0, set[str]()
    for field in _FIELD.finditer(text):
        parts.append(re.escape(text[at : field.start()]))
        name = field[1]
        parts.append(_GAP if name is None else f"(?P={name})" if name in seen else f"(?P<{name}>{_KINDS[field[2]]})")
        seen.add(name)
        at = field.end()
    return re.compile("".join(parts) + re.escape(text[at:]) + ("(?!:)" if text.endswith("Error") and text.isidentifier() else ""))


@cache
def needle(text: str) -> str:
    """The longest piece of a text that is always there."""
    return max(_FIELD.sub("\0", text).split("\0"), key=len)


def words_of(drafting: Drafting, name: str, means: str, moves: tuple[Move, ...]) -> tuple[Stop, ...]:
    """The words in which an engine refuses ways of drafting, for those who look them up; a plan has them from methods.py."""
    return tuple(
        Stop(name, one.text.replace("{method}", "{method:w}"), means, moves, one.source, one.since, one.before) for one in drafting.words
    )


def stop_of(stops: Iterable[Stop], settled: Settled) -> str | None:
    """Why this release does not start with this question, in its words: the first condition that holds; None: none of these does."""
    loads = settled.question.kv_memory is None
    return _first((stop for stop in stops if loads or not stop.loading), settled)


def refuse(stops: Iterable[Stop], settled: Settled) -> None:
    """Raises Refusal where `stop_of` finds a reason."""
    if reason := stop_of(stops, settled):
        raise Refusal(reason, sure=RULE)


def warned(outcome: Outcome, stops: Iterable[Stop], settled: Settled) -> Outcome:
    """The outcome with a warning of what would keep the weights from loading, where kv_memory left that unasked."""
    if settled.question.kv_memory is None or outcome.capacity is None:
        return outcome
    reason = _first((stop for stop in stops if stop.loading), settled)
    if reason is None:
        return outcome
    told = (*outcome.capacity.warnings, f"only the cache was asked about (kv_memory); the weights would not load: {reason}")
    return outcome._replace(capacity=outcome.capacity._replace(warnings=told))


def _first(stops: Iterable[Stop], settled: Settled) -> str | None:
    version = settled.question.engine_version
    for stop in stops:
        if stop.when is not None and in_force(stop.since, stop.before, version) and (values := stop.when(settled)) is not None:
            return say(f"{stop.text}{stop.tail}" + (f" ({stop.numbers})" if stop.numbers else ""), values)
    return None
