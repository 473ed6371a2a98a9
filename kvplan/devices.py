"""A device: the facts of one GPU, or just an amount of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple

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


#: What NVML counts and CUDA does not: the median of 64 of the catalogue's devices of which both totals are known (81 to 1,103 MiB).
DRIVER_MIB = 463


class Device(Record):
    """One GPU as sold. `nvml_total_mib` is what nvidia-smi shows, `cuda_total_mib` what the CUDA runtime hands to torch.

    `gpu_mib`, where memory is the system's too: what the system gives the GPU unless it is set; `gpu_low_mib`: what other releases give.

    same_name    other sizes of memory that a card of this name is sold with, as `--device` takes them: ids, or sizes that no file has
    taken        what was typed, and what else it could mean; of a device that was found, never in a file
    driver       the driver that was found with it, never in a file

    link  how several are joined in a machine: NVSwitch that reduces in the network (nvls) or does not, links between modules
          (mesh), pairs of cards (bridge), the bus alone; none: one in a machine
    clusters  one in a machine, and sold with a network that joins machines to run one model
    """

    id: Text
    name: Text
    vendor: Literal["nvidia", "amd", "intel", "apple", "other"]
    aliases: tuple[Text, ...] = ()
    product_names: tuple[Text, ...] = ()
    kubernetes_labels: tuple[Text, ...] = ()
    same_name: tuple[Text, ...] = ()
    memory_gb: Annotated[int, Between(1, 1 << 20)] | None
    nvml_total_mib: Mib | None = None
    cuda_total_mib: Mib | None = None
    unified: bool = False
    gpu_mib: Mib | None = None
    gpu_low_mib: Mib | None = None
    link: Literal["nvls", "nvswitch", "mesh", "bridge", "pcie", "none"] | None = None
    clusters: bool = False
    bandwidth_gb_per_s: Rate | None = None
    dense_tflops: dict[Literal["fp16", "bf16", "fp8", "int8", "fp4"], Rate] = {}  # noqa: RUF012 - a Record is frozen
    compute_capability: Text | None = None
    multiprocessors: Annotated[int, Between(1, 10_000)] | None = None
    sources: tuple[Fact, ...] = ()
    notes: tuple[Text, ...] = ()
    size_bytes: int | None = None  # of a device that is only an amount of memory
    taken: Text | None = None
    driver: Text | None = None

    def as_typed(self, name: str) -> Device:
        """This device with a note of what else is sold by `name`, where that names no size of memory."""
        if not self.same_name or re.search(r"\d ?gi?b?\b", name.lower()):
            return self
        note = f"{name} is taken as the {self.memory_gb} GB one, {self.id}; it is sold too as {', '.join(self.same_name)}"
        return self.changed(taken=note)

    @property
    def article(self) -> str:
        """As its name is spoken: an NVIDIA, an AMD, an Intel, an Apple; a 24 GiB."""
        return "a" if self.vendor == "other" else "an"

    @property
    def alone(self) -> bool:
        """One in its machine: of Apple's chips, laptops, boards that share the system's memory; not a slice of a GPU."""
        return self.link == "none" and self.memory_gb is not None

    @property
    def is_module(self) -> bool:
        """Sold on boards that join them by links of their own, not as cards."""
        return self.link in ("nvls", "nvswitch", "mesh")

    @property
    def shows_desktops(self) -> bool:
        """Sold for desktops and laptops, or of a size and no name."""
        return self.vendor == "other" or any(word in self.name for word in ("GeForce", "Radeon RX", "TITAN", "Intel Arc"))

    @property
    def is_what_was_free(self) -> bool:
        """A size that no card is sold with is what a program found free of one: what a desktop holds is not in it."""
        n_bytes = self.size_bytes or 0
        return self.vendor == "other" and bool(n_bytes % (GIB // 2) and n_bytes % 10**9)

    @property
    def memory_bytes(self) -> int:
        """What one process can hope to use: the system's share, else CUDA's total, else NVML's less the driver's, else as sold."""
        if self.size_bytes:
            return self.size_bytes
        mib = self.gpu_mib or self.cuda_total_mib or (self.nvml_total_mib and self.nvml_total_mib - DRIVER_MIB)
        return mib * MIB if mib else (self.memory_gb or 0) * GIB

    def seen_with(self, n_bytes: int) -> Device:
        """The same with as much memory as its user saw: of WSL, a system that was told to give a GPU more, an altered card."""
        return self.changed(id=f"{self.id}@{size_text(n_bytes)}", size_bytes=n_bytes, gpu_mib=None, gpu_low_mib=None)

    @property
    def card(self) -> str:
        """Its id, whatever memory it was seen with."""
        return self.id.partition("@")[0]

    @property
    def uncertain_bytes(self) -> int:
        """What some systems give a GPU less than `gpu_mib`."""
        return (self.gpu_mib - self.gpu_low_mib) * MIB if self.gpu_mib and self.gpu_low_mib else 0

    @property
    def settable_bytes(self) -> int:
        """What a system can be told to give a GPU beyond `gpu_mib`, of memory that is the system's too."""
        return max((self.memory_gb or 0) * GIB - self.gpu_mib * MIB, 0) if self.unified and self.gpu_mib else 0

    @property
    def capability(self) -> int | None:
        """NVIDIA's compute capability as one number (8.9 -> 89); None where it is not known or is another maker's name."""
        major, _, minor = (self.compute_capability or "").partition(".")
        return int(major) * 10 + int(minor or 0) if major.isdecimal() and (minor or "0").isdecimal() else None

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


