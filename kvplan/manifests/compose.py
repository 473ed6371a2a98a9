"""Docker compose: services with their image, entrypoint, command, environment and devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kvplan.engines.common.words import Finding, Given, Unresolved, Word
from kvplan.manifests import images
from kvplan.manifests.beside import extended, mounted, placed
from kvplan.manifests.command import Start, container
from kvplan.manifests.dockerfile import Built, built
from kvplan.manifests.downloads import PULLED, pulled
from kvplan.manifests.found import NO_DEVICE, ReadBeside, Site
from kvplan.manifests.host import of_service
from kvplan.manifests.lexer import split
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.programs import gpu_count
from kvplan.manifests.together import ALL
from kvplan.manifests.words import dotenv, filled

#: What a service says of what it runs.
_KEYS = ("image", "build", "extends", "command", "entrypoint")


def is_compose(document: Item) -> bool:
    """Services, and at least one of them says what it runs."""
    return any(item.get(key) for _, item in document.get("services").items() for key in _KEYS)


def read(document: Item, n: int, source: str, asked: Mapping[str, Word], beside: ReadBeside) -> Iterator[tuple[Start, Site]]:
    """The engines of the services. `asked` are variables that the caller gives for ${NAME}; those of `.env` come after them."""
    defaults = beside(".env")
    asked = {**dotenv(defaults or ""), **asked}
    for name, model in document.get("models").items():  # docs.docker.com/ai/compose/models-and-compose
        if model.get("model"):
            start = Start("", (), {}, model.place, model.end_line, foreign="Docker Model Runner")
            yield start, Site(f"models/{name}", n, span=model.span)
    files = {
        name: (item.get("content").text, item.get("content").body) for name, item in document.get("configs").items() if item.get("content")
    }
    others: dict[str, Item] = {}
    pulls = list(_pulls(document))
    included = [_included(entry) for entry in document.get("include")]
    for name, own in document.get("services").items():
        service, read_too = extended(own, document, source, beside, others)
        listed, findings = _listed(service, beside)
        findings += [*read_too, *included]
        if defaults is not None:
            findings.append(Finding("config-read", "note", ".env is read from beside this file", service.place))
        env = {**listed, **_environment(service.get("environment"), asked)}
        image = _text(service.get("image"), asked)
        entry, args = _words(service.get("entrypoint"), asked, source), _words(service.get("command"), asked, source)
        bound = {item.get("target").text or item.get("source").text: files[item.get("source").text] for item in service.get("configs")
                   if item.get("source").text in files}  # fmt: skip
        mounts = _mounts(service, document.get("configs"), asked)
        if (made := _built(service, image, asked, source, beside)) is not None:
            path, build = made
            findings.append(Finding("config-read", "note", f"{path} is read from beside this file", service.place))
            image, env, mounts, bound = build.image, {**build.env, **env}, {**build.copies, **mounts}, {**build.files, **bound}
            args = list(build.command) if args is None and entry is None and build.command is not None else args
            entry = list(build.entry) if entry is None and build.entry is not None else entry
        scripts = mounted(mounts, [*(entry or ()), *(args or ())], beside)
        findings += [Finding("config-read", "note", f"{path} is read from beside this file", service.place) for path in scripts]
        found = container(
            image if image.text else None, entry, args, env, source, service.place, service.end_line, files={**files, **bound, **scripts}
        )
        found = [pulled(start, pulls, "the services") for start in found] or _unbuilt(name, service, asked, made is not None)
        for k, start in enumerate(placed(one, service.place, service.end_line)._replace(mounts=mounts) for one in found):
            span, given = service.span, _given(service, asked)
            together = f"{n} {' '.join(one.text for one in service.get('profiles'))}"
            yield start, Site(
                f"services/{name}", n, None, _devices(given), 1, NO_DEVICE, service.place, tuple(findings), span,
                host="" if _is_off(service) or (k and not start.host) else together,  # its script's other branches run alone
                on=_on(given, env), limits=of_service(given), copies=_copies(given), unresolved=_absent(service),
            )  # fmt: skip


def _pulls(document: Item) -> Iterator[Word]:
    """The models that the services pull."""
    for _, service in document.get("services").items():
        for item in (service.get("entrypoint"), service.get("command")):
            text = " ".join([item.text, *(one.text for one in item)])
            yield from (Word(model, item.place) for model in PULLED.findall(text))


def _built(service: Item, image: Word, asked: Mapping[str, Word], source: str, beside: ReadBeside) -> tuple[str, Built] | None:
    """What the Dockerfile of a service makes of it, where that lies beside this file and the image's name says no engine's own."""
    build = service.get("build")
    if not build or build.get("target") or images.find(image.text):
        return None
    folder = _text(build.get("context") or (NOTHING if isinstance(build.value, dict) else build), asked).text or "."
    path = "/".join(part for part in (*folder.split("/"), build.get("dockerfile").text or "Dockerfile") if part not in ("", "."))
    text = beside(path)
    made = built(text, source, folder.removeprefix("./").rstrip("/").removesuffix("/.")) if text is not None else None
    return None if made is None else (path, made)


def _unbuilt(name: str, service: Item, asked: Mapping[str, Word], is_read: bool) -> list[Start]:
    """A service built from what is not at hand, or not followed, whose own name or folder says an engine's."""
    folder = _text(service.get("build", "context") or service.get("build"), asked).text
    like = next((one for one in (images.like(text) for text in (name, folder) if text) if one), None)
    if like is None or not service.get("build") or is_read or service.get("image"):
        return []
    why = f"the image is built from {folder or '.'}/{service.get('build', 'dockerfile').text or 'Dockerfile'}, which is not at hand"
    return [Start(like.engine, (), {}, service.place, service.end_line, in_container=True, opaque=why)]


