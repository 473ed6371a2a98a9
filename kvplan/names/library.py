"""Ollama's library: the tag that a loose name means to who serves that library's files, and the one that a release's name says."""

from __future__ import annotations

import re
from functools import cache

from kvplan.dtypes import SHORT_TYPES
from kvplan.names.index import Named, lowered, parsed, text
from kvplan.names.look_up import look_up
from kvplan.names.releases import TAG
from kvplan.names.spellings import squeezed, undressed

LONGEST = 100  # characters of a name that are looked at
_TYPE_LAST = re.compile(rf"(.+?)[ _-]+({TAG.pattern}|{'|'.join(SHORT_TYPES)})", re.IGNORECASE)


@cache
def _spelled() -> dict[str, Named | None]:
    """Every tag, by its words whatever stands between them, `latest` left out too; None where two that differ have the same."""
    found: dict[str, Named | None] = {}
    whole = text()
    for match in re.finditer(r"\n[^\t\n/#]+:[^\t\n/]+\t", lowered()):
        line = parsed(whole[match.start() + 1 : whole.index("\n", match.end())])
        for key in {squeezed(line.name), squeezed(line.name.removesuffix(":latest"))}:
            other = found.setdefault(key, line)
            if other is not None and (other.base, other.weights, other.length) != (line.base, line.weights, line.length):
                found[key] = None
    return found


def tag_of(name: str) -> Named | None:
    """The tag that a name without a publisher and without a tag spells: `qwen3 8b` is qwen3:8b, `gemma3 27b q4` gemma3:27b; else None."""
    key = name.strip().lower()
    if not key or len(key) > LONGEST or re.search(r"[/:\t\n]", key):
        return None
    if (found := _spelled().get(squeezed(key)) or _spelled().get(undressed(key))) is not None:
        return found
    typed = _TYPE_LAST.fullmatch(key)
    stem = tag_of(typed[1]) if typed else None
    if typed is None or stem is None:
        return None
    if (stem.weights or "") == typed[2] or (typed[2] in SHORT_TYPES and (stem.weights or "").startswith(typed[2])):
        return stem
    return None if stem.name.endswith(":latest") else look_up(f"{stem.name}-{SHORT_TYPES.get(typed[2], typed[2])}")


def file_of_release(name: str, base: str) -> Named | None:
    """The tag whose file is of the release of that Hub id, whose shapes are `base`'s; None where the library is not known to have it."""
    found = tag_of(name.rpartition("/")[2]) if "/" in name else None
    return found if found is not None and found.base == base else None


def taken_as(name: str, tag: Named) -> str:
    """What is said of a loose name that is a tag; empty where it is that tag's own name."""
    if name.strip().lower() in (tag.name.lower(), tag.name.lower().removesuffix(":latest")):
        return ""
    file = f"{tag.name}, a file{f' in {tag.weights}' if tag.weights else ''} of Ollama's library"
    return f"{name.strip()} is taken as {file}; a Hub id (organisation/name) is the model as it was released"
