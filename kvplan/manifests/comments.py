"""What a comment `# kvplan: device=h100 batch=16` says of an engine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from kvplan.deployment import NAMES
from kvplan.engines.common.words import Finding, Given, Place
from kvplan.manifests.values import Found


def comment(text: str, place: Place) -> tuple[dict[str, Given], list[Finding]]:
    """What one comment sets, and what of it says nothing readable."""
    given: dict[str, Given] = {}
    faults: list[Finding] = []
    for pair in _pairs(text):
        name, equals, value = pair.partition("=")
        option = name.startswith("engine_option.")
        if not equals or not (name in NAMES or name == "model" or option) or name == "engine_option":
            message = f"{pair[:60]!r} in a kvplan comment is not NAME=VALUE with a name of the question"
            faults.append(Finding("bad-comment", "error", message, place))
            continue
        given[name] = Given(_flag(name, value), "kvplan comment", place)
    return given, faults


def told(found: Found, given: Mapping[str, Given], faults: Sequence[Finding]) -> Found:
    """With what one comment says."""
    question = dict(found.question)
    options = dict(question.pop("engine_option", {}))
    for name, one in given.items():
        if name.startswith("engine_option."):
            options[name.removeprefix("engine_option.")] = one.value
        elif name not in ("model", "engine_version", "engine"):
            question[name] = one.value
    if options:
        question["engine_option"] = options
    return found._replace(
        question=question,
        places={**found.places, **{name: one.place for name, one in given.items()}},
        model=given["model"].value if "model" in given else found.model,
        engine_version=given["engine_version"].value if "engine_version" in given else found.engine_version,
        unresolved=tuple(u for u in found.unresolved if u.what not in given),
        findings=(*found.findings, *faults),
    )


def _pairs(text: str) -> list[str]:
    """Words apart by blanks, quoted as in a shell where they hold blanks."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _flag(name: str, value: str) -> str | bool:
    if name in NAMES and NAMES[name].kind == "flag":
        return value.lower() in ("true", "1", "yes", "on")
    return value
