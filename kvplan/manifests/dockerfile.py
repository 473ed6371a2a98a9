"""A Dockerfile: what its last stage starts: ENTRYPOINT and CMD in both forms, ENV, over what its FROM image starts by itself.

https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Place, Word, words
from kvplan.errors import SpecError
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.lexer import split
from kvplan.manifests.script import read_script
from kvplan.manifests.words import ASIDE, filled
from kvplan.manifests.wrapped import Files

_NAME = re.compile(r"(^|/)(Dockerfile|Containerfile)(\.[^/]*)?$|\.dockerfile$", re.IGNORECASE)
_HERE = re.compile(r"<<-?[\"']?([A-Za-z_]\w*)[\"']?")
_WRITES = re.compile(r"<<|\b(echo|printf)\b[^\n]*(\n[^\n]*)*>")
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)


def is_dockerfile(text: str, source: str) -> bool:
    """By its name, or a FROM together with an instruction that no other format has."""
    starts = re.search(r"^[^\S\n]*FROM[^\S\n]+\S", text, re.MULTILINE | re.IGNORECASE)
    return bool(starts and (_NAME.search(source) or re.search(r"^(CMD|ENTRYPOINT|RUN)\s+\S", text, re.MULTILINE)))


class Built(NamedTuple):
    """What the last stage leaves: the image it starts from, ENTRYPOINT, CMD, ENV, path in the image -> path beside the Dockerfile, and the
    files that its own text writes."""

    image: Word
    entry: Sequence[Word] | None
    command: Sequence[Word] | None
    env: Mapping[str, Word]
    copies: Mapping[str, str]
    files: Files


def read(text: str, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines that a container of the last stage starts."""
    made = _last(text, source, "")
    end = max(text.count("\n"), 1)
    if made is None:
        return
    for start in container(made.image, made.entry, made.command, made.env, source, made.image.place, end, files=made.files):
        yield start._replace(mounts=made.copies), Site(name="", span=(1, end))


def built(text: str, source: str, folder: str) -> Built | None:
    """What a Dockerfile beside the checked file leaves; its lines are counted from ASIDE on. `folder`: the one that it copies from."""
    return _last(text, source, folder, ASIDE)


def _last(text: str, source: str, folder: str, above: int = 0) -> Built | None:
    """The last stage; `above`: lines before the first."""
    copies: dict[str, str] = {}
    env: dict[str, Word] = {}
    arguments: dict[str, Word] = {}
    image: Word | None = None
    entry: Sequence[Word] | None = None
    command: Sequence[Word] | None = None
    stages: dict[str, Word] = {}
    files: dict[str, tuple[str, Place]] = {}
    for name, rest in _instructions(text, above):
        if name == "ARG":
            key, equals, value = rest.text.partition("=")
            arguments[key.strip()] = Word(value.strip().strip("\"'"), rest.place, () if equals else (key.strip(),))
        elif name == "FROM":
            parts = [w for w in filled(rest, {**arguments, **env}).text.split() if not w.startswith("--")]
            image = stages.get(parts[0].lower(), Word(parts[0], rest.place)) if parts else None
            env, entry, command = {}, None, None
            if len(parts) == 3 and parts[1].lower() == "as" and image:
                stages[parts[2].lower()] = image
        elif name == "ENV":
            env.update(_env(filled(rest, {**arguments, **env}), source))
        elif name in ("RUN", "COPY") and _WRITES.search(rest.text):
            files |= _written(rest, source)
        elif name == "COPY" and (parts := rest.text.split()) and len(parts) == 2:
            target = parts[1] + (parts[0].rsplit("/", 1)[-1] if parts[1].endswith("/") else "")
            copies[target.rstrip("/")] = "/".join(filter(None, (folder, parts[0].removeprefix("./").rstrip("/"))))
        elif name == "ENTRYPOINT":
            entry = _run(rest)  # a CMD of the same stage stays; the image's own is gone
        elif name == "CMD":
            command = _run(rest)
    return None if image is None else Built(image, entry, command, env, copies, files)


def _written(rest: Word, source: str) -> Files:
    """The files that `RUN echo ... > FILE`, a here-document of RUN or `COPY <<EOF FILE` writes."""
    text = re.sub(r"^(?:--\S+\s+)*(<<-?\S+)\s+(\S+)", r"cat \1 > \2", rest.text)
    try:
        return read_script(text, source, base=rest.place).files
    except SpecError:  # what a shell of another kind reads
        return {}


def _instructions(text: str, above: int) -> Iterator[tuple[str, Word]]:
    """Instructions with their continued lines as one text, comments left out."""
    lines = text.splitlines()
    n = 0
    while n < len(lines):
        start, parts = n, [lines[n]]
        if lines[n].lstrip().startswith("#"):  # a comment ends with its line, whatever stands at its end
            n += 1
            continue
        while parts[-1].rstrip().endswith("\\") and n + 1 < len(lines):
            n += 1
            parts.append("\\" if lines[n].lstrip().startswith("#") else lines[n])
        n += 1
        for mark in _HERE.finditer("\n".join(parts)) if re.match(r"\s*(RUN|COPY)\b", lines[start], re.IGNORECASE) else ():
            while n < len(lines) and parts[-1].strip() != mark[1]:
                parts.append(lines[n])
                n += 1
        match = _INSTRUCTION.match("\n".join(parts))
        if match:
            yield match[1].upper(), Word(match[2], Place(above + start + 1, match.start(2) + 1))


def _run(rest: Word) -> list[Word]:
    """The exec form is a JSON list; all else goes to a shell."""
    text = rest.text.strip()
    if text.startswith("["):
        try:
            parts = json.loads(re.sub(r"\\[ \t]*\n", "", text))
            if all(isinstance(part, str) for part in parts):
                return [Word(part, Place(rest.place.line + _line(rest.text, part), 1)) for part in parts]
        except (ValueError, RecursionError):
            pass
    return [*words("/bin/sh", "-c", place=rest.place), rest]


def _line(text: str, part: str) -> int:
    at = text.find(json.dumps(part))
    return text.count("\n", 0, at) if at > 0 else 0


def _env(rest: Word, source: str) -> dict[str, Word]:
    """`ENV A=1 B="2"`, or the older `ENV A rest of the line`."""
    first = rest.text.split(None, 1)
    if first and "=" not in first[0]:
        return {first[0]: Word(first[1].strip() if len(first) > 1 else "", rest.place)}
    pairs = [(w.text.partition("="), w) for w in split(rest, source)]
    return {key: Word(value, w.place, w.missing) for (key, equals, value), w in pairs if equals}