def _included(entry: Item) -> Finding:
    path = entry.get("path").text or " ".join(one.text for one in entry.get("path")) or entry.text
    return Finding("not-read", "note", f"{path} is included and not read: check it as well", entry.place)


def _absent(service: Item) -> tuple[Unresolved, ...]:
    """A service without an image stands in more than one file: what the others say of it is not known."""
    if any(service.get(key) for key in ("image", "build", "extends")):
        return ()
    why = "the service has no image here: the rest of it is in another compose file, which is not read"
    return (Unresolved("options", why, "check what `docker compose -f FIRST -f THIS config` prints", service.place),)


def _mounts(service: Item, configs: Item, asked: Mapping[str, Word]) -> dict[str, str]:
    """Path in the container -> path beside this file, of bind mounts and of configs that are files."""
    found = {}
    for entry in service.get("volumes"):
        source, _, rest = _text(entry, asked).text.partition(":")
        target = rest.partition(":")[0]
        if entry.get("source"):
            source, target = _text(entry.get("source"), asked).text, entry.get("target").text
        if source.startswith("./") and target:
            found[target.rstrip("/")] = source.removeprefix("./").rstrip("/")
    for entry in service.get("configs"):
        name = entry.get("source").text or entry.text
        if path := configs.get(name, "file").text:
            found[entry.get("target").text or f"/{name}"] = path.removeprefix("./")
    return found


def _listed(service: Item, beside: ReadBeside) -> tuple[dict[str, Word], list[Finding]]:
    """Variables of the service's env_file, where it lies beside this file."""
    env: dict[str, Word] = {}
    findings = []
    item = service.get("env_file")
    for entry in item if isinstance(item.value, list) else [item] if item else []:
        path = (entry.get("path") or entry).text
        text = beside(path)
        if text is None:
            message = f"{path} is not read; variables in it may change the engine's options"
            findings.append(Finding("not-read", "note", message, entry.place))
        else:
            env.update({name: word._replace(place=entry.place) for name, word in dotenv(text).items()})
            findings.append(Finding("config-read", "note", f"{path} is read from beside this file", entry.place))
    return env, findings


def _text(item: Item, asked: Mapping[str, Word]) -> Word:
    """A scalar with ${NAME}, ${NAME:-default} replaced; a name that nobody gives stays open."""
    return filled(Word(item.text, item.body, (), item.breaks), asked)


