"""Options that exclude one another or want another beside them, as data: `Arguments.exclusions` against the options of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kvplan.engines.common.releases import in_force
from kvplan.engines.common.words import START, Finding, refuse
from kvplan.spec import ModelSpec


class Exclusion(NamedTuple):
    """What an engine stops with where options hold (`asked`) and others do not (`wants`).

    Terms: `key=a,b` (one of these values; an empty one: not given), `key=*` (given), `key<=N`, `key>N` (N: a number or another key),
    `key~text` (has it within but for spaces, all of it known); `&` all of several terms, `|` any. Keys are long options with `_`. since,
    before: first release that says so, first that does not any more; empty: always. of: the kind of model (`kinds`) of which it says so;
    empty: any.
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
        return frozenset(term[1] for one in re.split(r"[&|]", f"{self.asked}&{self.wants}") if (term := _TERM.fullmatch(one)))

    @property
    def lifted_by(self) -> frozenset[str]:
        """The options that it wants, beside those that are asked."""
        asked, wants = ({term[1] for one in re.split(r"[&|]", text) if (term := _TERM.fullmatch(one))} for text in (self.asked, self.wants))
        return frozenset(wants - asked)


_TERM = re.compile(r"(\w+)(=|<=|>|~)(.*)")


def excluded(table: tuple[Exclusion, ...], seen: Mapping[str, Any], version: str | None) -> Iterator[tuple[str, Finding]]:
    """Why the engine would not start, and with which kind of model. `seen`: options by their long spelling, with `_`; `version` None: the
    newest."""
    for one in table:
        given = in_force(one.since, one.before, version) and all(_holds(term, seen) for term in one.asked.split("&"))
        if given and not _wanted(one.wants, seen):
            yield one.of, refuse(f"{one.says}; the engine would stop", START)


def kinds(model: ModelSpec) -> frozenset[str]:
    """What an engine's options may ask of a model: that it is text alone, takes media, has an encoder, or no experts."""
    found = {"media"} if model.towers else {"text"} if (model.architecture or "").endswith("ForCausalLM") and not model.encoder else set()
    routed = any(mlp.kind == "moe" for block in model.blocks.values() for mlp in block.mlps)
    return frozenset(found | ({"encoder-decoder"} if model.encoder else set()) | (set() if routed else {"dense"}))


def _wanted(terms: str, seen: Mapping[str, Any]) -> bool:
    """Whether what is wanted is there; a number that is not known may be any."""
    return any(all(_holds(term, seen, either=True) for term in every.split("&")) for every in terms.split("|"))


def _holds(term: str, seen: Mapping[str, Any], *, either: bool = False) -> bool:
    """`either`: the answer for a number that a variable holds."""
    match = _TERM.fullmatch(term)
    assert match is not None, term
    key, operator, value = match.groups()
    said = seen.get(key)
    if said is False:  # the --no- form of a switch
        said = None
    if operator == "=":
        return said is not None if value == "*" else ("" if said is None else str(said)) in value.split(",")
    if operator == "~":
        return value in str(said or "").replace(" ", "") and "$" not in str(said)
    try:
        most = float(seen.get(value, value))
        return said is not None and (float(said) <= most if operator == "<=" else float(said) > most)
    except (TypeError, ValueError):
        return either and any("$" in str(one) or "{{" in str(one) for one in (said, seen.get(value, value)))
