"""Docker compose: services with their image, entrypoint, command, environment and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kvplan.manifests.arguments.table import Given
from kvplan.manifests.command import Start, container, gpu_count
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.lexer import tokens
from kvplan.manifests.marked import Item
from kvplan.manifests.values import Finding
from kvplan.manifests.words import Word

_VARIABLE = re.compile(r"\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])([^{}]*))?\})")


def is_compose(document: Item) -> bool:
    """Services, and at least one of them has an image or a build."""
    return any(item.get("image") or item.get("build") or item.get("extends") for _, item in document.get("services").items())


def read(document: Item, n: int, source: str, asked: Mapping[str, Word]) -> Iterator[tuple[Start, Site]]:
    """The engines of the services. `asked` are variables that the caller gives for ${NAME}."""
    files = {
        name: (item.get("content").text, item.get("content").body) for name, item in document.get("configs").items() if item.get("content")
    }
    for name, service in document.get("services").items():
        env = _environment(service.get("environment"), asked)
        image = _text(service.get("image"), asked)
        entry, args = _words(service.get("entrypoint"), asked, source), _words(service.get("command"), asked, source)
        n_devices, device = _devices(service)
        mounted = {item.get("target").text or item.get("source").text: files[item.get("source").text] for item in service.get("configs")
                   if item.get("source").text in files}  # fmt: skip
        found = container(
            image if image.text else None, entry, args, env, source, service.place, service.end_line, files={**files, **mounted}
        )
        for start in found:
            span = (service.place.line, service.end_line)
            yield start, Site(f"services/{name}", n, device, n_devices, 1, NO_DEVICE, service.place, _not_read(service), span)


def _not_read(service: Item) -> tuple[Finding, ...]:
    item = service.get("env_file")
    if not item:
        return ()
    return (Finding("not-read", "note", "env_file is not read; variables in it may change the engine's options", item.place),)


def _text(item: Item, asked: Mapping[str, Word]) -> Word:
    """A scalar with ${NAME}, ${NAME:-default} replaced; a name that nobody gives stays open."""
    missing: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name is None:
            return "$"
        word = asked.get(name)
        if word is not None and (word.text or not (match[3] or "").startswith(":")):
            return word.text
        if match[3] in ("-", ":-"):
            return match[4]
        missing.append(name)
        return f"${name}"

    text = item.text if isinstance(item.text, str) else ""
    return Word(_VARIABLE.sub(replace, text), item.body, tuple(missing))


def _words(item: Item, asked: Mapping[str, Word], source: str) -> list[Word] | None:
    """A list as it is, or a string split like a shell would."""
    if not item:
        return None
    if isinstance(item.value, list):
        return [_text(part, asked) for part in item]
    whole = _text(item, asked)
    return list(split(whole, source))


def split(whole: Word, source: str) -> Iterator[Word]:
    """The words of a string; compose runs no shell, so operators are words like others."""
    for token in tokens(whole.text.replace("\n", " "), source, whole.place):
        if token.kind == "operator" and token.text == "\n":
            continue
        text = "".join(p.text if p.kind == "text" else f"${p.text}" for p in token.pieces) if token.kind == "word" else token.text
        missing = tuple(m for m in whole.missing if f"${m}" in text)
        yield Word(text, token.place, missing)


def _environment(item: Item, asked: Mapping[str, Word]) -> dict[str, Word]:
    env: dict[str, Word] = {}
    for name, value in item.items():
        env[name] = _text(value, asked) if value.value is not None else asked.get(name, Word(f"${name}", value.place, (name,)))
    for entry in item:
        word = _text(entry, asked)
        name, equals, text = word.text.partition("=")
        env[name] = word._replace(text=text) if equals else asked.get(name, Word(f"${name}", entry.place, (name,)))
    return env


def _devices(service: Item) -> tuple[Given | None, Given | None]:
    """deploy.resources.reservations.devices: a count or device_ids; `gpus:` and runtime options likewise."""
    for entry in service.get("deploy", "resources", "reservations", "devices"):
        if not any("gpu" in cap.text for cap in entry.get("capabilities")):
            continue
        ids, count = entry.get("device_ids"), entry.get("count")
        if isinstance(ids.value, list):
            return Given(len(ids.value), "device_ids", ids.place), None
        if count and count.text.isdecimal():
            return Given(int(count.text[:6]), "count", count.place), None
    gpus = service.get("gpus")
    if isinstance(gpus.value, list):
        for entry in gpus:
            if entry.get("count").text.isdecimal():
                return Given(int(entry.get("count").text[:6]), "gpus", entry.place), None
    elif gpus:
        return gpu_count(Word(gpus.text, gpus.place)), None
    return None, None
