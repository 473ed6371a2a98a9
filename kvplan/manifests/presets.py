"""Presets of llama-server's router (`--models-preset FILE`): an INI file with a section for each model, its keys options without dashes.

ggml-org/llama.cpp docs/preset.md and tools/server/README.md: `[*]` holds for every model, a model's own section comes before it, keys are
options in any spelling or variables (LLAMA_ARG_...).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kvplan import engines
from kvplan.engines.common.arguments import Argument
from kvplan.engines.common.words import Finding, Place, Word
from kvplan.manifests.budget import spend
from kvplan.manifests.command import Start
from kvplan.manifests.found import NO_DEVICE, Site

_SECTION = re.compile(r"\s*\[([^\]]{1,200})\]\s*(?:[;#].*)?$")
_PAIR = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*([^;#]*?)\s*(?:[;#].*)?$")  # a remark ends a value (common/preset.cpp, eol-start)
_MODELS = frozenset({"model", "m", "hf", "hf-repo", "hfr", "model-url", "mu", "LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO"})
Section = tuple[str, int, list[tuple[str, str, int]]]  # name, line, (key, value, line) of each pair
#: Keys of the router itself.
_OWN = frozenset({"load-on-startup", "stop-timeout"})
_ON, _OFF = frozenset({"1", "true", "on", "yes", "enabled"}), frozenset({"0", "false", "off", "no", "disabled"})
_TURNED = {**dict.fromkeys(_ON | {""}, "off"), **dict.fromkeys(_OFF, "on")}
ROUTER = "options of the router's own command come before these and are not read; it loads a model when it is asked for"


def is_presets(text: str, source: str) -> bool:
    """An INI file, and a section of it names a model, or `[*]` alone has what holds for them all."""
    sections = _sections(text) if source.lower().endswith(".ini") else []
    return any(_MODELS & {key for key, _, _ in pairs} for _, _, pairs in sections) or [name for name, _, _ in sections] == ["*"]


def _sections(text: str) -> list[Section]:
    """Every section; what stands before the first is not one's."""
    found: list[Section] = []
    for n, line in enumerate(text.splitlines(), 1):
        if line.lstrip()[:1] in ("", ";", "#"):
            continue
        if match := _SECTION.match(line):
            found.append((match[1], n, []))
        elif found and (pair := _PAIR.match(line)):
            found[-1][2].append((pair[1], pair[2], n))
    return found


def read(text: str, first: int = 1) -> Iterator[tuple[Start, Site]]:
    """A server for each model: those of a section that names none are the router's to find. `first`: its first line."""
    yield from servers(_sections("\n" * (first - 1) + text))


def servers(sections: Sequence[Section]) -> Iterator[tuple[Start, Site]]:
    """A server for each section that is of one model."""
    rows = {name: row for row in engines.arguments("llama.cpp").rows for name in row.names}
    common = [pair for name, _, pairs in sections if name == "*" for pair in pairs]
    for name, line, pairs in sections:
        if name == "*" and len(sections) > 1:
            continue
        spend(8 * (len(common) + len(pairs)), line)
        own = {key for key, _, _ in pairs}
        every = [pair for pair in common if pair[0] not in own] + pairs
        words = [word for key, value, at in every if not key.isupper() and key not in _OWN for word in _words(key, value, Place(at), rows)]
        env = {key: Word(value, Place(at)) for key, value, at in every if key.isupper()}
        if name != "*" and not _MODELS & {key for key, _, _ in every}:
            words = [Word("-hf", Place(line)), Word(name, Place(line)), *words]
        end = max((at for _, _, at in pairs), default=line)
        start = Start("llama.cpp", tuple(words), env, Place(line), end)
        note = Finding("note", "note", ROUTER, Place(line))
        yield start, Site(name, why=NO_DEVICE, place=Place(line), findings=(note,), span=(line, end))


def _words(key: str, value: str, place: Place, rows: Mapping[str, Argument]) -> list[Word]:
    """A key as the option of that name, with its value where the option takes one."""
    name = f"-{key}" if f"-{key}" in rows and f"--{key}" not in rows else f"--{key}"
    row = rows.get(name)
    if row is None and key.startswith("no-"):  # common/preset.cpp parse_bool_arg: a negated key turns its value about
        row, key, value = rows.get(f"--{key[3:]}"), key[3:], _TURNED.get(value.lower(), value)
        name = f"--{key}"
    if row is None or row.takes not in ("flag", "switch"):
        return [Word(name, place), Word(value, place)]
    if value.lower() in _OFF:
        return [Word(f"--no-{key}", place)] if row.takes == "switch" else []
    return [Word(name, place)] if value.lower() in _ON or not value else [Word(name, place), Word(value, place)]
