"""What a device says it holds: the operating system's figure on a CPU, NVML's and torch's on a GPU. Nothing here knows what to expect."""

from __future__ import annotations

import os
import platform
import re
import warnings
from contextlib import ExitStack
from typing import Any, Protocol

import torch

from kvplan import probe
from kvplan.errors import ProbeError

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
        """Bytes in use now, by every figure this device has; the most telling first."""
        ...

    def settle(self) -> None:
        """Gives what is cached and unused back to the device, so that the next reading counts only what is alive."""
        ...

    def forget_peak(self) -> None:
        """The high-water mark starts again from now."""
        ...

    def peak(self, since: Figures) -> int | None:
        """The most in use since `forget_peak`, above a reading; None where nothing tells."""
        ...


class CpuMeter:
    """Resident memory of this process, and what the system says is available (Linux; elsewhere both are None)."""

    device = "cpu"

    def facts(self) -> Event:
        return {"device": "cpu", "name": "CPU", "system": f"{platform.system()} {platform.machine()}", "torch": torch.__version__}

    def free(self) -> int | None:
        known = [n for n in (_available(), _left_in_group()) if n is not None]
        return min(known) if known else None

    def read(self) -> Figures:
        try:
            with open("/proc/self/statm") as file:
                return {"resident": int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")}
        except OSError:
            return {"resident": None}

    def settle(self) -> None:
        """Nothing: the C library gives large blocks back at once (child.py sets it so)."""

    def forget_peak(self) -> None:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass

    def peak(self, since: Figures) -> int | None:
        high = _line("/proc/self/status", "VmHWM:")
        return None if high is None else high - (since.get("resident") or 0)


def _line(path: str, label: str) -> int | None:
    """The kibibytes behind a label of a file of Linux's, in bytes."""
    try:
        with open(path) as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith(label)), None)
    except OSError:
        return None


def _available() -> int | None:
    return _line("/proc/meminfo", "MemAvailable:")


def _left_in_group(folder: str = "/sys/fs/cgroup") -> int | None:
    """What a container's memory limit leaves (cgroup v2): files that only serve as cache can be dropped, and do not count."""
    try:
        with open(f"{folder}/memory.max") as limit, open(f"{folder}/memory.current") as used, open(f"{folder}/memory.stat") as stat:
            most = limit.read().strip()
            cached = next((int(line.split()[1]) for line in stat if line.startswith("inactive_file ")), 0)
            return None if most == "max" else int(most) - int(used.read()) + cached
    except (OSError, ValueError):
        return None


