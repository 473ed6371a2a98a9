"""A device: the facts of one GPU, or just an amount of memory."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic_core import ValidationError

from kvplan.errors import SpecError
from kvplan.fields import Between, Record
from kvplan.units import GIB, MIB, show_bytes

Text = Annotated[str, Between(1, 1000)]
Mib = Annotated[int, Between(1, 1 << 30)]
Rate = Annotated[float, Between(1e-3, 1e7)]


class Fact(Record):
    """Where one or several of a device's numbers come from."""

    fact: Text
    source: Text


class Device(Record):
    """One GPU as sold. `nvml_total_mib` is what nvidia-smi shows, `cuda_total_mib` what the CUDA runtime hands to torch.

    link  how several are joined in a machine: NVSwitch that reduces in the network (nvls) or does not, links between modules
          (mesh), pairs of cards (bridge), the bus alone; none: one in a machine
    """

    id: Text
    name: Text
    vendor: Literal["nvidia", "amd", "intel", "apple", "other"]
    aliases: tuple[Text, ...] = ()
    product_names: tuple[Text, ...] = ()
    kubernetes_labels: tuple[Text, ...] = ()
    memory_gb: Annotated[int, Between(1, 1 << 20)] | None
    nvml_total_mib: Mib | None = None
    cuda_total_mib: Mib | None = None
    unified: bool = False
    link: Literal["nvls", "nvswitch", "mesh", "bridge", "pcie", "none"] | None = None
    bandwidth_gb_per_s: Rate | None = None
    dense_tflops: dict[Literal["fp16", "bf16", "fp8", "int8", "fp4"], Rate] = {}  # noqa: RUF012 - a Record is frozen
    compute_capability: Text | None = None
    sources: tuple[Fact, ...] = ()
    notes: tuple[Text, ...] = ()
    size_bytes: int | None = None  # of a device that is only an amount of memory

    @property
    def article(self) -> str:
        """As its name is spoken: an NVIDIA, an AMD, an Intel, an Apple; a 24 GiB."""
        return "a" if self.vendor == "other" else "an"

    @property
    def is_module(self) -> bool:
        """Sold on boards that join them by links of their own, not as cards."""
        return self.link in ("nvls", "nvswitch", "mesh")

    @property
    def memory_bytes(self) -> int:
        """What one process can hope to use: CUDA's total, else NVML's, else the nominal size in GiB as sold."""
        if self.size_bytes:
            return self.size_bytes
        mib = self.cuda_total_mib or self.nvml_total_mib
        return mib * MIB if mib else (self.memory_gb or 0) * GIB

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `devices list --format json` prints it (planner/records.py, DeviceRecord)."""
        rates = self.dense_tflops
        return {
            "id": self.id,
            "name": self.name,
            "memory_gb": self.memory_gb,
            "nvml_total_mib": self.nvml_total_mib,
            "cuda_total_mib": self.cuda_total_mib,
            "bandwidth_gb_per_s": self.bandwidth_gb_per_s,
            "bf16_tflops": rates.get("bf16", rates.get("fp16")),
        }


def sized(n_bytes: int) -> Device:
    """A device that is only an amount of memory."""
    whole = n_bytes % GIB == 0
    return Device(
        id=f"{n_bytes // GIB}GiB" if whole else f"{n_bytes}B",
        name=show_bytes(n_bytes),
        vendor="other",
        memory_gb=None,
        size_bytes=n_bytes,
    )


def parse_device(data: Any, source: str) -> Device:
    """A checked device from parsed YAML. Raises SpecError with every fault and its path."""
    try:
        return Device.check(data)
    except ValidationError as error:
        faults = [(".".join(str(p) for p in e["loc"]), e["msg"]) for e in error.errors(include_url=False)]
        raise SpecError(source, faults) from None