#: What tools print around a device's name: lspci, `nvidia-smi -L`, the node labels of GPUs that are time-sliced.
_AROUND = re.compile(
    r".*\[([^\]/]+)\](?: \(rev [0-9a-f]+\))?|gpu \d+: (.+?) \(uuid: .*\)|(mig \dg\.\d+gb) +device +\d+: .*|(.+)-shared", re.IGNORECASE
)
#: NVIDIA's profiles of virtual GPUs (Virtual GPU Software User Guide): the card, GB of memory, the kind.
_VGPU = re.compile(r"(?:nvidia |grid )*[a-z0-9][a-z0-9 ]*-(\d{1,3})[abcq]", re.IGNORECASE)


LONGEST = 300  # characters of a line that a tool prints


def bare(name: str) -> str:
    """A device's name without what a tool printed around it.

    >>> bare("01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)")
    'GeForce RTX 4090'
    """
    found = _AROUND.fullmatch(name.strip()) if len(name) <= LONGEST else None
    return next(part for part in found.groups() if part) if found else name.strip()


def share_of(name: str) -> int | None:
    """GB of memory of a virtual GPU's profile, such as `NVIDIA A40-8Q`; None of any other name."""
    found = _VGPU.fullmatch(name)
    return int(found[1]) if found else None


def size_text(n_bytes: int) -> str:
    """Bytes to the digit, in the largest unit that divides them, or that few decimals of GiB are: 24GiB, 15990MiB, 15.99GiB."""
    for unit, size in (("GiB", GIB), ("GB", 10**9), ("MiB", MIB)):
        if n_bytes % size == 0:
            return f"{n_bytes // size}{unit}"
    few = (f"{n_bytes / GIB:.{n}f}" for n in (1, 2, 3))
    return next((f"{text}GiB" for text in few if int(Fraction(text) * GIB) == n_bytes), f"{n_bytes}B")


#: What NVML shows of NVIDIA's cards in MiB (device_specs, nvml_total_mib), where that is no whole number of half GiBs: no program gets it.
SHOWN_MIB = frozenset({
    8151, 8188, 12227, 12282, 15356, 16303, 16311, 16376, 16380, 20475, 23028, 23034, 24467, 24564, 24570, 32607, 32623, 32760, 46068,
    48935, 49140, 73415, 81559, 95830, 97871, 97887, 143771, 146831, 183359, 189471, 275040, 284208,
})  # fmt: skip


def sized(n_bytes: int) -> Device:
    """A device that is only an amount of memory; what NVML shows of a card is less to CUDA."""
    shown = n_bytes // MIB if n_bytes % MIB == 0 and n_bytes // MIB in SHOWN_MIB else None
    return Device(
        id=size_text(n_bytes),
        name=show_bytes(n_bytes),
        vendor="other",
        memory_gb=None,
        nvml_total_mib=shown,
        size_bytes=None if shown else n_bytes,
    )


