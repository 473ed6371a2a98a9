"""What job files ask for: `accelerator: H100:8` and its like, and mappings of options as words of a command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan import catalogue
from kvplan.engines.common.words import Given, Place, Word
from kvplan.errors import KvplanError
from kvplan.manifests import accelerators
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.marked import Item

_MEMORY = re.compile(r"\d+(GB|GiB|G)?(\.\.(\d+(GB|GiB|G)?)?)?|\.\.\d+(GB|GiB|G)?", re.IGNORECASE)
#: Slurm's directives and commands, and how they ask for GPUs and nodes (slurm.schedmd.com/sbatch.html, srun.html).
_LINE = re.compile(r"^\s*(?:#SBATCH\b|(?:\w+=\S+\s+)*(?:exec\s+)?(?:srun|salloc|sbatch)\b)(.*(?:\\\n.*)*)", re.MULTILINE)
_GRES = re.compile(r"(?:--gres(?:=|\s+)(?:\S*,)?gpu|--gpus-per-node(?:=|\s+)|--gpus(?:=|\s+)|-G\s+):?([\w.-]+:)?(\d{1,4})(?![\w:])")
_ONE = re.compile(r"--gres(?:=|\s+)(?:[^\s,]*,)?gpu(?::([A-Za-z][\w.-]*))?(?![\w:.-])")  # without a number: one
_PER_NODE = re.compile(r"(?:--gres(?:=|\s+)(?:\S*,)?gpu|--gpus-per-node(?:=|\s+)):?([\w.-]+:)?(\d{1,4})(?![\w:])")
_SUM = re.compile(r"(?:--gpus(?:=|\s+)|-G\s+)([\w.-]+:)?(\d{1,4})(?![\w:])")
_CONSTRAINT = re.compile(r"(?:--constraint(?:=|\s+)|(?<!\S)-C\s*)[\"'\[(]?([\w.&|,*-]+)")
_NODES = re.compile(r"(?:--nodes(?:=|\s+)|-N\s*)(\d{1,4})\b")
#: Names that a service gives to one size of memory. SkyPilot: sky/catalog; Modal: modal.com/docs/guide/gpu; Beam:
#: docs.beam.cloud, "GPU"; Baseten: docs.baseten.co, "Instance type reference".
SKYPILOT = {"a100": "a100-40gb", "v100": "v100-16gb", "v100-32gb": "v100-32gb", "a100-80gb-sxm": "a100-80gb"}
MODAL = {"a100": "a100-40gb", "a100-40": "a100-40gb", "a100-80": "a100-80gb", "h100!": "h100-80gb"}
BASETEN = {"a100": "a100-80gb", "v100": "v100-16gb"}


def device(name: str, own: Mapping[str, str] = {}) -> str | None:
    """The one device that a service's name means; None where it means several or is not known."""
    key = name.strip().lower()
    if key in own:
        return own[key]
    known = {text.lower(): id_ for text, id_ in accelerators.RAY.items()}
    if key in known:
        return known[key]
    try:
        return None if key in accelerators.VAGUE else catalogue.find_device(name).id
    except KvplanError:
        return None


def hardware(item: Item, spelled: str, own: Mapping[str, str] = {}, count: Item | None = None) -> Hardware:
    """`H100:8`, `{H100: 8}`, `{name: H100, count: 8}`, `H100:80GB:2`, or a list of which any will do."""
    choices = list(_choices(item))
    if not item or not choices:
        return Hardware(why=f"the file names no {spelled}", place=item.place)
    counts = {n for _, n in choices if n}
    n = Given(counts.pop(), spelled, item.place) if len(counts) == 1 else None
    if count and count.text.isdecimal():
        n = Given(int(count.text[:6]), spelled, count.place)
    names = list(dict.fromkeys(name for name, _ in choices))
    if len(names) > 1 or len(choices) > 1:
        shown = " or ".join(f"{name}:{n or 1}" for name, n in choices)
        return Hardware(None, n, f"{spelled}: any of {shown}", item.place)
    found = device(names[0], own) if names[0] else None
    why = f"{spelled}: {names[0] or item.text} names no one device" if found is None else ""
    return Hardware(Given(found, spelled, item.place) if found else None, n, why, item.place)


def _choices(item: Item) -> Iterable[tuple[str, int | None]]:
    """(name, how many) of every choice."""
    if item.get("name") or item.get("memory"):
        names = item.get("name")
        for name in [*names] or [names]:
            size = item.get("memory").text
            number = item.get("count").text
            yield _with_memory(name.text, size), int(number[:6]) if number.isdecimal() else None
    elif isinstance(item.value, dict):
        for key, value in item.items():
            yield from _choice(key if value.value is None else f"{key}:{value.text}")
    elif isinstance(item.value, list):
        for one in item:
            yield from _choices(one)
    elif item:
        for part in item.text.split(","):
            yield from _choice(part)


def _choice(text: str) -> Iterable[tuple[str, int | None]]:
    name, size, number = "", "", None
    for n, part in enumerate(text.strip().split(":")):
        if n and re.fullmatch(r"\d{1,6}(\.\.\d*)?", part.strip()):
            number = int(part.strip()[:6]) if part.strip().isdecimal() else None
        elif _MEMORY.fullmatch(part.strip()):
            size = part.strip()
        elif part.strip().lower() not in ("nvidia", "amd", "intel", "google", "tenstorrent"):
            name = part.strip()
    yield _with_memory(name, size), number if number is not None else 1


