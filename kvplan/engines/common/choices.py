"""What an option's parser takes, by release: values, and the keys of an object (`Arguments.choices`, `objects`, `bounds`)."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from kvplan.engines.common.arguments import Argument, Arguments, Times
from kvplan.engines.common.bounds import beyond
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.common.words import Finding, Place, Severity, refuse, warn


def takes(table: Arguments, name: str, word: str, version: str | None) -> bool | None:
    """Whether a release (None: the newest) takes this value of an option; None where that is not known."""
    said = table.choices.get(name)
    first = table.any_word.get(name)
    if first and version and release(version) >= release(first) and word not in " ".join((said or {}).values()).split():
        return True
    return True if said is None else is_there(table, said, word, version)


def unknown(table: Arguments, row: Argument, name: str, words: list[str], place: Place, version: str | None) -> Iterator[Finding]:
    """What is to be said of values that the release's parser does not take."""
    for word in words:
        if takes(table, row.names[0], word, version) is False:
            yield _refused(table, f"argument {name}: invalid choice: {word[:40]!r}", "has no such value", place, version)


def within(table: Arguments, path: str, name: str, value: Any, place: Place, version: str | None) -> Iterator[Finding]:
    """What is to be said of a value, and of the keys and values inside it. `path`: of the option and its keys, as the tables spell it."""
    for complaint in beyond(table.bounds, path, value, version):
        yield _refused(table, f"{name} {value:g}", f"says that it {complaint}", place, version)
    config = table.objects.get(path)
    if not isinstance(value, dict):
        if config and value is not None and (not version or release(version) >= release(config.alone)):
            yield _refused(table, f"{name}: {str(value)[:40]!r} is no object", "stops", place, version)
        return
    for key, inner in value.items():
        known = config.spelled(key, version) if config else key
        if config and is_there(table, config.keys, known, version) is False:
            yield _no_key(table, name, key, config.heedless, tuple(" ".join(config.keys.values()).split()), place, version)
            continue
        at = f"{path}.{known}"
        if at in table.choices and inner is not None and not isinstance(inner, dict | list):
            if takes(table, at, str(inner), version) is False:
                yield _refused(table, f"{name}: {key[:40]} {str(inner)[:40]!r}", "has no such value", place, version)
        else:
            yield from within(table, at, f"{name}: {key[:40]}", inner, place, version)


def spoken(table: Arguments, row: Argument, version: str | None) -> Argument:
    """The row with the words that a release has for our names: of several, the first that it takes."""
    if not any(" " in words for words in row.says.values()):
        return row
    says = {
        ours: next((w for w in words.split() if takes(table, row.names[0], w, version)), words.split()[0])
        for ours, words in row.says.items()
    }
    return row._replace(says=says)


def is_there(table: Arguments, said: Times, word: str, version: str | None) -> bool | None:
    """Whether a word is among those of a release (None: the newest); None where that is not known. A word with * stands for its like."""
    asked = three_parts(version) if version else None
    if asked and not three_parts(table.releases[0]) <= asked <= three_parts(table.releases[-1]):
        return None
    return among(said, word, version)


def among(said: Times, word: str, version: str | None) -> bool:
    """Whether a word is among those of a release (None: the newest), however old or new that is."""
    times = [time for time, words in said.items() if any(fnmatchcase(word, one) for one in words.split())]
    asked = three_parts(version) if version else None
    return any(
        not before if asked is None else not ((after and asked <= three_parts(after)) or (before and asked >= three_parts(before)))
        for after, before in times
    )


def _no_key(
    table: Arguments, name: str, key: str, heedless: tuple[str, str], keys: tuple[str, ...], place: Place, version: str | None
) -> Finding:
    near = difflib.get_close_matches(key.replace("-", "_"), keys, n=1, cutoff=0.75)
    meant = "; other releases have it" if near == [key] else f"; did you mean {near[0]}?" if near else ""
    message = f"{name}: it has no key {key[:60]}{meant}"
    if version and release(heedless[0]) <= release(version) < release(heedless[1]):
        return warn("no-effect", f"{message}; {table.name} {version} takes no notice of another", place)
    return _refused(table, message, "stops", place, version)


def _refused(table: Arguments, what: str, does: str, place: Place, version: str | None) -> Finding:
    if version:
        return refuse(f"{what}; {table.name} {version} {does}", place, "unknown-choice")
    severity: Severity = "warning"
    return Finding("unknown-choice", severity, f"{what}; the newest {table.name} {does}; nothing here says the release", place)
