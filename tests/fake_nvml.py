"""A stand-in for the module pynvml, driven by a scenario: which GPUs there are, what they hold, and what NVML refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

MIB = 1 << 20


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"code {value}")
        self.value = value


def gpu(name: str = "NVIDIA H100 80GB HBM3", **fields: Any) -> dict[str, Any]:
    """A GPU of a scenario. `mig`: its instances, which makes it one in MIG mode; `fails`: function name -> code it answers with."""
    plain = {"name": name, "uuid": "GPU-1111-2222", "total": 81559 * MIB, "used": 1000 * MIB, "reserved": 600 * MIB, "capability": (9, 0)}
    return {**plain, "mig": None, "processes": {}, "fails": {}, **fields}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


class FakeNvml:
    """The functions that kvplan calls, under their own names. `fails`: function name -> NVML return code."""

    NVMLError = NVMLError
    NVML_DEVICE_MIG_ENABLE = 1
    nvmlMemory_v2 = 33554472  # noqa: N815

    def __init__(self, *gpus: dict[str, Any], driver: Any = "580.65.06", fails: dict[str, int] | None = None, old: bool = False) -> None:
        self.gpus, self.driver, self.fails, self.old = list(gpus), driver, fails or {}, old
        self.open = 0

    def _may(self, name: str, handle: Any = None) -> None:
        code = self.fails.get(name) or (handle or {}).get("fails", {}).get(name)
        if code:
            raise NVMLError(code)

    def nvmlInit(self) -> None:  # noqa: N802
        self._may("nvmlInit")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> Any:  # noqa: N802
        return self.driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._may("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, i: int) -> Any:  # noqa: N802
        self._may("nvmlDeviceGetHandleByIndex", self.gpus[i])
        return self.gpus[i]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any:  # noqa: N802
        for card in self.gpus:
            for handle in (card, *(card["mig"] or ())):
                if _text(handle["uuid"]) == uuid:
                    self._may("nvmlDeviceGetHandleByUUID", handle)
                    return handle
        raise NVMLError(6)

    def nvmlDeviceIsMigDeviceHandle(self, handle: Any) -> bool:  # noqa: N802
        return not any(handle is card for card in self.gpus)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: Any) -> Any:  # noqa: N802
        return next(card for card in self.gpus if any(handle is one for one in card["mig"] or ()))

    def nvmlDeviceGetIndex(self, handle: Any) -> int:  # noqa: N802
        return next(i for i, card in enumerate(self.gpus) if card is handle)

    def nvmlDeviceGetName(self, handle: Any) -> Any:  # noqa: N802
        return handle["name"]

    def nvmlDeviceGetUUID(self, handle: Any) -> Any:  # noqa: N802
        return handle["uuid"]

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> Any:  # noqa: N802
        self._may("nvmlDeviceGetCudaComputeCapability", handle)
        return handle["capability"]

    def nvmlDeviceGetMigMode(self, handle: Any) -> Any:  # noqa: N802
        if handle["mig"] is None:
            raise NVMLError(3)
        return (1, 1)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, i: int) -> Any:  # noqa: N802
        if i >= len(handle["mig"]):
            raise NVMLError(6)
        return handle["mig"][i]

    def nvmlDeviceGetMemoryInfo(self, handle: Any, version: int | None = None) -> Any:  # noqa: N802
        self._may("nvmlDeviceGetMemoryInfo", handle)
        total, used, reserved = handle["total"], handle["used"], handle["reserved"]
        if version is None:
            return SimpleNamespace(total=total, used=used + reserved, free=total - used - reserved)
        if self.old:
            raise NVMLError(13)
        return SimpleNamespace(total=total, used=used, reserved=reserved, free=total - used - reserved)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> Any:  # noqa: N802
        self._may("nvmlDeviceGetComputeRunningProcesses", handle)
        return [SimpleNamespace(pid=pid, usedGpuMemory=n) for pid, n in handle["processes"].items()]
