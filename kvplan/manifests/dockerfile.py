"""A Dockerfile: what its last stage starts: ENTRYPOINT and CMD in both forms, ENV, over what its FROM image starts by itself.

https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Finding, Place, Word, words
from kvplan.errors import SpecError
from kvplan.manifests.beside import mounted
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import ReadBeside, Site
from kvplan.manifests.lexer import split
from kvplan.manifests.script import read_script
from kvplan.manifests.words import ASIDE, filled
from kvplan.manifests.wrapped import Files

_NAME = re.compile(r"(^|/)(Dockerfile|Containerfile)(\.[^/]*)?$|\.dockerfile$", re.IGNORECASE)
_HERE = re.compile(r"<<-?[\"']?([A-Za-z_]\w*)[\"']?")
_WRITES = re.compile(r"<<|\b(echo|printf)\b[^\n]*(\n[^\n]*)*>")
_RELATIVE = re.compile(r"(?:\./)?[\w-][\w.-]*(?:/[\w.-]+)*\.(?:sh|bash)")
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


def read(text: str, source: str, beside: ReadBeside = lambda _: None) -> Iterator[tuple[Start, Site]]:
    """The engines that a container of the last stage starts."""
    made = _last(text, source, "")
    end = max(text.count("\n"), 1)
    if made is None:
        return
    own = mounted(made.copies, [*(made.entry or ()), *(made.command or ())], beside)
    notes = tuple(Finding("config-read", "note", f"{path} is read from beside this file", made.image.place) for path in own)
    files = {**made.files, **own}
    for start in container(made.image, made.entry, made.command, made.env, source, made.image.place, end, files=files):
        yield start._replace(mounts=made.copies), Site(name="", span=(1, end), findings=notes)


def built(text: str, source: str, folder: str) -> Built | None:
    """What a Dockerfile beside the checked file leaves; its lines are counted from ASIDE on. `folder`: the one that it copies from."""
    return _last(text, source, folder, ASIDE)


def _last(text: str, source: str, folder: str, above: int = 0) -> Built | None:
    """The last stage; `above`: lines before the first."""
    copies: dict[str, str] = {}
    env: dict[str, Word] = {}
    arguments: dict[str, Word] = {}
    image: Word | None = None
    workdir = ""
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
            env, entry, command, workdir = {}, None, None, ""
            if len(parts) == 3 and parts[1].lower() == "as" and image:
                stages[parts[2].lower()] = image
        elif name == "ENV":
            env.update(_env(filled(rest, {**arguments, **env}), source))
        elif name in ("RUN", "COPY") and _WRITES.search(rest.text):
            files |= _written(rest, source)
        elif name == "WORKDIR":
            workdir = posixpath.join(workdir, filled(rest, {**arguments, **env}).text.strip().strip("\"'"))
        elif name == "COPY" and (parts := [p for p in rest.text.split() if not p.startswith("--")]) and "--from=" not in rest.text:
            copies |= dict(_copied(parts[:-1], parts[-1], workdir, folder))
        elif name == "ENTRYPOINT":
            entry = _run(rest)  # a CMD of the same stage stays; the image's own is gone
        elif name == "CMD":
            command = _run(rest)
    entry, command = _from(workdir, entry), _from(workdir, command)
    return None if image is None else Built(image, entry, command, env, copies, files)


def _copied(sources: Sequence[str], target: str, workdir: str, folder: str) -> Iterator[tuple[str, str]]:
    """Path in the image -> path beside the Dockerfile, of `COPY SOURCE... TARGET`."""
    to = posixpath.normpath(posixpath.join(workdir, target))
    for source in sources:
        is_file = posixpath.basename(source) not in ("", ".") and (target.endswith("/") or target == "." or len(sources) > 1)
        own = source.removeprefix("./").rstrip("/").removesuffix("/.")
        within = is_file and "." in posixpath.basename(source)  # what is in a folder goes into the target itself
        yield posixpath.join(to, posixpath.basename(source)) if within else to, "/".join(filter(None, (folder, "" if own == "." else own)))


def _from(workdir: str, run: Sequence[Word] | None) -> Sequence[Word] | None:
    """The words with scripts that are named from the image's own folder by their whole path."""
    if run is None or not workdir.startswith("/"):
        return run
    return [w._replace(text=posixpath.normpath(f"{workdir}/{w.text}")) if _RELATIVE.fullmatch(w.text) else w for w in run]


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
