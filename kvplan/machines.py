"""Machine types of clouds: the GPUs that one carries, and accelerators that are named and not modelled.

machines.tsv beside this file: pattern, device, number, RAM, parted by tabs; the first row that matches a whole name is its.

pattern  of a machine type in lower case
device   the id of the GPU that it carries
number   of GPUs; `\\1`: what the pattern's group counts; none: a family, or not told by the name
RAM      GiB, as the cloud states it; of a row whose pattern counts, of each GPU; none: not known
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from kvplan.errors import KvplanError
from kvplan.rows import rows

#: Machine types with a share of a GPU -> what they carry.
SHARES: tuple[tuple[str, str], ...] = (
    (r"(standard_)?nv(6|12|18)ads_a10_v5$", "a share of an A10"),
    (r"gr?6f($|\.)", "a share of an L4"),
    (r"g4-standard-(6|12|24)$", "a share of an RTX PRO 6000"),
    (r"(standard_)?nv\d+as_v4$", "a share of a Radeon Instinct MI25"),
)
#: Machine types with accelerators that are not modelled -> what they carry.
OTHERS: tuple[tuple[str, str], ...] = (
    (r"inf\d($|\.)", "AWS Inferentia"), (r"trn\d\w*($|\.)", "AWS Trainium"), (r"dl1($|\.)", "Intel Gaudi"),
    (r"dl2q($|\.)", "Qualcomm AI 100"), (r"g4ad($|\.)", "AMD Radeon Pro V520"), (r"g5g($|\.)", "NVIDIA T4G"), (r"p2($|\.)", "NVIDIA K80"),
    (r"g3s?($|\.)", "NVIDIA M60"), (r"vt1($|\.)", "AMD Alveo U30"), (r"ct\d\w*-|tpu\d?\w*-", "a Google TPU"),
)  # fmt: skip


#: Google's type with the accelerators that it carries behind it, as tools over GKE name a pool: `a3-ultragpu-8g-nvidia-h200-141gb-8`.
_ATTACHED = re.compile(r"(?<=\w)-nvidia-[a-z0-9-]{1,40}-\d{1,2}$")


class Machine(NamedTuple):
    """What a machine type carries: `number` GPUs (None: not told by its name) of one kind, and RAM in GiB, where it is known."""

    name: str
    device: str
    number: int | None
    ram_gib: int | None

    @property
    def note(self) -> str:
        """What a plan says of it: nothing of its RAM is counted unless it is given."""
        ram = f" and {self.ram_gib:,} GiB of RAM, which counts where --host-memory gives it" if self.ram_gib else ""
        several = f"{self.number} x {self.device}" if self.number else f"{self.device}, and its name does not tell how many (--n-devices)"
        return f"the machine {self.name} has {several}{ram}"


class _Row(NamedTuple):
    pattern: re.Pattern[str]
    device: str
    number: str
    ram: str


@cache
def every() -> tuple[_Row, ...]:
    """The rows of the table."""
    return tuple(_Row(re.compile(pattern), *(*rest, "", "")[:3]) for pattern, *rest in rows("machines.tsv"))


def find(name: str) -> Machine | None:
    """The machine that a type's name means (SageMaker's `ml.` is Amazon EC2's); None where it says nothing of a GPU.

    Raises KvplanError for one with a share of a GPU, or with accelerators that are not modelled.

    >>> find("p5.48xlarge")
    Machine(name='p5.48xlarge', device='h100-80gb', number=8, ram_gib=2048)
    """
    key = _ATTACHED.sub("", name.strip().lower().removeprefix("ml."))
    for row in every():
        if match := row.pattern.fullmatch(key):
            counted = row.number == r"\1"
            number = int(match[1]) if counted else int(row.number) if row.number else None
            ram = int(row.ram) * (number or 1 if counted else 1) if row.ram else None
            return Machine(name.strip(), row.device, number, ram)
    if why := refused(key):
        raise KvplanError(f"the machine {name.strip()[:60]} {why}")
    return None


def refused(name: str) -> str:
    """Why a machine type in lower case is not planned for; empty where it is, or says nothing of an accelerator."""
    for table, how in ((SHARES, "carries {}; give its memory, such as --device 8GiB"), (OTHERS, "carries {}, which is not modelled")):
        for pattern, what in table:
            if re.match(pattern, name):
                return how.format(what)
    return ""
