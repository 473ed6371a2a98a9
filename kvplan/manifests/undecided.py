"""What a plan without a device says all the same: what the weights and the asked requests take."""

from __future__ import annotations

from kvplan.planner.plan import Plan
from kvplan.units import show_bytes


def counted(plan: Plan) -> str:
    """Weights of the fullest rank, cache of all that was asked for, in bytes; empty where neither is counted."""
    weights = max((sum(one.bytes for one in each.entries if one.kind == "weights") for each in plan.ledgers), default=0)
    if not weights:
        return ""
    ranks = sum(len(each.ranks) for each in plan.ledgers)
    of_each = f" on each of {ranks} GPUs" if ranks > 1 else ""
    batch, context, cache = plan.question["batch"][0], plan.question["context"][0], plan.cache.total_bytes
    held = f", {show_bytes(cache)} for {batch} x {context:,} tokens{' in all' if of_each else ''}" if cache and context else ""
    return f"{show_bytes(weights)} of weights{of_each}{held}"
