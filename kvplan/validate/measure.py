"""What memory really grew by: the operating system's figure on a CPU, NVML's and torch's on a GPU."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from kvplan.errors import ProbeError
from kvplan.validate.caches import AnyCache, build
from kvplan.validate.description import CacheShape, Held, shape_of
from kvplan.validate.storage import Rows

Figures = dict[str, int | None]
Event = dict[str, Any]


class Meter(Protocol):
    """Where memory is and how it is read."""

    device: str

    def facts(self) -> Event:
        """What the machine is, for a receipt: no names of hosts, no paths."""
        ...

    def free(self) -> int | None:
        """Bytes that can still be allocated; None where nothing tells."""
        ...

    def read(self) -> Figures:
        """Bytes in use now, by every figure this device has."""
        ...


class CpuMeter:
    """Resident memory of this process, and what the system says is available (Linux; elsewhere both are None)."""

    device = "cpu"

    def facts(self) -> Event:
        return {"device": "cpu", "name": "CPU", "system": f"{platform.system()} {platform.machine()}", "torch": torch.__version__}

    def free(self) -> int | None:
        try:
            with open("/proc/meminfo") as file:
                return next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), None)
        except OSError:
            return None

    def read(self) -> Figures:
        try:
            with open("/proc/self/statm") as file:
                return {"resident": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
        except OSError:
            return {"resident": None}


class CudaMeter:
    """One GPU: NVML's used memory, NVML's figure for this process, torch's allocator. NVML may refuse; torch's figures stay.

    `context_bytes` is what NVML saw appear when CUDA started.
    """

    def __init__(self, device: str = "cuda:0", cuda: Any = torch.cuda) -> None:
        self.device, self.cuda = device, cuda
        self.notes: list[str] = []
        self.uuid: str | None = None
        before = None
        if not cuda.is_initialized():
            before = self._nvml().get("nvml_used")
        cuda.init()
        properties = cuda.get_device_properties(device)
        self.uuid = str(getattr(properties, "uuid", "")) or None
        started = self._nvml().get("nvml_used")
        self.context_bytes = None if before is None or started is None else started - before
        self.properties = properties

    def _nvml(self) -> Figures:
        from kvplan import probe

        try:
            gpu = probe.find(self.uuid) if self.uuid else probe.detect()
        except ProbeError as error:
            if str(error) not in self.notes:
                self.notes.append(str(error))
            return {"nvml_used": None, "nvml_process": None}
        return {"nvml_used": gpu.used_bytes, "nvml_process": probe.used_by(os.getpid(), self.uuid)}

    def facts(self) -> Event:
        from kvplan import probe

        facts = {"device": "cuda", "name": self.properties.name, "system": f"{platform.system()} {platform.machine()}"}
        facts |= {"torch": torch.__version__, "cuda": torch.version.cuda, "total_bytes": int(self.properties.total_memory)}
        try:
            gpu = probe.find(self.uuid) if self.uuid else probe.detect()
            facts |= {"name": gpu.name, "driver": gpu.driver, "compute_capability": gpu.compute_capability, "nvml_bytes": gpu.total_bytes}
        except ProbeError:
            pass
        return facts | {"context_bytes": self.context_bytes, "notes": self.notes}

    def free(self) -> int | None:
        return int(self.cuda.mem_get_info(self.device)[0])

    def read(self) -> Figures:
        self.cuda.synchronize(self.device)
        return {
            "torch_allocated": int(self.cuda.memory_allocated(self.device)),
            "torch_reserved": int(self.cuda.memory_reserved(self.device)),
            "torch_peak": int(self.cuda.max_memory_allocated(self.device)),
            **self._nvml(),
        }


def meter(device: str) -> Meter:
    """The meter of a torch device name. Raises ProbeError where there is no such device."""
    if device == "cpu":
        return CpuMeter()
    if not torch.cuda.is_available():
        raise ProbeError(
            f"no CUDA device for {device!r}: torch {torch.__version__} sees none; validate on the CPU, or install a CUDA torch"
        )
    return CudaMeter(device)


def grown(before: Figures, after: Figures) -> Figures:
    """The growth of each figure; None where either is."""
    return {name: None if now is None or (was := before.get(name)) is None else now - was for name, now in after.items()}


class OutOfMemory(Exception):
    """The device refused: `held` bytes of caches were there, `message` is its own."""

    def __init__(self, held: int, message: str) -> None:
        super().__init__(message)
        self.held, self.message = held, message


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: torch says so in three ways."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "not enough memory" in str(error))


def hold(shape: CacheShape, m: Meter, kept: list[AnyCache]) -> Held:
    """Allocates every layer of a shape, writes all of it, and says what it took; the caches stay alive in `kept`.

    Raises OutOfMemory with the bytes of `kept` at that moment.
    """
    Rows(shape.element, (1,), shape.width, m.device).touch()  # so that the code that writes is in memory before the first reading
    before, first = m.read(), len(kept)
    try:
        for _ in range(shape.layers):
            cache = build(shape, m.device)
            kept.append(cache)
            if not cache.touch():
                raise AssertionError(f"{shape.line} {shape.tensor}: what was written is not there")
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(sum(size for cache in kept for size in cache.sizes()), str(error).split("\n")[0]) from None
    mine = kept[first:]
    sizes = [size for cache in mine for size in cache.sizes()]
    return Held(
        allocated=sum(sizes),
        requested=tuple(sizes),
        measured=grown(before, m.read()),
        peak=sum(sizes) + max(cache.peak - sum(cache.sizes()) for cache in mine),
        bookkeeping=sum(cache.bookkeeping for cache in mine),
    )


def caches_job(m: Meter, cases: list[list[dict[str, Any]]]) -> Iterator[Event]:
    """Each case: its shapes allocated one after the other and held together, then all freed. One event per shape, one per case."""
    Rows("bf16", (1 << 20,), 4, m.device).touch()  # starts the threads that write
    for n, case in enumerate(cases):
        kept: list[AnyCache] = []
        start = m.read()
        try:
            for i, data in enumerate(case):
                yield {"event": "row", "case": n, "row": i, **hold(shape_of(data), m, kept)._asdict()}
            yield {"event": "case", "case": n, "measured": grown(start, m.read())}
        except OutOfMemory as error:
            yield {"event": "out of memory", "case": n, "held": error.held, "message": error.message}
        kept.clear()
        if m.device != "cpu":
            torch.cuda.empty_cache()
    if m.device != "cpu":
        yield {"event": "overheads", "first_product": first_product(m)}


def first_product(m: Meter) -> Figures:
    """What each figure grows by at the first matrix product: its three matrices (6 MiB) and the workspace of the library that does it."""
    before = m.read()
    a = torch.ones(1024, 1024, dtype=torch.bfloat16, device=m.device)
    product = a @ a.clone()
    after = m.read()
    del product
    return grown(before, after)
