"""What a log measured of a plan's lines: figures as printed, in bytes, and the ledger entries that predict them together."""

from __future__ import annotations

from kvplan import engines
from kvplan.engines.common.logs import CONTEXT, Measured, Target
from kvplan.planner.plan import Plan
from kvplan.startup_logs.read import LoggedStart
from kvplan.units import GIB

OTHERS = 2 * GIB  # beyond the interval: a desktop, not a server beside this one


def targets(start: LoggedStart, plan: Plan) -> list[Target]:
    """The lines that this log measures, of those that the plan predicts."""
    if not plan.ledgers:
        return []
    sizes = {name: int(plan.asked(name) or least) for name, least in (("tp", 1), ("pp", 1), ("n_devices", 1), ("reserve", 0))}
    found = engines.log(start.engine).measured(Measured(start.figures, plan.ledgers[0], sizes))
    return [t for t in found if t.n_bytes >= 0 and t.predicted(plan.ledgers[0].entries)]


def own_targets(start: LoggedStart, plan: Plan) -> list[Target]:
    """The same without figures that hold far more than a process' own: what others held on the device is nobody's constant."""
    found = []
    for target in targets(start, plan):
        most = sum(e.high for e in target.predicted(plan.ledgers[0].entries)) + OTHERS
        if target.n_bytes <= most or not counts_others(start, target):
            found.append(target)
    return found


def counts_others(start: LoggedStart, target: Target) -> bool:
    """Whether what other processes hold on the device is in this figure."""
    return target.line == CONTEXT or target.line in engines.log(start.engine).shared


def record_lines(start: LoggedStart, plan: Plan) -> dict[str, int]:
    """The same as lines of a record: an entry that a target holds beside the line it is named by is then zero."""
    entries = plan.ledgers[0].entries if plan.ledgers else ()
    lines: dict[str, int] = {}
    for target in own_targets(start, plan):
        others = {e.name: 0 for e in target.predicted(entries) if e.basis == "modelled" and not e.name.startswith("weights: ")}
        lines |= {**others, target.line: target.n_bytes}
    return lines
