"""Jobs of SkyPilot, dstack, VESSL and Amazon ECS: a shell script, variables, and the accelerators that the service finds for it.

docs.skypilot.co "Task YAML" (run, setup, envs, resources.accelerators, num_nodes, SKYPILOT_*); dstack.ai/docs "service" (commands, env,
image, resources.gpu, nodes, DSTACK_*); docs.vessl.ai "YAML schema" (run, env, image, resources.preset).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kvplan.engines.common.words import Breaks, Given, Place, Word
from kvplan.manifests import images, requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.command import Start, container, scripts
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.script import read_script
from kvplan.manifests.words import Script


def _is_ecs(document: Item) -> bool:
    return any(one.get("image") for one in document.get("containerDefinitions"))


def _is_skypilot(document: Item) -> bool:
    ours = ("resources", "setup", "envs", "num_nodes", "service", "workdir")
    return isinstance(document.get("run").value, str) and any(document.get(key) for key in ours) and not document.get("jobs")


def _is_vessl(document: Item) -> bool:
    return bool(document.get("run")) and any(document.get("resources", key) for key in ("cluster", "preset"))


def _is_dstack(document: Item) -> bool:
    kind = document.get("type").text in ("service", "task", "dev-environment")
    return kind and bool(document.get("commands") or document.get("image"))


def _ecs(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    for one in document.get("containerDefinitions"):
        yield from task_container(one, n, source)


def task_container(one: Item, n: int, source: str, machine: Given | None = None) -> Iterator[tuple[Start, Site]]:
    """docs.aws.amazon.com/AmazonECS, "Task definition parameters": entryPoint, command, environment, resourceRequirements; Terraform's
    modules spell them with underscores. `machine`: the device that it runs on."""
    env = {entry.get("name").text: Word(entry.get("value").text, entry.place) for entry in one.get("environment")}
    needs = [*one.get("resourceRequirements"), *one.get("resource_requirements")]
    count = next((r.get("value") for r in needs if r.get("type").text == "GPU"), NOTHING).count("resourceRequirements")
    entry, words = ([part.word for part in one.get(key)] for key in ("entryPoint", "command"))
    for start in container(one.get("image").word, entry or None, words or None, env, source, one.place, one.end_line):
        yield start, Site(one.get("name").text, n, machine, count, 1, NO_DEVICE, one.place, span=one.span)


def _skypilot(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    resources = document.get("resources")
    one = next((r for r in (resources, *resources.get("any_of"), *resources.get("ordered")) if r.get("accelerators")), resources)
    several = [r.get("accelerators") for key in ("any_of", "ordered") for r in resources.get(key) if r.get("accelerators")]
    wanted = Item(several, "", one.place, one.end_line) if len(several) > 1 else one.get("accelerators")
    hardware = requested.hardware(wanted, "accelerators", requested.SKYPILOT)
    nodes = document.get("num_nodes")
    env = {**requested.variables(document.get("envs")), **requested.variables(document.get("secrets"))}
    env |= _numbers("SKYPILOT", "NUM_GPUS_PER_NODE", "NUM_NODES", hardware, nodes, ("NODE_RANK", "NODE_IPS", "TASK_ID"))
    run = document.get("run")
    image = resources.get("image_id").text.removeprefix("docker:")
    script = read_script(run.text, source, base=run.body, breaks=run.breaks, env=env)
    for start in _released(script, source, image):
        yield start, _site(document, n, hardware, nodes)


def _vessl(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    preset, run = document.get("resources", "preset"), document.get("run")
    named = {id_ for word in (preset.text, *preset.text.split("-")) if (id_ := requested.device(word))}
    sized = {id_ for word in re.findall(r"[a-z]+\d+[a-z]*-\d+g", preset.text) if (id_ := requested.device(f"{word}b"))}  # h100-80g
    device = next(iter(sized or named)) if len(sized or named) == 1 else None
    given = Given(device, "resources.preset", preset.place) if device else None
    hardware = Hardware(given, None, f"resources.preset: {preset.text or 'none'} names no one device", preset.place)
    commands = [one.get("command") or one for one in run] if isinstance(run.value, list) else [run]
    text, breaks = _joined(commands)
    script = read_script(text, source, base=run.place, breaks=breaks, env=requested.variables(document.get("env")))
    for start in _released(script, source, document.get("image").text):
        yield start, _site(document, n, hardware)


def _released(script: Script, source: str, image: str) -> Iterator[Start]:
    """The engines of a script, of the release that the command or the image says."""
    known = images.find(image)
    for start in scripts(script, source):
        version = start.version or (known.version if known and known.engine == start.engine else None)
        yield start._replace(version=version)


def _dstack(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    hardware = requested.hardware(document.get("resources", "gpu"), "resources.gpu")
    nodes = document.get("nodes")
    env = requested.variables(document.get("env"))
    env |= _numbers("DSTACK", "GPUS_PER_NODE", "NODES_NUM", hardware, nodes, ("NODE_RANK", "MASTER_NODE_IP", "NODES_IPS"))
    if hardware.n_devices:
        count = hardware.n_devices.value * nodes.number()
        env["DSTACK_GPUS_NUM"] = Word(str(count), hardware.place)
    image = document.get("image")
    word = image.word if image else None
    site = _site(document, n, hardware, nodes)
    commands = document.get("commands")
    if not commands:
        for start in container(word, None, None, env, source, document.place, document.end_line):
            yield start, site
        return
    text, breaks = _joined(commands)
    script = read_script(text, source, base=commands.place, breaks=breaks, env=env)
    yield from ((start, site) for start in _released(script, source, image.text))


def _joined(commands: Iterable[Item]) -> tuple[str, Breaks]:
    """The commands as one script, each line at its own place."""
    parts: list[str] = []
    breaks: list[tuple[int, int]] = []
    at = 0
    for item in commands:
        for number, line in enumerate(item.text.splitlines()):
            breaks.append((at, item.body.line + (number if item.style in ("|", ">") else 0)))
            parts.append(line)
            at += len(line) + 1
    return "\n".join(parts), tuple(breaks)


def _numbers(prefix: str, gpus: str, nodes: str, hardware: Hardware, count: Item, own: tuple[str, ...]) -> dict[str, Word]:
    """The variables that the service sets: those that follow from the file, and each node's own, which stay open."""
    env = {f"{prefix}_{name}": Word(f"${prefix}_{name}", count.place, (f"{prefix}_{name}",)) for name in own}
    name = f"{prefix}_{gpus}"
    there = hardware.n_devices
    env[name] = Word(str(there.value), hardware.place) if there else Word(f"${name}", hardware.place, (name,))
    env[f"{prefix}_{nodes}"] = Word(count.text if count.text.isdecimal() else "1", count.place)
    return env


def _site(document: Item, n: int, hardware: Hardware, nodes: Item = NOTHING) -> Site:
    count = nodes.number()
    name = document.get("name").text
    span = document.span
    place = hardware.place if hardware.place != Place() else document.place
    return Site(name, n, hardware.device, hardware.n_devices, max(count, 1), hardware.why, place, span=span)


#: What tells each, and what reads it.
KINDS = ((_is_vessl, _vessl), (_is_skypilot, _skypilot), (_is_ecs, _ecs), (_is_dstack, _dstack))
