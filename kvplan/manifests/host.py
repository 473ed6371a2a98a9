"""Memory beside the GPU: what a container may hold, and what its engine takes of it for certain.

Counted are the plan's own host lines, which the engine pins when it starts. Weights are mapped from their files, or read through the page
cache: those pages count against a container's limit and may be dropped again, so a limit below the weights is not known to fail; below a
file of them for each rank it is not known to hold either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from kvplan.engines.common.words import Finding, Given, Place
from kvplan.manifests.marked import Item
from kvplan.planner.plan import Plan
from kvplan.units import MIB, show_bytes

#: What a container has under /dev/shm where nobody says: Docker's --shm-size and containerd's default.
DEFAULT_SHM = 64 * MIB
#: No container starts with less (moby, daemon/daemon_unix.go linuxMinMemory; what runc's own start needs).
LEAST = 6 * MIB
#: The largest file of most checkpoints (transformers 4, save_pretrained, max_shard_size).
SHARD = 5 * 10**9
_KUBERNETES = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([EPTGMk]i?|Ki|m|e\d{1,2})?")
_QUANTITY = re.compile(r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?")
_DOCKER = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([bkmgt])?(?:i?b)?", re.IGNORECASE)
_POWERS = {"k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


class Limits(NamedTuple):
    """What a container may hold: its memory, and /dev/shm, where that is said or the default; None: as the machine has."""

    memory: Given | None = None
    shm: Given | None = None


def of_container(pod: Item, container: Item) -> Limits:
    """A pod's container: its memory limit; /dev/shm is a volume in memory, else the runtime's default."""
    memory = container.get("resources", "limits", "memory")
    n = quantity(memory.text) if memory else None
    limit = Given(n, "limits.memory", memory.place) if n else None
    mounted = next((m.get("name").text for m in container.get("volumeMounts") if m.get("mountPath").text.rstrip("/") == "/dev/shm"), "")
    if pod.get("hostIPC").value is True:
        return Limits(limit)
    if not mounted:
        return Limits(limit, Given(DEFAULT_SHM, "default /dev/shm", container.place))
    volume = next((v for v in pod.get("volumes") if v.get("name").text == mounted), None)
    size = volume.get("emptyDir", "sizeLimit") if volume else None
    n = quantity(size.text) if size else None
    return Limits(limit, Given(n, "/dev/shm sizeLimit", size.place) if size and n else None)


def of_service(service: Item) -> Limits:
    """A compose service."""
    memory = service.get("deploy", "resources", "limits", "memory") or service.get("mem_limit")
    n = docker_size(memory.text) if memory else None
    limit = Given(n, "memory limit", memory.place) if n else None
    if service.get("ipc").text.startswith(("host", "service:", "container:")):
        return Limits(limit)
    mounts = [*service.get("volumes"), *service.get("tmpfs")]
    if any("/dev/shm" in (m.text or m.get("target").text) for m in mounts):
        return Limits(limit)
    shm = service.get("shm_size")
    n = docker_size(shm.text) if shm else DEFAULT_SHM
    return Limits(limit, Given(n, "shm_size" if shm else "default /dev/shm", (shm or service).place) if n else None)


def quantity(text: str) -> int | None:
    """A Kubernetes quantity in bytes: 4Gi, 500M, 1e9."""
    match = _KUBERNETES.fullmatch(text.strip())
    if match is None:
        return None
    unit = match[2] or ""
    if unit == "m":
        return math.ceil(float(match[1]) / 1000)
    if unit.startswith("e"):
        return int(float(match[1] + unit)) if int(unit[1:]) <= 18 else None
    base = 1024 if unit.endswith("i") else 1000
    return int(float(match[1]) * base ** _POWERS.get(unit[:1].replace("K", "k"), 0))


def not_quantities(container: Item) -> Iterator[Finding]:
    """What the API server refuses in a container's resources (apimachinery resource.ParseQuantity, ValidateResourceRequirements)."""
    limits, requests = container.get("resources", "limits"), container.get("resources", "requests")
    for name, item in (*limits.items(), *requests.items()):
        text = item.text.strip()
        if not text or re.search(r"[${]", text):
            continue
        if not _QUANTITY.fullmatch(text):
            yield Finding("bad-quantity", "error", f"{name}: {text[:40]!r} is no Kubernetes quantity; write 64Gi, 500M, 2", item.place)
        elif "/" in name and not re.fullmatch(r"[+-]?\d+[kMGTPE]?", text):
            yield Finding("bad-quantity", "error", f"{name}: {text[:40]!r} is no whole number; Kubernetes refuses the object", item.place)
    for name, item in requests.items():
        most = limits.get(name)
        if "/" in name and most and item.text.isdecimal() and most.text.isdecimal() and item.text != most.text:
            message = f"{name}: {item.text[:20]} requested, {most.text[:20]} as the limit; Kubernetes refuses the object where they differ"
            yield Finding("bad-quantity", "error", message, item.place)


def docker_size(text: str) -> int | None:
    """A size as Docker reads it: 4g, 512MB, powers of 1024."""
    match = _DOCKER.fullmatch(text.strip())
    return int(float(match[1]) * 1024 ** " kmgt".index((match[2] or " ").lower().replace("b", " "))) if match else None


def findings(limits: Limits, plan: Plan | None, place: Place) -> Iterator[Finding]:
    """What is certain first: pinned buffers above the limit; then weights that pass through it, then /dev/shm between ranks."""
    n_devices = int((plan.question["n_devices"][0] if plan else None) or 1)
    weights = plan.model.weight_bytes if plan else None
    lines = [line for line in plan.outcome.host if line.kind in ("cache", "weights")] if plan else []
    needed = sum(line.bytes for line in lines)
    said = " + ".join(f"{line.name} {show_bytes(line.bytes)} ({line.source})" for line in lines)
    if limits.memory is not None:
        most = int(limits.memory.value)
        if most < LEAST:
            spelled = limits.memory.spelled
            message = f"{spelled} is {show_bytes(most)}, and no container starts below {show_bytes(LEAST)}; sizes take a unit: 16Gi"
            yield Finding("host-memory", "error", message, limits.memory.place)
        elif needed > most:
            message = (
                f"{said} of host memory is pinned, and the container's {limits.memory.spelled} is {show_bytes(most)}: it would be killed"
            )
            yield Finding("host-memory", "error", message, limits.memory.place)
        elif weights is not None and weights + needed > most:
            more = f" beside {said}" if said else ""
            limit = f"the container's {limits.memory.spelled} is {show_bytes(most)}"
            if most < needed + n_devices * min(SHARD, weights):
                what = "less than a file of them for each rank that loads: pages of mapped files can be dropped, what is read whole can not"
                message = f"{show_bytes(weights)} of weights pass through host memory{more}, and {limit}, {what}; raise the limit"
                yield Finding("host-memory-weights", "warning", message, limits.memory.place)
            else:
                message = (
                    f"{show_bytes(weights)} of weights pass through host memory{more}, and {limit}: their pages are dropped as it loads"
                )
                yield Finding("host-memory-weights", "note", message, limits.memory.place)
    if limits.shm is not None and n_devices > 1 and int(limits.shm.value) <= DEFAULT_SHM:
        message = (
            f"{limits.shm.spelled} is {show_bytes(int(limits.shm.value))}: NCCL and the queues between {n_devices} ranks lie there; "
            "share the host's, or give it some GiB"
        )
        yield Finding("small-shm", "note", message, limits.shm.place if limits.shm.place != Place() else place)