class CudaMeter:
    """One GPU: NVML's used memory, NVML's figure for this process, CUDA's own, torch's allocator. NVML may refuse; the others stay.

    `context_bytes` is what appeared when CUDA made its context: NVML's figure for this process, or where it gives none the growth of
    what is in use on the whole device. None where CUDA had started before, or NVML tells neither.
    """

    def __init__(self, device: str = "cuda:0", cuda: Any = torch.cuda) -> None:
        self.device, self.cuda = device, cuda
        self.notes: list[str] = []
        self.uuid: str | None = None
        self._open = ExitStack()
        try:
            self._open.enter_context(probe.session())
        except ProbeError as error:
            self._note(error)
        new = not cuda.is_initialized()
        before = self._in_use() if new else {}
        # A process without CUDA holds no GPU memory: what NVML books on this number is another's, seen from inside a container.
        self._not_mine = new and probe.used_by(os.getpid()) is not None
        cuda.init()
        cuda.set_device(device)
        self.properties = cuda.get_device_properties(device)
        self.uuid = self._find()
        cuda.synchronize(device)  # the first call that needs a context makes it
        self.in_use_before = before.get(self.uuid or "")
        now = self._nvml()
        used, booked = now["nvml_used"], now["nvml_process"]
        grown = None if used is None or self.in_use_before is None else used - self.in_use_before
        self.context_bytes = (grown if booked is None else booked) if new else None

    def _note(self, error: ProbeError) -> None:
        if str(error) not in self.notes:
            self.notes.append(str(error))

    def _in_use(self) -> dict[str, int]:
        """Bytes in use on every GPU and MIG instance, by UUID."""
        try:
            return {gpu.uuid: gpu.used_bytes for gpu in probe.gpus()}
        except ProbeError as error:
            self._note(error)
            return {}

    def _find(self) -> str | None:
        """NVML's UUID of this device; a torch that does not tell it leaves no doubt only where a single GPU is visible."""
        try:
            uuid = str(getattr(self.properties, "uuid", "") or "")
            if uuid:
                return probe.find(uuid).uuid
            seen = probe.visible()
            return seen[0].uuid if len(seen) == 1 else None
        except ProbeError as error:
            self._note(error)
            return None

    def _nvml(self) -> Figures:
        if self.uuid is None:
            return {"nvml_used": None, "nvml_process": None}
        try:
            used, booked = probe.memory_of(self.uuid, os.getpid())
        except ProbeError as error:
            self._note(error)
            return {"nvml_used": None, "nvml_process": None}
        return {"nvml_used": used, "nvml_process": None if self._not_mine else booked}

    def facts(self) -> Event:
        facts = {"device": "cuda", "name": self.properties.name, "system": f"{platform.system()} {platform.machine()}"}
        facts |= {"torch": torch.__version__, "cuda": torch.version.cuda, "total_bytes": int(self.properties.total_memory)}
        try:
            if self.uuid is not None:
                gpu = probe.find(self.uuid)
                facts |= {"name": gpu.name, "driver": gpu.driver, "compute_capability": gpu.compute_capability}
                facts |= {"nvml_bytes": gpu.total_bytes, "mig": gpu.mig, "in_use_before": self.in_use_before}
        except ProbeError as error:
            self._note(error)
        return facts | {"notes": self.notes}

    def free(self) -> int | None:
        return int(self.cuda.mem_get_info(self.device)[0])

    def read(self) -> Figures:
        self.cuda.synchronize(self.device)
        free, total = self.cuda.mem_get_info(self.device)
        nvml = self._nvml()
        return {
            "nvml_used": nvml["nvml_used"],
            "cuda_used": int(total) - int(free),
            "torch_reserved": int(self.cuda.memory_reserved(self.device)),
            "torch_allocated": int(self.cuda.memory_allocated(self.device)),
            "torch_peak": int(self.cuda.max_memory_allocated(self.device)),
            "nvml_process": nvml["nvml_process"],
        }

    def settle(self) -> None:
        self.cuda.synchronize(self.device)
        self.cuda.empty_cache()

    def forget_peak(self) -> None:
        self.cuda.reset_peak_memory_stats(self.device)

    def peak(self, since: Figures) -> int | None:
        return int(self.cuda.max_memory_allocated(self.device)) - (since.get("torch_allocated") or 0)


def meter(device: str) -> Meter:
    """The meter of `cpu`, `cuda` or `cuda:N`. Raises ProbeError where there is no such device, or CUDA does not start on it."""
    if device == "cpu":
        return CpuMeter()
    if not re.fullmatch(r"cuda(:\d{1,4})?", device):
        raise ProbeError(f"{device[:60]!r} can not be measured: name cpu, cuda or cuda:N")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = int(device.partition(":")[2] or 0)
    if not found:
        why = "".join(f" ({str(one.message).splitlines()[0]})" for one in said[:1])
        raise ProbeError(
            f"no CUDA device for {device!r}: torch {torch.__version__} sees none{why}; validate on the CPU, or install a CUDA torch"
        )
    if index >= found:
        raise ProbeError(f"no CUDA device {index}: torch sees {found}, counted from 0")
    try:
        return CudaMeter(f"cuda:{index}")
    except RuntimeError as error:
        raise ProbeError(f"CUDA does not start on {device}: {str(error).splitlines()[0]}") from None


def grown(before: Figures, after: Figures) -> Figures:
    """The growth of each figure; None where either is."""
    return {name: None if now is None or (was := before.get(name)) is None else now - was for name, now in after.items()}
