"""A device with a number, as people write both in one: `8xH100`, `H100 x8`, a machine of a cloud that carries several."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from kvplan import machines
from kvplan.api.found import device
from kvplan.errors import KvplanError, SpecError

#: `8xH100`, `8 x H100`, with a multiplication sign too, and `H100 x8`.
_SEVERAL = re.compile(r"\s*(\d{1,4})\s*[xX\u00d7*]\s*(\S.*)")
_SEVERAL_BEHIND = re.compile(r"\s*(\S.*?)\s*[xX\u00d7*]\s*(\d{1,3})\s*")


def several(question: dict[str, Any]) -> dict[str, Any]:
    """`8xH100`, and a machine of a cloud that carries several, as a device and how many of it. Raises SpecError where n_devices says more
    than a machine has, or another number."""
    text, said = question.get("device"), question.get("n_devices")
    if not isinstance(text, str):
        return question
    name, n = _counted(text)
    machine = machines.find(name)
    if name == text and (machine is None or machine.number is None):
        return question
    has = n * (machine.number or 1 if machine else 1)
    if said is None and machine and 1 < _ranks(question) < has:
        return question  # some of its GPUs
    if said is not None and str(said).strip() != str(has):
        if machine and n == 1 and str(said).strip().isdecimal() and 0 < int(str(said).strip()[:9]) < has:
            return question  # some of its GPUs
        raise SpecError("device", [("", f"{text[:60]!r} says {has} devices, n_devices {str(said)[:20]}; keep one")])
    return question | {"device": name, "n_devices": has}


def _counted(text: str) -> tuple[str, int]:
    """A device's name and how many; a name with such letters of its own (`7900xtx`) is one."""
    before, behind = _SEVERAL.fullmatch(text), _SEVERAL_BEHIND.fullmatch(text)
    if before and _is_device(before[2]):
        return before[2].strip(), int(before[1])
    if not (before or behind) or _is_device(text):
        return text, 1
    if behind and _is_device(behind[1]):
        return behind[1], int(behind[2])
    return (before[2].strip(), int(before[1])) if before else (text, 1)


def _is_device(name: str) -> bool:
    try:
        return bool(device(name))
    except KvplanError:
        return False


def _ranks(question: Mapping[str, Any]) -> int:
    """How many devices the parallel sizes of a question take; 1 where they are not numbers, which is said where they are read."""
    sizes = [str(question.get(name) or 1).strip() for name in ("tp", "pp", "dp")]
    return math.prod(int(size) for size in sizes) if all(re.fullmatch(r"\d{1,6}", size) for size in sizes) else 1
