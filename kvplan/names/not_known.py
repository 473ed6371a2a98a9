"""Why a name is not known, and what to write instead: the command that answers, the same model by its maker's name, the nearest names."""

from __future__ import annotations

import re

from kvplan.errors import AmbiguousName, KvplanError, UnknownName
from kvplan.names.index import at, lowered
from kvplan.names.look_up import look_up, of_its_maker, released
from kvplan.names.nearest import FORMAT, nearest
from kvplan.names.releases import Release, taken_apart
from kvplan.names.spellings import alike
from kvplan.names.written import plain

#: A word that speaks of a format by itself; others do beside one.
_SAYS_ONE = re.compile(r".*(?:fp\d|int\d|awq|gptq|bnb|gguf|mlx|bit|w\d|q\d|exl|quant|bpw|autoround|hqq|aqlm|eetq)")


def unknown(name: str) -> KvplanError:
    """The error for a name that nothing has: the command that answers for a known model's release, else the nearest models."""
    written = plain(name)
    key = written.lower()
    release = taken_apart(key)
    if release is not None and release.weights == "gguf" and _resolves(f"{written}:Q4_K_M"):
        types = ", ".join(f"{written}:{kind}" for kind in ("Q4_K_M", "Q8_0"))
        return AmbiguousName(name.strip(), [types], "holds several files; name one of them")
    if release is not None and (known := released(release)) is not None:
        weights = "q4_k_m" if release.weights == "gguf" else release.weights
        command = f"kvplan estimate {known.name} --weight-dtype {weights}"
        text = f"it is not known whether it is {known.name} in another format, as its name says; if it is: {command}"
        return UnknownName("model", name, [], hint=text)
    if release is None and (hint := _of_a_format(key)):
        return UnknownName("model", name, [], hint=hint)
    family, _, tag = key.partition(":")
    if tag and "/" not in family:
        size = f"{family}:{tag.partition('-')[0]}"
        tags = _tags(family)
        listed = [found for found in tags if found.lower().startswith(size)]
        if not listed and (hint := _newer_tag(family, tag)):
            return UnknownName("model", name, [], hint=hint)
        if tags:
            return UnknownName("model", name, [], nearest=(listed or tags)[:3])
    near = nearest(release.of if release else key)
    hint = "" if near or "/" in key else "give its Hub id (organisation/name), its config.json or its file"
    return UnknownName("model", name, [], nearest=near, hint=hint)


def _resolves(name: str) -> bool:
    try:
        return (look_up(name) or of_its_maker(name)) is not None
    except AmbiguousName:
        return False


def _tags(family: str) -> list[str]:
    """The tags of Ollama's library that a family has."""
    return [at(match.start() + 1).name for match in re.finditer(rf"\n{re.escape(family)}:", lowered())]


def _newer_tag(family: str, tag: str) -> str:
    """The command that answers for a tag of a model that the copy of Ollama's library does not have; empty where none is known."""
    size, _, kind = tag.partition("-")
    found = alike(f"{family}-{size}")
    known = next((line for line in found if "/" in line.name and line.weights is None), None)
    if known is None:
        return ""
    said = taken_apart(f"{family}:{kind.rpartition('-')[2]}") if kind else None
    weights = said.weights if said else "q4_k_m"
    return f"the copy of Ollama's library has no such tag; if it is {known.name}: kvplan estimate {known.name} --weight-dtype {weights}"


def _of_a_format(key: str) -> str:
    """What is said of a known model with an ending that speaks of a format which is not known; empty for any other name."""
    words = [match.start() for match in re.finditer(r"[-_.]", key)][-8:]
    for end in words:
        rest = [word for word in re.split(r"[-_.]", key[end + 1 :]) if word]
        if (
            all(FORMAT.fullmatch(word) for word in rest)
            and any(_SAYS_ONE.match(word) for word in rest)
            and (known := released(Release(key[:end], ""))) is not None
        ):
            command = f"kvplan estimate {known.name} --weight-dtype FORMAT"
            return f"{key[end:]!r} says a format of {known.name} that is not known by that name; if it is one of those that are: {command}"
    return ""
