"""systemd units, the container units of Podman (quadlet) and supervisor's programs: what ExecStart=, Exec= and command= run.

systemd.service(5), systemd.exec(5), podman-systemd.unit(5). No shell: $NAME and ${NAME} come from the unit's own Environment=.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kvplan.engines.common.words import START, Finding, Given, Place, Word
from kvplan.manifests.called import with_called
from kvplan.manifests.command import Start, container, scripts
from kvplan.manifests.found import ReadBeside, Site
from kvplan.manifests.host import Limits, docker_size
from kvplan.manifests.lexer import split
from kvplan.manifests.script import read_script
from kvplan.manifests.words import Command, replaced

_NAME = re.compile(r"\.(service|container)$|(^|/)[^/]*\.service\.d/[^/]*\.conf$")
_SECTION = re.compile(r"^\[(Unit|Service|Container|supervisord|program:[^\]]*)\]\s*$", re.MULTILINE)
_REMARKS = ("#", ";")
_STARTS = ("ExecStart", "command")
_KEY = re.compile(r"\s*([A-Za-z]+)\s*=\s*(.*)")
_BRACED, _VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}"), re.compile(r"\$\$|\x02(\w+)\x03")


class _Setting(NamedTuple):
    key: str
    value: str
    place: Place
    end_line: int


def is_unit(text: str, source: str) -> bool:
    """By its name, or a section that only units have before any other line."""
    first = next((line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "#;"), "")
    return bool(_SECTION.match(first)) and (
        bool(_NAME.search(source)) or bool(re.search(r"^(ExecStart|Image|Environment|command)\s*=", text, re.M))
    )


def read(text: str, source: str, beside: ReadBeside = lambda _: None, base: Place = START) -> Iterator[tuple[Start, Site]]:
    """The engines that a unit starts; `base`: where its text begins in the file."""
    settings = list(_settings(text, base.line))
    last = base.line + max(text.count("\n") - 1, 0)
    env: dict[str, Word] = {}
    findings: list[Finding] = []
    for one in settings:
        if one.key in ("Environment", "environment"):  # supervisor's are apart by commas
            value = one.value if one.key == "Environment" else re.sub(r",(?=\s*[A-Za-z_]\w*=)", " ", one.value)
            for word in split(Word(value, one.place), source):
                name, equals, value = word.text.partition("=")
                if equals:
                    env[name] = Word(value, word.place)
        elif one.key == "EnvironmentFile":
            message = f"{one.value.lstrip('-')} is not read; variables in it may change the engine's options"
            findings.append(Finding("not-read", "note", message, one.place))
    at = {one.key: one for one in settings}
    n = _gpus(settings)
    if image := at.get("Image"):
        run = at.get("Exec")
        words = [*_expanded(_split(run.value, run.place, source), {})] if run else None
        found = container(Word(image.value, image.place), _entry(at, source), words, env, source, image.place, (run or image).end_line)
    else:
        found = []
        for one in settings:
            if one.key in _STARTS and one.value:
                value = re.sub(r"%\((?:ENV_)?(\w+)\)s", r"${\1}", one.value.lstrip("@-:+!|"))  # supervisor's
                own = _split(value, one.place, source)
                words = [*_expanded(own, env)]
                findings += _not_expanded(own)
                script = read_script("", source)._replace(commands=(Command(tuple(words), env, one.place, one.end_line),))
                script = with_called(script, beside)
                said = "is read from beside this file"
                findings += [Finding("config-read", "note", f"{file.name} {said}", one.place) for file in script.sourced]
                found += scripts(script, source)
        if not found and not any(key in at for key in _STARTS) and any(name.startswith("OLLAMA_") for name in env):
            first = next(iter(env.values()))  # what `systemctl edit ollama` writes
            found = [Start("ollama", (), env, first.place, last)]
    for start in found:
        yield start, Site(name="", n_devices=n, findings=tuple(findings), span=(base.line, last), limits=_limits(at))


def _limits(at: Mapping[str, _Setting]) -> Limits:
    """MemoryMax=16G (systemd.resource-control(5)): powers of 1024; a share of the machine's memory is not known here."""
    one = at.get("MemoryMax")
    n = docker_size(one.value) if one else None
    return Limits(Given(n, "MemoryMax", one.place)) if one and n else Limits()


def _entry(at: Mapping[str, _Setting], source: str) -> list[Word] | None:
    one = at.get("Entrypoint")
    return list(split(Word(one.value, one.place), source)) if one else None


def _settings(text: str, first: int) -> Iterator[_Setting]:
    lines = text.splitlines()
    n = 0
    while n < len(lines):
        start = n
        parts = [lines[n]]
        while parts[-1].endswith("\\") and n + 1 < len(lines):
            parts[-1] = parts[-1][:-1]
            n += 1
            while lines[n].lstrip().startswith(_REMARKS) and n + 1 < len(lines):  # remarks within it are skipped (systemd.syntax(7))
                parts.append("")
                n += 1
            parts.append(lines[n])
        n += 1
        match = None if parts[0].lstrip().startswith(_REMARKS) else _KEY.match("\n".join(parts), 0)
        if match:
            value = "\n".join(["", *parts[1:]]) if len(parts) > 1 else ""
            yield _Setting(match[1], _KEY.sub(r"\2", parts[0], 1) + value, Place(start + first, match.start(2) + 1), n + first - 1)


def _split(value: str, place: Place, source: str) -> list[Word]:
    """The words of a line; `${NAME}` in them is marked, as what stands in braces is never split."""
    return list(split(Word(_BRACED.sub("\x02\\1\x03", value), place), source))


def _expanded(words: Iterable[Word], env: Mapping[str, Word]) -> Iterator[Word]:
    """Words with the unit's variables in them: `$NAME` is one alone, split at blanks, `${NAME}` stands in any (systemd.service(5))."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name in env:
            return env[name].text
        missing.extend([name] if name else [])
        return f"${name}" if name else "$"

    for word in words:
        missing: list[str] = []
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", word.text)
        if alone and alone[1] in env:
            yield from split(env[alone[1]]._replace(place=word.place), "")
        else:
            text = replaced(_VARIABLE, replace, word)
            yield text._replace(missing=tuple([alone[1]] if alone else missing))


def _not_expanded(words: Iterable[Word]) -> Iterator[Finding]:
    """`--model=$NAME`: systemd hands it on as it stands."""
    for word in words:
        match = None if re.search(r"\s", word.text) else re.search(r"(?<=[^$])\$([A-Za-z_]\w*)", word.text)  # a text is for a shell
        if match:
            message = f"systemd puts nothing in the place of ${match[1][:60]} within a word: write ${{{match[1][:60]}}}"
            yield Finding("not-expanded", "warning", message, word.place)


def _gpus(settings: list[_Setting]) -> Given | None:
    """AddDevice=nvidia.com/gpu=0: one each; `all` is not known."""
    named = [one for one in settings if one.key == "AddDevice" and one.value.startswith("nvidia.com/gpu=")]
    if not named or any(one.value.endswith("=all") for one in named):
        return None
    return Given(len(named), "AddDevice", named[0].place)
