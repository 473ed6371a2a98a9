"""Ways of drafting, and adapters, by release, as data: which an engine's releases have, and in what words they refuse another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kvplan.engines.common.options import read_lora, read_speculative
from kvplan.engines.common.releases import in_force
from kvplan.errors import SpecError

ADAPTERS = "adapters"
_BRANCH = re.compile(r"(?<=\d)\.?(?:rc|[ab])\d|dev|nightly|\+")
_BUILD = re.compile(r"b?\d{3,6}(?![.\d])")


class Way(NamedTuple):
    """Methods of some releases.

    methods        METHOD of `METHOD:TOKENS[:MODEL]`, apart by blanks
    since, before  the first release that has them, the first that does not any more; empty: as far as was read
    of             of which way to run the engine alone (`pytorch`, `server`): what Settled.runs says; empty: of every one
    """

    methods: str
    since: str = ""
    before: str = ""
    of: str = ""


class Words(NamedTuple):
    """What a release says where it has no such method: a text with {method} in it, as the engine spells it.

    methods  of these alone; empty: of any
    """

    text: str
    source: str
    methods: str = ""
    since: str = ""
    before: str = ""
    of: str = ""


class Drafting(NamedTuple):
    """What an engine drafts by.

    spelled  our names -> its own, where they differ
    builds   its releases are builds: a version that names none is the newest
    """

    ways: tuple[Way, ...] = ()
    words: tuple[Words, ...] = ()
    spelled: tuple[tuple[str, str], ...] = ()
    builds: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, of whatever release."""
        return tuple(dict.fromkeys(method for way in self.ways for method in way.methods.split()))


def check_method(speculative: str | None, drafting: Drafting, title: str) -> None:
    """Raises SpecError for a method of which no release of the engine is known to have it."""
    spec = read_speculative(speculative)
    if spec is None or spec.method in drafting.methods:
        return
    known = ", ".join(drafting.methods) or "none"
    raise SpecError("speculative", [("", f"no method {spec.method[:40]!r} of {title} is known; it has {known}")])


def drafts_by(drafting: Drafting, method: str, version: str | None, runs: str = "") -> bool:
    """Whether a release has a method, run in that way; `runs` empty: in whichever."""
    ways = (way for way in drafting.ways if method in way.methods.split() and (not runs or way.of in ("", runs)))
    return any(in_force(way.since, way.before, version) for way in ways)


def is_branch(version: str | None) -> bool:
    """Whether a version is a candidate or a build between releases, which may have what only the next has: 0.21.1rc1, 0.9.2.dev12+g1a2b."""
    return bool(_BRANCH.search((version or "").lower()))


def lacking(speculative: str | None, drafting: Drafting, title: str, version: str | None, runs: str = "") -> str:
    """Why a release does not start with a method, in its words where they are known; empty where it has it.

    version  as asked; None or of no number: the newest
    runs     how the engine is run, where its ways differ by that
    """
    spec = read_speculative(speculative)
    return _reason(drafting, spec.method, f"does not draft by {spec.method}: it is", title, version, runs) if spec else ""


def without_adapters(asked: str | None, adapting: Drafting, title: str, version: str | None, runs: str = "") -> str:
    """The same of adapters, which are the way ADAPTERS."""
    return _reason(adapting, ADAPTERS, "takes no adapters: they are", title, version, runs) if read_lora(asked) else ""


def _reason(drafting: Drafting, method: str, lacks: str, title: str, version: str | None, runs: str) -> str:
    if drafting.builds and not _BUILD.match(version or ""):
        version = None
    if drafts_by(drafting, method, version, runs):
        return ""
    ways = [way for way in drafting.ways if method in way.methods.split()]
    which = f"{title} {version}" if version else f"the newest {title}"
    where = f" ({runs})" if runs and any(way.of for way in ways) else ""
    said = f"{which}{where} {lacks} there {_spans(ways)}"
    words = next((one.text for one in drafting.words if _fits(one, method, version, runs)), "")
    name = dict(drafting.spelled).get(method, method)
    return f"{words.replace('{method}', name)} ({said})" if words else said


def spans(drafting: Drafting) -> dict[str, str]:
    """Method -> the releases that have it, in words."""
    return {name: _spans(way for way in drafting.ways if name in way.methods.split()) for name in drafting.methods}


def _fits(words: Words, method: str, version: str | None, runs: str) -> bool:
    ours = not words.methods or method in words.methods.split()
    return ours and (not runs or words.of in ("", runs)) and in_force(words.since, words.before, version)


def _spans(ways: Iterable[Way]) -> str:
    """`from 0.9 on, before 0.33 (V1)`, of every way."""
    found = []
    for way in ways:
        since, before = (f"from {way.since} on" if way.since else ""), (f"before {way.before}" if way.before else "")
        span = ", ".join(part for part in (since, before) if part) or "in every release"
        found.append(f"{span} ({way.of})" if way.of else span)
    return "; ".join(dict.fromkeys(found))
