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

_NOT_THERE = (2, 3, 6)  # invalid argument, not supported, not found: what a UUID of nothing is answered with


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
        raise _refusal(error) from None


def _refusal(error: Exception) -> ProbeError:
    return ProbeError(f"NVML: {_HINTS.get(getattr(error, 'value', 0)) or error}")


def detect() -> Gpu:
    """The first GPU that CUDA_VISIBLE_DEVICES leaves, else the first; a MIG GPU's first instance. Raises ProbeError where there is none."""
    return visible()[0]


def find(uuid: str) -> Gpu:
    """The GPU or MIG instance of that UUID, with or without its GPU- or MIG- prefix. Raises ProbeError.

    CUDA may name the parent of the one MIG instance it uses: then that instance is meant.
    """
    with _nvml() as nvml:
        handle, mig = _handle(nvml, uuid)
        parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if mig else handle
        index = int(nvml.nvmlDeviceGetIndex(parent))
        return _gpu(nvml, handle, index, _text(nvml.nvmlSystemGetDriverVersion()), _capability(nvml, parent), mig=mig)


def memory_of(uuid: str, pid: int) -> tuple[int, int | None]:
    """Bytes in use on the GPU or MIG instance of that UUID, and those booked on a process: None where NVML does not say which.

    It does not in most containers (process ids are the host's), on WSL and Windows, and without permission. Raises ProbeError.
    """
    with _nvml() as nvml:
        handle, _ = _handle(nvml, uuid)
        return int(_memory(nvml, handle).used), _booked(nvml, [handle], pid)


@contextmanager
def session() -> Iterator[None]:
    """Keeps NVML started between questions, which are then answered in microseconds. Raises ProbeError."""
    with _nvml():
        yield


def gpus() -> tuple[Gpu, ...]:
    """Every GPU that can be read, in NVML's order; one in MIG mode as its instances. Raises ProbeError where there is none.

    A GPU that NVML refuses to describe hides no other one; where all are refused, the first refusal is raised.
    """
    found: list[Gpu] = []
    refused: ProbeError | None = None
    with _nvml() as nvml:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        for i in range(nvml.nvmlDeviceGetCount()):
            try:
                found += _one(nvml, i, driver)
            except nvml.NVMLError as error:
                refused = refused or _refusal(error)
            except ProbeError as error:
                refused = refused or error
    if not found:
        raise refused or ProbeError("NVML works but sees no GPU")
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


def used_by(pid: int) -> int | None:
    """Bytes that NVML books on a process on all GPUs; None where it will not say, and for a process it does not know."""
    try:
        with _nvml() as nvml:
            return _booked(nvml, [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())], pid)
    except ProbeError:
        return None


def _booked(nvml: Any, handles: list[Any], pid: int) -> int | None:
    every = [_optional(nvml, lambda h=h: nvml.nvmlDeviceGetComputeRunningProcesses(h)) or () for h in handles]
    known = [p.usedGpuMemory for some in every for p in some if p.pid == pid and p.usedGpuMemory is not None]
    return sum(known) if known else None


def _handle(nvml: Any, uuid: str) -> tuple[Any, bool]:
    """NVML's handle of a UUID, and whether it is a MIG instance's."""
    names = (uuid,) if uuid.startswith(("GPU-", "MIG-")) else (f"GPU-{uuid}", f"MIG-{uuid}")
    handle = next((h for name in names if (h := _by_uuid(nvml, name)) is not None), None)
    if handle is None:
        raise ProbeError("NVML does not list the GPU that CUDA uses")
    if _optional(nvml, lambda: nvml.nvmlDeviceIsMigDeviceHandle(handle)):
        return handle, True
    if not _in_mig_mode(nvml, handle):
        return handle, False
    instances = _instances(nvml, handle)
    asked = (os.environ.get("CUDA_VISIBLE_DEVICES") or "").split(",")[0].strip()
    named = [h for h in instances if asked.startswith("MIG-") and _text(nvml.nvmlDeviceGetUUID(h)).startswith(asked)]
    if len(named or instances) != 1:
        raise ProbeError(f"a GPU in MIG mode with {len(instances)} instances: name one in CUDA_VISIBLE_DEVICES")
    return (named or instances)[0], True


def _by_uuid(nvml: Any, uuid: str) -> Any:
    try:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError as error:
        if getattr(error, "value", 0) in _NOT_THERE:
            return None
        raise


def _one(nvml: Any, index: int, driver: str) -> Iterator[Gpu]:
    parent = nvml.nvmlDeviceGetHandleByIndex(index)
    capability = _capability(nvml, parent)
    if not _in_mig_mode(nvml, parent):
        yield _gpu(nvml, parent, index, driver, capability, mig=False)
        return
    instances = _instances(nvml, parent)
    if not instances:
        raise ProbeError(f"GPU {index} is in MIG mode and has no instance that this process may see")
    for instance in instances:
        yield _gpu(nvml, instance, index, driver, capability, mig=True)


def _in_mig_mode(nvml: Any, parent: Any) -> bool:
    mode = _optional(nvml, lambda: nvml.nvmlDeviceGetMigMode(parent)[0])
    return bool(mode == getattr(nvml, "NVML_DEVICE_MIG_ENABLE", 1))


def _instances(nvml: Any, parent: Any) -> list[Any]:
    slots = range(_optional(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(parent)) or 0)
    handles = [_optional(nvml, lambda i=i: nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, i)) for i in slots]
    return [handle for handle in handles if handle is not None]


def _capability(nvml: Any, handle: Any) -> str | None:
    found: str | None = _optional(nvml, lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle)))
    return found


def _memory(nvml: Any, handle: Any) -> Any:
    """Total, free and used; older drivers do not tell the reserved part apart."""
    memory = _optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
    return nvml.nvmlDeviceGetMemoryInfo(handle) if memory is None else memory


def _gpu(nvml: Any, handle: Any, index: int, driver: str, capability: str | None, *, mig: bool) -> Gpu:
    memory = _memory(nvml, handle)
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
