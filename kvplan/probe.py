"""What NVML says about this machine's GPUs, through the module pynvml. Every refusal of NVML's is a ProbeError that says what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kvplan.errors import ProbeError


class Gpu(NamedTuple):
    """One GPU, or one MIG instance of one. Bytes as NVML counts them; `used_bytes` is without what the driver reserves for itself.

    number              NVML's (PCI order); of the parent where this is a MIG instance
    reserved_bytes      held back by the driver and firmware; 0 where the driver can not tell it apart
    compute_capability  such as 9.0; None where NVML does not say
    mig                 a MIG instance
    """

    number: int
    name: str
    uuid: str
    total_bytes: int
    free_bytes: int
    used_bytes: int
    reserved_bytes: int
    driver: str
    compute_capability: str | None
    mig: bool


#: NVML's return codes (nvml.h) that mean something a person can act on.
_HINTS = {
    4: "no permission: run as a user who may open /dev/nvidiactl, or give the container the GPU",
    9: "the driver is not loaded: check `nvidia-smi`, or that the container was started with its GPUs",
    12: "no NVIDIA driver is installed here (NVML's library was not found)",
    15: "a GPU is lost: it has fallen off the bus; reboot or reset it",
    18: "the driver and NVML's library have different versions: reboot after a driver update",
    3: "this GPU does not report it (unified memory, or a virtual GPU): name the device and its size instead",
}


@contextmanager
def _nvml() -> Iterator[Any]:
    """The NVML module between its init and shutdown; its errors as ProbeError."""
    try:
        import pynvml
    except ImportError:
        raise ProbeError("the module pynvml is missing: install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        hint = _HINTS.get(getattr(error, "value", 0)) or str(error)
        raise ProbeError(f"NVML: {hint}") from None


def detect(index: int | None = None) -> Gpu:
    """One GPU: NVML's number `index`, else the first that CUDA_VISIBLE_DEVICES leaves, else the first. A MIG GPU's first instance.

    Raises ProbeError where there is none, or where NVML refuses.
    """
    if index is not None:
        found = [gpu for gpu in gpus() if gpu.number == index]
        if not found:
            raise ProbeError(f"no GPU {index}: this machine has {len({gpu.number for gpu in gpus()})}")
        return found[0]
    return visible()[0]


def find(uuid: str) -> Gpu:
    """The GPU or MIG instance of that UUID, with or without its GPU- or MIG- prefix. Raises ProbeError."""
    for gpu in gpus():
        if gpu.uuid == uuid or gpu.uuid.partition("-")[2] == uuid:
            return gpu
    raise ProbeError("NVML does not list the GPU that CUDA uses")


def gpus() -> tuple[Gpu, ...]:
    """Every GPU, in NVML's order; one in MIG mode as its instances. Raises ProbeError where there is none or NVML refuses."""
    with _nvml() as nvml:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        found = [gpu for i in range(nvml.nvmlDeviceGetCount()) for gpu in _one(nvml, i, driver)]
    if not found:
        raise ProbeError("NVML works but sees no GPU")
    return tuple(found)


def visible() -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves to a process, in its order; numbers mean NVML's order (CUDA_DEVICE_ORDER=PCI_BUS_ID).

    As CUDA does, what comes after the first entry that means nothing is ignored. Raises ProbeError where none is left.
    """
    every, asked = gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return every
    left: list[Gpu] = []
    for item in (part.strip() for part in asked.split(",")):
        match = [gpu for gpu in every if (str(gpu.number) == item if item.isdecimal() else bool(item) and gpu.uuid.startswith(item))]
        if not match:
            break
        left.append(match[0])
    if not left:
        raise ProbeError(f"CUDA_VISIBLE_DEVICES={asked!r} hides every GPU of this machine")
    return tuple(left)


def used_by(pid: int, uuid: str | None = None) -> int | None:
    """Bytes that NVML books on a process, on one GPU or all. None where it will not say (containers, MIG, no permission)."""
    try:
        with _nvml() as nvml:
            handles = list(_handles(nvml))
            if uuid:
                handles = [h for h in handles if _text(nvml.nvmlDeviceGetUUID(h)).partition("-")[2] == uuid.removeprefix("GPU-")]
            booked = [p.usedGpuMemory for h in handles for p in nvml.nvmlDeviceGetComputeRunningProcesses(h) if p.pid == pid]
    except ProbeError:
        return None
    known = [n for n in booked if n is not None]
    return sum(known) if known else None


def _handles(nvml: Any) -> Iterator[Any]:
    for i in range(nvml.nvmlDeviceGetCount()):
        yield nvml.nvmlDeviceGetHandleByIndex(i)


def _one(nvml: Any, index: int, driver: str) -> Iterator[Gpu]:
    parent = nvml.nvmlDeviceGetHandleByIndex(index)
    capability = _optional(nvml, lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(parent)))
    mode = _optional(nvml, lambda: nvml.nvmlDeviceGetMigMode(parent)[0])
    if mode != getattr(nvml, "NVML_DEVICE_MIG_ENABLE", 1):
        yield _gpu(nvml, parent, index, driver, capability, mig=False)
        return
    slots = range(nvml.nvmlDeviceGetMaxMigDeviceCount(parent))
    handles = [_optional(nvml, lambda i=i: nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, i)) for i in slots]
    instances = [handle for handle in handles if handle is not None]
    if not instances:
        raise ProbeError(f"GPU {index} is in MIG mode and has no instance that this process may see")
    for instance in instances:
        yield _gpu(nvml, instance, index, driver, capability, mig=True)


def _gpu(nvml: Any, handle: Any, index: int, driver: str, capability: str | None, *, mig: bool) -> Gpu:
    memory = _optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    if memory is None:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(
        number=index,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        total_bytes=int(memory.total),
        free_bytes=int(memory.free),
        used_bytes=int(memory.used),
        reserved_bytes=int(getattr(memory, "reserved", 0)),
        driver=driver,
        compute_capability=capability,
        mig=mig,
    )


def _optional(nvml: Any, ask: Any) -> Any:
    """The answer, or None where this driver or GPU has none."""
    try:
        return ask()
    except (nvml.NVMLError, TypeError, AttributeError):
        return None


def _text(value: Any) -> str:
    """NVML's older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
