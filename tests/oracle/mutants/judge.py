"""One mutant's verdict: right, refused with a reason, wrong, or skipped where transformers refuses it too."""

from __future__ import annotations

import json
import random
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.errors import KvplanError
from tests.conftest import planned
from tests.oracle.mutants import bases, edits
from tests.oracle.mutants.truth import Refused, Truth, read, truth


class Verdict(NamedTuple):
    """word: right, refused, wrong, crash, skipped. why: what differs, or the reason given."""

    word: str
    why: str = ""
    built: str = ""
    notes: tuple[str, ...] = ()


def asked(config: dict[str, Any], folder: Path, tokens: int) -> tuple[int, int, list[str]]:
    """Parameters, cache bytes and notes that kvplan answers. Raises KvplanError."""
    path = folder / "asked" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(config), encoding="utf-8")
    plan = planned(str(path), engine="transformers", engine_version=version("transformers"), context=tokens, batch=1).as_dict()
    cache = sum(e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"].startswith("cache"))
    return plan["model"]["parameters"], cache, plan["model"]["notes"]


def facts(config: dict[str, Any], folder: Path) -> list[Truth]:
    """What transformers makes of a config, one for each class that it may be. Raises Refused."""
    found: list[Truth] = []
    why = ""
    for cls, made in read(config, folder):
        try:
            found.append(truth(cls, made))
        except Refused as error:
            why = str(error)
    if not found:
        raise Refused(why)
    return found


def compare(config: dict[str, Any], found: list[Truth], folder: Path) -> Verdict:
    """kvplan's answer beside those facts: right where one of them agrees."""
    built = found[0].name
    try:
        parameters, _, notes = asked(config, folder, 5)
        said = [(asked(config, folder, n)[1], t, n) for t in found for n in t.cache]
    except KvplanError as error:
        return Verdict("refused", str(error).replace(str(folder), "")[:400], built)
    except Exception as error:
        return Verdict("crash", f"{error!r:.300}", built)
    faults: list[list[str]] = []
    for t in found:
        fault = []
        if parameters not in t.counts(config):
            fault.append(f"parameters {parameters:,}, {t.parameters:,} built ({parameters - t.parameters:+,})")
        fault += [f"cache at {n} {cache:,}, {t.cache[n]:,} kept by {t.kept}" for cache, of, n in said if of is t and cache != t.cache[n]]
        faults.append(fault)
    if not all(faults):
        return Verdict("right", "", built)
    return Verdict("wrong", "; ".join(faults[0]), built, tuple(notes))


def judge(config: dict[str, Any], folder: Path) -> Verdict:
    """The verdict on one config. `folder` is scratch."""
    try:
        found = facts(config, folder)
    except Refused as error:
        return Verdict("skipped", str(error))
    return compare(config, found, folder)


class Mutant(NamedTuple):
    name: str
    number: int
    base: dict[str, Any]
    edits: list[edits.Edit]

    @property
    def config(self) -> dict[str, Any]:
        return edits.apply(self.base, self.edits)


def starts(only: str = "", *, real: bool = True) -> list[tuple[str, Any]]:
    """Every base's name and what makes it: (model type, class) or a real file's config."""
    import re

    found: list[tuple[str, Any]] = [(f"{mt}/{cls}", (mt, cls)) for mt, cls in bases.classes()]
    found += [(base.name, base.config) for base in bases.real()] if real else []
    return [start for start in found if re.search(only, start[0])]


def mutant(name: str, start: Any, seed: int, i: int) -> Mutant:
    """Number i of a base: the same whatever was made before it. 0 and 1 are the base itself, in its two forms."""
    rng = random.Random(f"{seed}|{name}|{i}")
    layers = rng.choice([4, 5, 6, 7, 8]) if i > 1 else 5
    config = bases.default(*start, saved=i % 2 == 1) if isinstance(start, tuple) else start
    config = bases.shrunk(config, layers)
    return Mutant(name, i, config, edits.mutate(config, rng) if i > 1 else [])
