"""What a receipt of a GPU measured beside tensors, as constants of that device for the user's calibration file."""

from __future__ import annotations

from kvplan.constants import PROCESS, PROCESS_LINES, Constant, Fitted
from kvplan.validate.receipts import Receipt


def overheads(found: Receipt, device: str) -> list[Fitted]:
    """One constant for each overhead that the device told; empty for a CPU. `device`: its id in the catalogue."""
    machine = found.machine
    measured = machine.get("overheads") or {}
    where = f"{machine.get('name')}, driver {machine.get('driver', 'unknown')}, torch {machine.get('torch')}"
    source = f"measured by kvplan validate on {found.date}: {where}"
    known = [(name, measured.get(name)) for name in PROCESS_LINES]
    return [
        Fitted(PROCESS, device, Constant(name, "any", float(n), float(n), float(n), 1, source))
        for name, n in known
        if isinstance(n, int) and not isinstance(n, bool)
    ]
