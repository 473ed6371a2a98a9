"""The largest context and batch that a question could be asked with, every other setting unchanged.

An engine's arithmetic names them for the settings of this very question; defaults that follow the context or the batch (a length limit,
slots, a pool) move them. So they are asked again, and moved until they fit and one more does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvplan.deployment import Deployment
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.units import LARGEST

MOST = min(LARGEST, 1 << 40)


def with_limits(d: Deployment, plan: Plan) -> Plan:
    """The plan with limits that hold when they are asked; None where nothing limits them."""
    capacity = plan.capacity
    if capacity is None or plan.fits is None:
        return plan

    def fits(**sets: Any) -> bool:
        try:
            return evaluate(replace(d, **sets), limits=False).fits is True
        except KvplanError:
            return False

    found = capacity._replace(
        max_context_at_batch=largest(lambda n: fits(context=n), capacity.max_context_at_batch),
        max_batch=largest(lambda n: fits(batch=n), capacity.max_batch),
    )
    return plan._replace(outcome=plan.outcome._replace(capacity=found))


def largest(holds: Callable[[int], bool], guess: int | None, most: int = MOST) -> int | None:
    """The n at or near `guess` (None: no limit) that holds where n + 1 does not; 0 where not even 1 does, None where `most` holds."""
    n = most if guess is None else min(max(guess, 0), most)
    low, high, step = 0, most + 1, 1
    if n == 0 or holds(n):
        low = n
        while low < most:
            tried = min(low + step, most)
            if not holds(tried):
                high = tried
                break
            low, step = tried, 2 * step
    else:
        high = n
        while high > 1:
            tried = max(high - step, 1)
            if holds(tried):
                low = tried
                break
            high, step = tried, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return None if low >= most else low