def _given(item: Item, asked: Mapping[str, Word]) -> Item:
    """The same with its variables filled in."""
    if isinstance(item.value, dict):
        return replace(item, value={key: _given(one, asked) for key, one in item.items()})
    if isinstance(item.value, list):
        return replace(item, value=[_given(one, asked) for one in item])
    text = _text(item, asked).text if "$" in item.text else item.text
    return item if text == item.text else replace(item, value=text, text=text)


def _words(item: Item, asked: Mapping[str, Word], source: str) -> list[Word] | None:
    """A list as it is, or a string split like a shell would."""
    if not item:
        return None
    if isinstance(item.value, list):
        return [_text(part, asked) for part in item]
    whole = _text(item, asked)
    return list(split(whole, source))


def _environment(item: Item, asked: Mapping[str, Word]) -> dict[str, Word]:
    env: dict[str, Word] = {}
    for name, value in item.items():
        env[name] = _text(value, asked) if value.value is not None else asked.get(name, Word(f"${name}", value.place, (name,)))
    for entry in item:
        word = _text(entry, asked)
        name, equals, text = word.text.partition("=")
        env[name] = word._replace(text=text) if equals else asked.get(name, Word(f"${name}", entry.place, (name,)))
    return env


def _is_off(service: Item) -> bool:
    """Whether no container of the service is started."""
    return "0" in (service.get("scale").text, service.get("deploy", "replicas").text)


def _copies(service: Item) -> int:
    """How many containers of the service run side by side."""
    text = service.get("scale").text or service.get("deploy", "replicas").text
    return max(1, min(int(text[:6]), 64)) if text.isdecimal() else 1


def _on(service: Item, env: Mapping[str, Word]) -> tuple[str, ...]:
    """The machine's devices that Docker gives the service: those named, the first `count`, or all; nothing where it is not said.

    NVIDIA's runtime gives what NVIDIA_VISIBLE_DEVICES names; where CUDA_VISIBLE_DEVICES picks and that is not said, they are all.
    """
    for entry in service.get("deploy", "resources", "reservations", "devices"):
        if any("gpu" in cap.text for cap in entry.get("capabilities")):
            ids, count = entry.get("device_ids"), entry.get("count")
            if isinstance(ids.value, list):
                return _named(ids)
            return _first(count.text) if count else ALL
    gpus = service.get("gpus")
    if gpus and not isinstance(gpus.value, list):
        return _first(gpus.text)
    picked = "CUDA_VISIBLE_DEVICES" in env and "NVIDIA_VISIBLE_DEVICES" not in env
    return ALL if service.get("runtime").text == "nvidia" and picked else ()


def _named(ids: Item) -> tuple[str, ...]:
    """Devices by their ids, which dockerd joins with commas (daemon/nvidia_linux.go): one text may hold several. None where one is open."""
    named = tuple(part.strip() for one in ids for part in one.text.split(",") if part.strip())
    return () if any("$" in name for name in named) else ALL if "all" in named else named


def _first(count: str) -> tuple[str, ...]:
    return tuple(map(str, range(min(int(count[:6]), 64)))) if count.isdecimal() else ALL if count in ("all", "-1") else ()


def _devices(service: Item) -> Given | None:
    """deploy.resources.reservations.devices: a count or device_ids; `gpus:` and runtime options likewise."""
    for entry in service.get("deploy", "resources", "reservations", "devices"):
        if not any("gpu" in cap.text for cap in entry.get("capabilities")):
            continue
        ids, count = entry.get("device_ids"), entry.get("count")
        if isinstance(ids.value, list):
            return Given(len(named), "device_ids", ids.place) if (named := _named(ids)) not in ((), ALL) else None
        if n := count.count("count"):
            return n
    gpus = service.get("gpus")
    if isinstance(gpus.value, list):
        return next((n for entry in gpus if (n := entry.get("count").count("gpus"))), None)
    return gpu_count(gpus.word) if gpus else None
