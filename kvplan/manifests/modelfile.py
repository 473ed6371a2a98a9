"""Ollama's Modelfile: FROM and the PARAMETER lines that change memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan import engines
from kvplan.engines.common.words import Finding, Place, Word, refuse
from kvplan.manifests.command import Start
from kvplan.manifests.found import NO_DEVICE, Site

_INSTRUCTION = re.compile(r"^\s*(FROM|PARAMETER|TEMPLATE|SYSTEM|ADAPTER|LICENSE|MESSAGE|REQUIRES)\s+(.*)", re.IGNORECASE)
_PARAMETER = re.compile(r"^[^\S\n]*PARAMETER\s+\S", re.IGNORECASE | re.MULTILINE)


def is_modelfile(text: str, source: str) -> bool:
    """By its name, or a FROM before any other word together with a PARAMETER."""
    name = source.rsplit("/", 1)[-1].lower()
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    looks = bool(re.match(r"\s*FROM\s+\S", first, re.IGNORECASE))
    return looks and (name.startswith("modelfile") or name.endswith(".modelfile") or bool(_PARAMETER.search(text)))


def read_modelfile(text: str) -> Iterator[tuple[Start, Site]]:
    """The model it makes, as Ollama would load it."""
    table = engines.arguments("ollama")
    parameters = {one.key for one in table.rows if one.key}
    env: dict[str, Word] = {}
    model: Word | None = None
    findings: list[Finding] = []
    in_text = False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        quotes = line.count('"""')
        if in_text:
            in_text = quotes % 2 == 0
            continue
        match = _INSTRUCTION.match(line)
        in_text = quotes % 2 == 1
        if match is None:
            continue
        word, rest, place = match[1].upper(), match[2].rstrip(), Place(number, 1)
        if word == "FROM":
            model = Word(rest.strip("\"'"), place)
        elif word == "ADAPTER":
            before = f"{env['adapter'].text}," if "adapter" in env else ""
            env["adapter"] = Word(before + rest.strip("\"'"), place)
        elif word == "PARAMETER":
            name, _, value = rest.partition(" ")
            if name.lower() in parameters:
                env[name.lower()] = Word(value.strip(" \"'"), place)
            elif name.lower() in table.old_keys:
                message = f"PARAMETER {name} was one of older releases: the newest stops at it (unknown parameter {name!r})"
                findings.append(Finding("unknown-option", "warning", message, place))
            elif name.lower() not in table.quiet_keys:
                findings.append(refuse(f"unknown parameter {name[:40]!r}: ollama create stops at it", place, "unknown-option"))
    own = (model,) if model else ()
    start = Start("ollama", own, env, own[0].place if own else Place(), len(lines))
    yield start, Site("Modelfile", why=NO_DEVICE, findings=tuple(findings), span=(1, max(len(lines), 1)))
