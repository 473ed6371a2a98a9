"""The largest context and batch that a question could be asked with, every other setting unchanged.

An engine's arithmetic names them for the settings of this very question; defaults that follow the context or the batch (a length limit,
slots, a pool) move them. So they are asked again, and moved until they fit and one more does not, but where nothing moves them
(Facts.free_batch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kvplan.deployment import Deployment
from kvplan.engines.common.protocol import Capacity
from kvplan.planner.changes import facts_of
from kvplan.planner.evaluate import answered
from kvplan.planner.evaluate import holds as fits_at_all
from kvplan.planner.plan import Plan
from kvplan.units import MOST_TOKENS


def with_limits(d: Deployment, plan: Plan) -> Plan:
    """The plan with limits that hold when they are asked; None where nothing limits them."""
    capacity = plan.capacity
    if capacity is None or plan.fits is None:
        return plan
    most = capacity.max_batch
    holds = partial(_placed_so, capacity) if "host_memory" in d.assumed else fits_at_all  # of RAM that nobody spoke of, what it takes now
    if not (plan.fits and facts_of(plan).free_batch):
        context = plan.asked("context")  # one that nobody said may follow the batch, and is held
        most = largest(lambda n: holds(replace(d, batch=n, context=context)), most)
    longest = largest(lambda n: holds(replace(d, context=n)), capacity.max_context_at_batch, (d.model.max_context, capacity.max_context))
    if "host_memory" in d.assumed and d.model.max_context:  # where nothing of the split ends it the model's own length does
        longest = d.model.max_context if longest is None else min(longest, d.model.max_context)
    found = capacity._replace(max_context_at_batch=longest, max_batch=most)
    return plan._replace(outcome=plan.outcome._replace(capacity=found))


def _placed_so(capacity: Capacity, d: Deployment) -> bool:
    """Whether a question fits with as many layers on the devices as these, and experts of no more beside them."""
    found = answered(d)
    if found is None or not found.fits or found.capacity is None or found.capacity.offloaded is None or capacity.offloaded is None:
        return False
    return found.capacity.offloaded[0] >= capacity.offloaded[0] and found.capacity.beside <= capacity.beside


def largest(fits: Callable[[int], bool], guess: int | None, others: Sequence[int | None] = ()) -> int | None:
    """The n at or near `guess` (None: no limit) that fits where n + 1 does not; 0 where not even 1 does, None where the most tokens do.

    others  where the end often is: looked at where the guess does not fit, before a search
    """
    most = MOST_TOKENS
    n = most if guess is None else min(max(guess, 0), most)
    low, high, step = 0, most + 1, 1
    if n == 0 or fits(n):
        low = n
        while low < most:
            tried = min(low + step, most)
            if not fits(tried):
                high = tried
                break
            low, step = tried, 2 * step
    else:
        for other in others:
            if other and other < n and fits(other) and not fits(other + 1):
                return other
        high = n
        while high > 1:
            tried = max(high - step, 1)
            if fits(tried):
                low = tried
                break
            high, step = tried, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return None if low >= most else low
