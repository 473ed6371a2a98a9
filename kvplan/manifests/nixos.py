"""What a Nix expression starts: NixOS' services llama-cpp, llama-swap and ollama, containers (oci-containers), units and scripts.

nixpkgs nixos/modules/services/misc/{llama-cpp,llama-swap,ollama}.nix, virtualisation/oci-containers.nix, system/boot/systemd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvplan.engines.common.words import Finding, Word, words
from kvplan.errors import SpecError
from kvplan.manifests import jobs, nix, presets, units
from kvplan.manifests.command import Start, scripts, starts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.scattered import names_engine
from kvplan.manifests.script import read_script
from kvplan.manifests.words import Command, filled

_COMMANDS = frozenset({"ExecStart", "script", "cmd", "command", "text", "exec"})
_NAMELESS = frozenset({"text", "serviceConfig", "ExecStart", "script"})  # the name of the unit or file around them says more
_ASIDE = frozenset({"options", "description", "meta", "example", "assertions"})


def read(text: str, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of the expression's value."""
    for name, start, item in _walk(nix.tree(text, source), "", {}, source):
        place = start.place
        yield start, Site(name, 1, why=NO_DEVICE, place=place, span=item.span, host=start.host, on=start.on)


def _walk(item: Item, key: str, env: dict[str, Word], source: str) -> Iterator[tuple[str, Start, Item]]:
    if isinstance(item.value, dict):
        yield from _set(item, key, env, source)
    elif isinstance(item.value, list) and key == "ProgramArguments":  # launchd.plist
        command = Command(tuple(map(_word, item)), env, item.place, item.end_line)
        yield from ((key, start, item) for start in starts(command, source, {}))
    elif isinstance(item.value, list):
        for part in item:
            yield from _walk(part, key, env, source)
    elif isinstance(item.value, str) and item.style and units.is_unit(item.text, ""):
        for start, site in units.read(item.text, source):  # the text of a unit, which others write to its place
            yield key, start._replace(gpus=start.gpus or site.n_devices, place=item.place, end_line=item.end_line), item
    elif isinstance(item.value, str) and (key in _COMMANDS or item.style) and (key == "ExecStart" or names_engine(item.text)):
        try:
            script = read_script(item.text, source, base=item.body, env=env)
        except SpecError:
            return
        yield from ((key, start, item) for start in scripts(script, source))


def _set(item: Item, key: str, env: dict[str, Word], source: str) -> Iterator[tuple[str, Start, Item]]:
    if item.get("enable").value is False:
        return
    env = {**env, **{name: _word(one) for name, one in item.get("environment").items() if one.text}}
    settings = item.get("settings")
    if key == "llama-swap" and jobs.is_swap(settings):
        yield from ((site.name, start, item) for start, site in jobs.swap(settings, 1, source))
    elif all(isinstance(item.get(one).value, list) for one in ("command", "args")):  # a container, as Kubernetes has it
        command = Command(tuple(map(_word, [*item.get("command"), *item.get("args")])), env, item.place, item.end_line)
        yield from ((key, start, item) for start in starts(command, source, {}))
    elif item.get("image").text and any(item.get(one) for one in ("cmd", "entrypoint", "ports", "volumes", "environment")):
        yield from ((key, start, item) for start in _container(item, source))
    elif key == "llama-cpp" and any(item.get(one) for one in ("model", "extraFlags", "modelsDir", "modelsPreset", "settings", "models")):
        yield from _llama(item, env, source)
    elif key == "ollama" and item.get("enable").value is True:
        env |= {name: _word(one) for name, one in item.get("environmentVariables").items()}
        loaded = tuple(map(_word, item.get("loadModels")))
        faults = () if len(loaded) < 2 else (_several(item),)
        yield key, Start("ollama", loaded if len(loaded) == 1 else (), env, item.place, item.end_line, faults=faults), item
    else:
        for name, part in item.items():
            if name not in _ASIDE:
                yield from ((key if one in _NAMELESS else one, start, held) for one, start, held in _walk(part, name, env, source))


def _llama(item: Item, env: dict[str, Word], source: str) -> Iterator[tuple[str, Start, Item]]:
    """The server of a service, or one for each of its models, or of its router's."""
    preset = next(
        (one for one in (item.get("modelsPreset"), item.get("settings", "models-preset")) if isinstance(one.value, dict)), NOTHING
    )
    sections = [
        (name, part.place.line, [(key, _word(one).text, one.place.line) for key, one in part.items()]) for name, part in preset.items()
    ]
    common = [(key, _word(one).text, one.place.line) for key, one in item.get("settings").items() if not key.startswith("models-")]
    for start, site in presets.servers([("*", item.place.line, common), *sections] if sections else []):
        yield site.name, start, preset.get(site.name)
    if sections:
        return
    for name, one in item.get("models").items() if item.get("models") else [("llama-cpp", item)]:
        if one.get("enable").value is not False:
            own = [Word("llama-server", one.place), *_option("--model", one.get("model")), *_option("--models-dir", one.get("modelsDir"))]
            own += _option("--models-preset", one.get("modelsPreset"))
            for key, value in {**dict(item.get("modelSettings").items()), **dict(one.get("settings").items())}.items():
                own += _option(f"--{key}", value)
            own += map(_word, one.get("extraFlags"))
            mine = {**env, **{key: _word(value) for key, value in one.get("environment").items()}}
            for start in starts(Command(tuple(own), mine, one.place, one.end_line), source, {}):
                yield name, start, one


def _several(item: Item) -> Finding:
    message = f"loadModels pulls {len(list(item.get('loadModels')))} models: the one that is asked for is loaded; name one with --model"
    return Finding("note", "note", message, item.get("loadModels").place)


def _container(item: Item, source: str) -> Iterator[Start]:
    """As the `docker run` that the unit of the container makes of it."""
    run = words("docker", "run", place=item.place)
    run += map(_word, item.get("extraOptions"))
    for name, one in item.get("environment").items():
        run += [Word("-e", one.place), _word(one)._replace(text=f"{name}={_word(one).text}")]
    if entry := item.get("entrypoint"):
        run += [Word("--entrypoint", entry.place), _word(entry)]
    run += [_word(item.get("image")), *map(_word, item.get("cmd"))]
    yield from starts(Command(tuple(run), {}, item.place, item.end_line), source, {})


def _option(name: str, item: Item) -> list[Word]:
    if isinstance(item.value, bool):
        return [Word(name, item.place)] if item.value else []
    return [Word(name, item.place), _word(item)] if item.text else []


def _word(item: Item) -> Word:
    """A word; what the file does not say is open in it."""
    text = re.sub(r"\$(?!\{)", "$$$$", item.text) if isinstance(item.value, (str, bool)) else "${value}"
    return filled(Word(text, item.place), {})