class Profile(NamedTuple):
    """A MIG profile: eighths of the memory, sevenths of the multiprocessors; GiB as `nvidia-smi mig -lgip` lists it, where published."""

    eighths: int
    sevenths: int
    gib: float | None = None


def _profiles(*names: str, gib: Sequence[float | None] = (None,) * 6) -> dict[str, Profile]:
    """The six profiles of a GPU of eight slices of memory, in the order of NVIDIA's tables."""
    parts = ((1, 1), (2, 1), (2, 2), (4, 3), (4, 4), (8, 7))
    return {name: Profile(*part, size) for name, part, size in zip(names, parts, gib, strict=True)}


_80GB = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
_141GB = ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")
_H100_GIB = (9.62, 19.5, 19.5, 39.25, 39.25, None)
#: Device -> its MIG profiles. Fractions: NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles; GiB: `nvidia-smi mig -lgip` of an
#: A100 40GB in that guide, of an H100 in public listings.
MIG: dict[str, dict[str, Profile]] = {
    "a30": {"1g.6gb": Profile(2, 2), "2g.12gb": Profile(4, 4), "4g.24gb": Profile(8, 7)},
    "a100-40gb": _profiles("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb", gib=(4.75, 9.75, 9.75, 19.62, 19.62, None)),
    "a100-80gb": _profiles(*_80GB),
    "a100-pcie-80gb": _profiles(*_80GB),
    "h100-80gb": _profiles(*_80GB, gib=_H100_GIB),
    "h100-pcie-80gb": _profiles(*_80GB, gib=_H100_GIB),
    "h100-nvl-94gb": _profiles("1g.12gb", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"),
    "gh200-96gb": _profiles("1g.12gb", "1g.24gb", "2g.24gb", "3g.48gb", "4g.48gb", "7g.96gb"),
    "h200": _profiles(*_141GB),
    "h200-nvl": _profiles(*_141GB),
    "h20-141gb": _profiles(*_141GB),
    "b200": _profiles("1g.23gb", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"),
    "rtx-pro-6000-blackwell-server": {"1g.24gb": Profile(2, 2), "2g.48gb": Profile(4, 4), "4g.96gb": Profile(8, 7)},
}


def slice_of(parent: Device, name: str) -> Device | None:
    """One MIG slice as a device of its own: its memory, bandwidth and rates are its share; None where the GPU has no such profile.

    Without a published size a slice has its share of what CUDA reports of the whole, and a driver may keep some 0.3 GiB of that.
    """
    profile = MIG.get(parent.id, {}).get(name)
    if profile is None:
        return None
    size = int(profile.gib * GIB) if profile.gib else parent.memory_bytes * profile.eighths // 8
    kept = {field: getattr(parent, field) for field in ("vendor", "compute_capability", "sources")}
    bandwidth = parent.bandwidth_gb_per_s
    return Device(
        id=f"{parent.id}-{name}",
        name=f"{parent.name} MIG {name}",
        memory_gb=None,
        size_bytes=size,
        link="none",
        bandwidth_gb_per_s=bandwidth and bandwidth * profile.eighths / 8,
        dense_tflops={kind: rate * profile.sevenths / 7 for kind, rate in parent.dense_tflops.items()},
        notes=() if profile.gib else ("its size is its share of the whole: no listing of it is published",),
        **kept,
    )


def smallest_slice(parents: Sequence[Device], name: str) -> Device | None:
    """The slice of that name that holds least, of any GPU that has one: what its name alone says. None where none has."""
    found = [one for parent in parents if (one := slice_of(parent, name))]
    if not found:
        return None
    least = min(found, key=lambda one: one.memory_bytes)
    same = len({one.compute_capability for one in found}) == 1
    return least.changed(id=name, name=f"MIG {name}", compute_capability=least.compute_capability if same else None)


def parse_device(data: Any, source: str) -> Device:
    """A checked device from parsed YAML. Raises SpecError with every fault and its path."""
    try:
        return Device.check(data)
    except ValidationError as error:
        faults = [(".".join(str(p) for p in e["loc"]), e["msg"]) for e in error.errors(include_url=False)]
        raise SpecError(source, faults) from None
