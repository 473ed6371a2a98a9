"""What a compose service takes from files that lie beside it: the service that it extends, the scripts that it mounts.

docs.docker.com/reference/compose-file, "extends" and "Merge": mappings and variables are merged, lists of volumes added, all else replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kvplan.engines.common.words import Finding, Place, Word
from kvplan.errors import SpecError
from kvplan.manifests.command import Start
from kvplan.manifests.found import ReadBeside
from kvplan.manifests.marked import NOTHING, Item, documents
from kvplan.manifests.words import ASIDE
from kvplan.manifests.wrapped import is_shell

MAX_CHAIN = 8
_MERGED = ("environment", "deploy", "resources", "limits", "reservations", "labels", "build")
_ADDED = ("volumes", "env_file")


def extended(
    service: Item, whole: Item, source: str, beside: ReadBeside, read: dict[str, Item], depth: int = 0
) -> tuple[Item, list[Finding]]:
    """The service with what it extends under it, and what is to be said of that. `read`: the files that were read for it before."""
    item = service.get("extends")
    if not item:
        return service, []
    path, name = item.get("file").text, item.get("service").text or item.text
    other, notes = whole, list[Finding]()
    if path:
        if path not in read:
            read[path] = _first(beside(path.removeprefix("./")), source)
        other = read[path]
        if other:
            notes.append(Finding("config-read", "note", f"{path} is read from beside this file", item.place))
    base = other.get("services", name)
    if not base or depth >= MAX_CHAIN:
        where = f"of {path} " if path else ""
        message = f"the service {name or '?'} {where}that it extends is not at hand: its image, options and variables are not read"
        return service, [Finding("not-read", "warning", message, item.place)]
    base, more = extended(_moved(base, item) if path else base, other, source, beside, read, depth + 1)
    return _over(base, service), [*notes, *more]


def _first(text: str | None, source: str) -> Item:
    """The first document of a text that can be read."""
    try:
        return next(iter(documents(text, source)), NOTHING) if text is not None else NOTHING
    except SpecError:
        return NOTHING


def _over(base: Item, own: Item) -> Item:
    """A mapping on top of another."""
    found = dict(base.items())
    for key, item in own.items():
        below = found.get(key, NOTHING)
        if key in _ADDED and isinstance(below.value, list) and isinstance(item.value, list):
            item = replace(item, value=[*below.value, *item.value])
        elif key in _MERGED and below:
            item = _over(_named(below), _named(item))
        found[key] = item
    found.pop("extends", None)
    return replace(own, value=found)


def _named(item: Item) -> Item:
    """NAME=value lines as a mapping."""
    if not isinstance(item.value, list):
        return item
    pairs = ((*one.text.partition("="), one) for one in item)
    return replace(item, value={name: replace(one, value=text if sign else None, text=text) for name, sign, text, one in pairs})


def _moved(item: Item, to: Item) -> Item:
    """Another file's text, told where it is named."""
    value = item.value
    if isinstance(value, dict):
        value = {key: _moved(one, to) for key, one in value.items()}
    elif isinstance(value, list):
        value = [_moved(one, to) for one in value]
    return replace(item, value=value, place=to.place, end_line=to.end_line, style="", breaks=())


def mounted(mounts: Mapping[str, str], run: Iterable[Word], beside: ReadBeside) -> dict[str, tuple[str, Place]]:
    """The scripts among the words that a container starts with, where they are mounted from beside this file, by their path in it."""
    found = {}
    for word in run:
        path = word.text
        at = next((one for one in mounts if path == one or path.startswith(f"{one}/")), None)
        if at is None:
            continue
        text = beside(f"{mounts[at]}{path[len(at) :]}")
        if text is not None and (path.endswith((".sh", ".bash")) or is_shell(text)):
            found[path] = (text, Place(ASIDE))
    return found


def placed(start: Start, place: Place, end_line: int) -> Start:
    """A start with all that stands in another text put where that text is named."""

    def own(word: Word) -> Word:
        return word._replace(place=place) if word.place.line >= ASIDE else word

    return start._replace(
        words=tuple(map(own, start.words)),
        env={name: own(word) for name, word in start.env.items()},
        place=place if start.place.line >= ASIDE else start.place,
        end_line=min(start.end_line, end_line),
        faults=tuple(one._replace(place=place) if one.place and one.place.line >= ASIDE else one for one in start.faults),
    )