def _with_memory(name: str, size: str) -> str:
    """`A100` of 80GB is an A100-80GB; any of several sizes leaves the name as it is."""
    exact = re.fullmatch(r"(\d+)(GB|GiB|G)?", size, re.IGNORECASE)
    sized = f"{name}-{exact[1]}GB" if exact and name else ""
    return sized if sized and device(sized) else name


def dashed(options: Item) -> Item:
    """A mapping whose keys are options in camel case, with the keys as an engine writes them (`maxModelLen`: max-model-len); an empty text
    is a bare option."""
    named = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", key.lstrip("-")).lower(): item for key, item in options.items()}
    return replace(options, value={key: replace(item, value=True) if item.value == "" else item for key, item in named.items()})


def option_words(options: Item, skip: Iterable[str] = ()) -> list[Word]:
    """A mapping of options as words: true is the bare option, false its --no- form, null is left out, mappings and lists are JSON."""
    words: list[Word] = []
    for key, item in options.items():
        if key in skip or item.value is None:
            continue
        option = key if key.startswith("-") else f"--{key.replace('_', '-')}"
        if item.value is True:
            words.append(Word(option, item.place))
        elif item.value is False:
            words.append(Word(f"--no-{option[2:]}", item.place))
        elif isinstance(item.value, (dict, list)):
            words += [Word(option, item.place), Word(json.dumps(item.plain(), default=str), item.place)]
        else:
            words += [Word(option, item.place), item.word]
    return words


def variables(item: Item) -> dict[str, Word]:
    """Variables of a mapping, or of a list of NAME=value and {name, value}; one without a value stays open."""
    env: dict[str, Word] = {}
    for name, value in item.items():
        env[name] = _value(name, value)
    for entry in item:
        if isinstance(entry.value, dict):
            name = (entry.get("name") or entry.get("key")).text
            env[name] = _value(name, entry.get("value"))
        else:
            name, equals, text = entry.text.partition("=")
            env[name] = Word(text, entry.place) if equals else Word(f"${name}", entry.place, (name,))
    return env


def _value(name: str, item: Item) -> Word:
    return Word(f"${name}", item.place, (name,)) if item.value is None else item.word


class Job(NamedTuple):
    """A Slurm job's GPUs: of one node, or `whole` of all of its `nodes` where it asks for a sum that those do not part evenly."""

    hardware: Hardware
    nodes: int
    whole: bool


def _asked(text: str, lines: Sequence[re.Match[str]]) -> dict[tuple[str, int, bool], Place]:
    """(kind, how many, whether of all nodes) of GPUs that lines ask for, and where."""
    found: dict[tuple[str, int, bool], Place] = {}
    for line in lines:
        for match in (*_GRES.finditer(line[1]), *_ONE.finditer(line[1])):
            count = int(match[2]) if match.re is _GRES else 1
            if count:
                key = ((match[1] or "").rstrip(":"), count, match.re is _GRES and _PER_NODE.match(match[0]) is None)
                found.setdefault(key, Place(text.count("\n", 0, line.start(1) + match.start()) + 1))
    return found


def of_slurm(text: str) -> Job | None:
    """The GPUs of a Slurm job (`#SBATCH --gres=gpu:h100:4`, `srun --gpus-per-node=a100:8`, `--gpus=8` of all nodes, the kind by
    `--constraint=h100` too); None where it asks for none, or for several different things."""
    lines = list(_LINE.finditer(text))
    found = _asked(text, [line for line in lines if "#SBATCH" in line[0]]) or _asked(text, lines)  # a step has no more than its job
    if len(found) != 1:
        return None
    ((kind, count, summed), place), option, nodes = next(iter(found.items())), "gpus of the job", max(1, _nodes(text))
    whole = summed and count % nodes != 0
    count = count // nodes if summed and not whole else count
    kinds = {one for line in lines for match in _CONSTRAINT.finditer(line[1]) for one in re.split(r"[&|,*]", match[1]) if device(one)}
    kind = kind or (kinds.pop() if len(kinds) == 1 else "")
    item = Item(f"{kind}:{count}", f"{kind}:{count}", place, place.line)
    number = Given(count, option, place)
    named = hardware(item, option) if kind else Hardware(why="the job asks for GPUs and names no kind", place=place)
    return Job(named._replace(n_devices=number), nodes, whole)


def _nodes(text: str) -> int:
    return max((int(match[1]) for line in _LINE.finditer(text) for match in _NODES.finditer(line[1])), default=0)


def slurm_variables(text: str) -> dict[str, Word]:
    """What Slurm sets in a job: how many nodes, how many GPUs (slurm.schedmd.com/sbatch.html, "Output environment variables")."""
    if "#SBATCH" not in text:
        return {}
    nodes, lines = _nodes(text), list(_LINE.finditer(text))
    counts = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes) if nodes else {}
    gpus = {int(match[2]) for line in lines for match in _PER_NODE.finditer(line[1])}
    sums = {int(match[2]) for line in lines for match in _SUM.finditer(line[1])}
    if len(gpus) == 1 and not sums:
        counts |= dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), *gpus)
    elif len(sums) == 1 and not gpus:
        (count,) = sums
        counts |= {"SLURM_GPUS": count} | ({"SLURM_GPUS_ON_NODE": count // nodes} if nodes and count % nodes == 0 else {})
    return {name: Word(str(count)) for name, count in counts.items()}
