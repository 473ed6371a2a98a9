"""Memory beside the GPU: what a container may hold, and what its engine takes of it for certain.

Counted are buffers that the engine pins when it starts. Weights are mapped from their files, or read through the page cache: those pages
count against a container's limit and may be dropped again, so a limit below the weights is not known to fail, and not known to hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Finding, Given, Place, Word
from kvplan.manifests.marked import Item
from kvplan.units import GIB, MIB, show_bytes

#: What a container has under /dev/shm where nobody says: Docker's --shm-size and containerd's default.
DEFAULT_SHM = 64 * MIB
_KUBERNETES = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([EPTGMk]i?|Ki|m|e\d{1,2})?")
_DOCKER = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([bkmgt])?(?:i?b)?", re.IGNORECASE)
_POWERS = {"k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


class Limits(NamedTuple):
    """What a container may hold: its memory, and /dev/shm, where that is said or the default; None: as the machine has."""

    memory: Given | None = None
    shm: Given | None = None


class Buffer(NamedTuple):
    """An option that pins host memory: GiB, in all or for each device."""

    name: str
    unit: int
    each: bool


#: vllm/config/cache.py (kv_offloading_size: GiB summed across ranks), config/offload.py (cpu_offload_gb: GiB a GPU);
#: sglang/srt/server_args.py (hicache_size: GB for each rank, mem_cache/memory_pool_host.py 10^9; cpu_offload_gb). --swap-space: V0 alone.
BUFFERS = (
    Buffer("--kv-offloading-size", GIB, False),
    Buffer("--cpu-offload-gb", GIB, True),
    Buffer("--hicache-size", 10**9, True),
)
SWAP = Buffer("--swap-space", GIB, True)


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
        return int(float(match[1]) / 1000)
    if unit.startswith("e"):
        return int(float(match[1] + unit)) if int(unit[1:]) <= 18 else None
    base = 1024 if unit.endswith("i") else 1000
    return int(float(match[1]) * base ** _POWERS.get(unit[:1].replace("K", "k"), 0))


def docker_size(text: str) -> int | None:
    """A size as Docker reads it: 4g, 512MB, powers of 1024."""
    match = _DOCKER.fullmatch(text.strip())
    return int(float(match[1]) * 1024 ** " kmgt".index((match[2] or " ").lower().replace("b", " "))) if match else None


def pinned(words: Sequence[Word], *, swaps: bool) -> dict[str, tuple[float, Buffer, Place]]:
    """The options that pin host memory, by name."""
    found: dict[str, tuple[float, Buffer, Place]] = {}
    known = {buffer.name: buffer for buffer in (*BUFFERS, *((SWAP,) if swaps else ()))}
    for n, word in enumerate(words):
        name, equals, text = word.text.partition("=")
        buffer = known.get(name.replace("_", "-"))
        value = text if equals else words[n + 1].text if n + 1 < len(words) else ""
        if buffer and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) and float(value) > 0:
            found[buffer.name] = (float(value), buffer, word.place)
    return found


def findings(
    limits: Limits, buffers: Mapping[str, tuple[float, Buffer, Place]], n_devices: int, weights: int | None, place: Place
) -> Iterator[Finding]:
    """What is certain first: pinned buffers above the limit; then weights that pass through it, then /dev/shm between ranks."""
    sizes = {name: int(value * b.unit) * (n_devices if b.each else 1) for name, (value, b, _) in buffers.items()}
    needed = sum(sizes.values())
    if limits.memory is not None:
        most = int(limits.memory.value)
        said = " + ".join(f"{name} {show_bytes(size)}" for name, size in sizes.items())
        if needed > most:
            message = (
                f"{said} of host memory is pinned, and the container's {limits.memory.spelled} is {show_bytes(most)}: it would be killed"
            )
            yield Finding("host-memory", "error", message, limits.memory.place)
        elif weights is not None and weights + needed > most:
            more = f" beside {said}" if said else ""
            message = (
                f"{show_bytes(weights)} of weights pass through host memory{more}, and the container's {limits.memory.spelled} is "
                f"{show_bytes(most)}: pages of mapped files can be dropped, so it may load slowly, or be killed; raise the limit"
            )
            yield Finding("host-memory-weights", "warning", message, limits.memory.place)
    if limits.shm is not None and n_devices > 1 and int(limits.shm.value) <= DEFAULT_SHM:
        message = (
            f"{limits.shm.spelled} is {show_bytes(int(limits.shm.value))}: NCCL and the queues between {n_devices} ranks lie there; "
            "share the host's, or give it some GiB"
        )
        yield Finding("small-shm", "note", message, limits.shm.place if limits.shm.place != Place() else place)
