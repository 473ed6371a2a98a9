"""Options that exclude one another or want another beside them, as data: `Arguments.exclusions` against the options of a command."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kvplan.engines.common.releases import in_force
from kvplan.engines.common.words import START, Finding, refuse
from kvplan.spec import ModelSpec

#: Encoder-decoder classes whose encoder is the medium's own.
HEARING = ("WhisperForConditionalGeneration",)


class Exclusion(NamedTuple):
    """What an engine stops with where options hold (`asked`) and others do not (`wants`).

    Terms: `key=a,b` (one of these values; an empty one: not given), `key=*` (given), `key<=N`, `key>N` (N: a number or another key),
    `key~text` (has it within but for spaces), `key^regex` (its text is such); `&` all of several terms, `|` any. What a variable holds is
    nothing that is asked, and all that is wanted. Keys are long options with `_`, or one and a key of its object behind a dot (`.*`: any
    member of a list). since, before: first release that says so, first that does not any more; empty: always. of: the kind of model
    (`kinds`) of which it says so; empty: any.
    """

    asked: str
    wants: str
    says: str
    since: str = ""
    before: str = ""
    of: str = ""

    @property
    def keys(self) -> frozenset[str]:
        """The options that it speaks of."""
        return _options(f"{self.asked}&{self.wants}")

    @property
    def lifted_by(self) -> frozenset[str]:
        """The options that it wants, beside those that are asked."""
        return _options(self.wants) - _options(self.asked)


def _options(terms: str) -> frozenset[str]:
    return frozenset(term[1].partition(".")[0] for one in re.split(r"[&|]", terms) if (term := _TERM.fullmatch(one)))


_TERM = re.compile(r"([\w.*]+?)(=|<=|>|~|\^)(.*)")


def excluded(table: tuple[Exclusion, ...], seen: Mapping[str, Any], version: str | None) -> Iterator[tuple[str, Finding]]:
    """Why the engine would not start, and with which kind of model. `seen`: options by their long spelling, with `_`; `version` None: the
    newest."""
    for one in table:
        given = in_force(one.since, one.before, version) and all(_holds(term, seen) for term in one.asked.split("&"))
        if given and not _wanted(one.wants, seen):
            yield one.of, refuse(f"{one.says}; the engine would stop", START)


def kinds(model: ModelSpec) -> frozenset[str]:
    """What an engine's options may ask of a model: that it is text alone, takes media, has an encoder or none, or no experts."""
    hears = model.encoder is not None and (model.architecture or "") in HEARING
    found = {"media"} if model.towers or hears else set[str]()
    if not found and (model.architecture or "").endswith("ForCausalLM") and not model.encoder:
        found = {"text"}
    return frozenset(found | {"encoder-decoder" if model.encoder else "decoder"} | (set() if model.routed else {"dense"}))


def _wanted(terms: str, seen: Mapping[str, Any]) -> bool:
    """Whether what is wanted is there; what a variable holds may be it."""
    return any(all(_holds(term, seen, either=True) for term in every.split("&")) for every in terms.split("|"))


def _holds(term: str, seen: Mapping[str, Any], *, either: bool = False) -> bool:
    """`either`: the answer for what a variable holds."""
    match = _TERM.fullmatch(term)
    assert match is not None, term
    key, operator, value = match.groups()
    option, _, inner = key.partition(".")
    said = seen.get(option)
    if said is False:  # the --no- form of a switch
        said = None
    if inner:
        return any(either if _open(one) else _is(one, operator, value, seen, either) for one in _inside(said, inner.split(".")))
    if _open(said) and (operator, value) != ("=", "*"):
        return either
    return _is(said, operator, value, seen, either)


def _open(said: Any) -> bool:
    """Whether a variable or a template is in it."""
    return "$" in str(said) or "{{" in str(said)


#: A string of JSON, or an open value without quotes.
_BARE = re.compile(r'"(?:[^"\\]|\\.)*"|(\$\{[^}]*\}|\$\w+|\{\{.*?\}\})')


def _inside(said: Any, keys: list[str]) -> list[Any]:
    """What stands at these keys of an object that is written as JSON: nothing is None, and no member of a list none at all.

    Where variables leave open what its keys are, all of it as it is written.
    """
    if not isinstance(said, str):
        return [None]
    try:
        found = [json.loads(_BARE.sub(lambda one: json.dumps(one[1]) if one[1] else one[0], said))]
    except ValueError:
        return [said if _open(said) else None]
    for key in keys:
        found = [inner for one in found for inner in _at(key, one)]
    return found


def _at(key: str, one: Any) -> list[Any]:
    """What stands at one key of this; what a variable stands for, or the keys of, is itself."""
    if isinstance(one, str) and _open(one):
        return [one]
    if key == "*":
        return one if isinstance(one, list) else []
    if not isinstance(one, dict):
        return [None]
    return [one.get(key, one if any(map(_open, one)) else None)]


def _is(said: Any, operator: str, value: str, seen: Mapping[str, Any], either: bool) -> bool:
    if operator == "=":
        return said is not None if value == "*" else ("" if said is None else str(said)) in value.split(",")
    if operator == "~":
        return value in str(said or "").replace(" ", "")
    if operator == "^":
        return said is not None and bool(re.fullmatch(value, str(said)))
    bound = seen.get(value, value)
    if _open(bound):
        return either
    try:
        return said is not None and (_number(said) <= _number(bound) if operator == "<=" else _number(said) > _number(bound))
    except (TypeError, ValueError):
        return False


def _number(said: Any) -> float:
    """One that is too long for a double is without end."""
    try:
        return float(said)
    except OverflowError:
        return math.inf if said > 0 else -math.inf
