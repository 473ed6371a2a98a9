"""NVIDIA's driver: before branch 550, the one of CUDA 12.4, the same CUDA graphs hold several times as much."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import Span
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Facts, Outcome
from kvplan.engines.common.releases import release
from kvplan.units import show_bytes

#: The line of graphs.
LINE = "CUDA graphs"
#: The first branch of the driver that holds less.
NEWER = 550
#: What an older one holds times that. vllm#5517, one machine and nothing else changed: 3.81 GiB on an A10G and 3.79 on an L4 with the
#: drivers of CUDA 12.2 and 12.3, 1.14 on both with 12.4's. Logs on branch 535 have 2.9 to 3.4 times what others of their models have
#: (H100 of MareNostrum 5, A100 of a DGX Station), and an A100 whose driver is not said 4.3 times.
TIMES, TIMES_LOW, TIMES_HIGH = 3.34, 2.7, 4.3
#: Compute capabilities from here on are no older branch's (Blackwell's first is 570).
BLACKWELL = 100


def branch(d: Deployment) -> int | None:
    """The driver's branch that the question says, or that was found; None where nothing does. Raises SpecError."""
    said = Options(d).driver()
    found = (d.device.driver or "").partition(".")[0] if d.device else ""
    return said if said is not None else int(found) if found.isdecimal() else None


def held(graphs: Span, d: Deployment) -> Span:
    """What graphs that hold so many bytes elsewhere hold on the driver that the question names."""
    said = branch(d)
    if said is None or said >= NEWER:
        return graphs
    point, low, high = graphs
    return Span(int(TIMES * point), int(TIMES_LOW * low), int(max(TIMES_HIGH * point, TIMES * high)))


def older(d: Deployment, facts: Facts, outcome: Outcome) -> tuple[str, ...]:
    """Why a start is likely at most: an older driver, of which the question says nothing, would leave its graphs no room."""
    device, newer = d.device, facts.driver_from
    if device is None or newer is None or device.vendor not in ("nvidia", "other") or (device.capability or 0) >= BLACKWELL:
        return ()
    if branch(d) is not None or release(d.engine_version or newer) >= release(newer):
        return ()
    for ledger in outcome.ledgers:
        graphs = sum(entry.bytes for entry in ledger.outside if entry.name == LINE)
        spare = (ledger.device_bytes or 0) - max(ledger.peak(phase).bytes for phase in ("capture", "warm up"))
        more = int((TIMES - 1) * graphs)
        if 0 <= spare < more:
            said = f"on an NVIDIA driver before {NEWER} its CUDA graphs take {show_bytes(more)} more, and {show_bytes(spare)} are free"
            return (f"{said}; say which it is with --engine-option driver={NEWER}",)
    return ()
