"""What a Slurm job asks for: `#SBATCH --gres=gpu:h100:4`, `srun --gpus-per-node=a100:8` (slurm.schedmd.com/sbatch.html, srun.html)."""

from __future__ import annotations

import re

from kvplan.engines.common.words import Given, Place
from kvplan.manifests import requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.marked import Item

_LINE = re.compile(r"^\s*(?:#SBATCH\b|(?:\w+=\S+\s+)*(?:exec\s+)?(?:srun|salloc|sbatch)\b)(.*(?:\\\n.*)*)", re.MULTILINE)
_GRES = re.compile(r"(?:--gres(?:=|\s+)(?:\S*,)?gpu|--gpus-per-node(?:=|\s+)|--gpus(?:=|\s+)|-G\s+):?([\w.-]+:)?(\d{1,4})(?![\w:])")
_NODES = re.compile(r"(?:--nodes(?:=|\s+)|-N\s*)(\d{1,4})\b")


def asked(text: str) -> Hardware | None:
    """The GPUs of a job on one node; None where it asks for none, for several different things, or for several nodes."""
    found: dict[tuple[str, int], Place] = {}
    for line in _LINE.finditer(text):
        if any(int(match[1]) > 1 for match in _NODES.finditer(line[1])):
            return None
        for match in _GRES.finditer(line[1]):
            key = ((match[1] or "").rstrip(":"), int(match[2]))
            found.setdefault(key, Place(text.count("\n", 0, line.start(1) + match.start()) + 1))
    if len(found) != 1:
        return None
    ((kind, count), place), option = next(iter(found.items())), "gpus of the job"
    item = Item(f"{kind}:{count}", f"{kind}:{count}", place, place.line)
    number = Given(count, option, place)
    if not kind:
        return Hardware(None, number, "the job asks for GPUs and names no kind", place)
    return requested.hardware(item, option)._replace(n_devices=number)
