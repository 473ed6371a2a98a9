"""`docker run`, before its image: variables, devices, what the container may hold, what of the host it sees.

docs.docker.com/reference/cli/docker/container/run. Files of --env-file and mounts are those beside the checked file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Finding, Given, Place, Word
from kvplan.manifests.host import DEFAULT_SHM, Limits, docker_size
from kvplan.manifests.programs import DOCKER_FLAGS, gpu_count, gpus_on
from kvplan.manifests.words import dotenv
from kvplan.manifests.wrapped import Files, is_before

#: The folder that the script stands in, as shells spell it.
_HERE = re.compile(r"^(\./|\$PWD/|\$\{PWD\}/|\$\(pwd\)/|`pwd`/)")


class Run(NamedTuple):
    """`image`: at which word it stands, None where none does; `on`: the machine's devices that it is given; `stays`: it is left running;
    `mounts`: path in the container -> path beside the checked file."""

    image: int | None
    env: Mapping[str, Word]
    gpus: Given | None
    entry: list[Word] | None
    on: tuple[str, ...]
    stays: bool
    limits: Limits
    mounts: Mapping[str, str]
    faults: tuple[Finding, ...]


def read(after: Sequence[Word], files: Files, place: Place, *, is_docker: bool) -> Run:
    """The words behind `docker run`, or its like's. `files`: texts by name, those of --env-file among them."""
    env: dict[str, Word] = {}
    listed: dict[str, Word] = {}
    said: dict[str, Word] = {}
    mounts: dict[str, str] = {}
    faults: list[Finding] = []
    stays = False
    n = 0
    while n < len(after) and (after[n].text.startswith("-") or after[n].maybe or is_before(after, n)):
        if not after[n].text.startswith("-"):  # `${TOKEN:+-e TOKEN=...}`, `"${OPTIONS[@]}"` among them
            n += 1
            continue
        name, equals, value = after[n].text.partition("=")
        word = after[n]._replace(text=value)
        n += 1
        stays = stays or name == "--detach" or bool(re.fullmatch(r"-[itPq]*d[itPq]*", name))
        if name in DOCKER_FLAGS or re.fullmatch(r"-[ditPq]+", name):
            continue
        if not equals and n < len(after):
            word = after[n]
            n += 1
        if name in ("-e", "--env"):
            key, given, text = word.text.partition("=")
            env[key] = word._replace(text=text) if given else Word(f"${key}", word.place, (key,))
        elif name == "--env-file":
            more, fault = _listed(word, files)
            listed |= more
            faults.append(fault)
        elif name in ("-v", "--volume"):
            source, _, target = word.text.partition(":")
            if _HERE.match(source):
                mounts[target.partition(":")[0].rstrip("/")] = _HERE.sub("", source).rstrip("/")
        else:
            said[name] = word
    gpus = said.get("--gpus")
    faults += _count_beside_ids(gpus) if gpus and is_docker else ()
    return Run(
        n if n < len(after) else None, listed | env, gpu_count(gpus) if gpus else None,
        [said["--entrypoint"]] if "--entrypoint" in said else None, gpus_on(gpus) if gpus else (), stays,
        _limits(said, mounts, place), mounts, tuple(faults),
    )  # fmt: skip


def _count_beside_ids(gpus: Word) -> Iterator[Finding]:
    """`--gpus device=0,1` is a device and a count (docker/cli opts/gpus.go), which dockerd refuses together."""
    fields = next(csv.reader([gpus.text.split("\n")[0]]), [])
    if not gpus.missing and any(one.startswith("device=") for one in fields) and any("=" not in one for one in fields):
        shown = gpus.text[:80]
        message = f"--gpus {shown}: docker takes what stands behind the comma for a count, and refuses it beside ids; write '\"{shown}\"'"
        yield Finding("bad-value", "error", message, gpus.place)


def _listed(path: Word, files: Files) -> tuple[dict[str, Word], Finding]:
    """Variables of a file, each told where it is named."""
    name = path.text.removeprefix("./")
    if path.missing or name not in files:
        message = f"--env-file {path.text[:200]} is not at hand; variables in it may change the engine's options"
        return {}, Finding("not-read", "note", message, path.place)
    found = {key: word._replace(place=path.place) for key, word in dotenv(files[name][0]).items()}
    return found, Finding("config-read", "note", f"{name} is read from beside this file", path.place)


def _limits(said: Mapping[str, Word], mounts: Mapping[str, str], place: Place) -> Limits:
    """What --memory and --shm-size say; /dev/shm is the default's unless the host's is shared or mounted."""
    memory, shm = said.get("--memory") or said.get("-m"), said.get("--shm-size")
    sizes = [docker_size(word.text) if word and not word.missing else None for word in (memory, shm)]
    limit = Given(sizes[0], "--memory", memory.place) if memory and sizes[0] else None
    if "--ipc" in said or "/dev/shm" in mounts or (shm and not sizes[1]):
        return Limits(limit)
    return Limits(limit, Given(sizes[1], "--shm-size", shm.place) if shm and sizes[1] else Given(DEFAULT_SHM, "default /dev/shm", place))
