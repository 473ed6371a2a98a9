"""What decides an answer that is too close to call, and single changes after which it is not: each evaluated, none guessed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.phases import WORDS, moments
from kvplan.planner import remedies
from kvplan.planner.advice import shorter_rows, without_graphs
from kvplan.planner.changes import Change, advised, attempt, facts_of
from kvplan.planner.plan import CLOSE, Advice, Plan
from kvplan.units import size

#: Hundredths of a memory fraction that are tried, and shares of the longest request.
HUNDREDTHS, SHARES = (1, 2, 3, 5, 8, 12, 20), (7 / 8, 3 / 4, 1 / 2, 1 / 4)


class Edge(NamedTuple):
    """A sum that may be on either side of what there is: `share` is what is left or lacks of how far its interval reaches.

    phase  in words, where it is a moment of a start; None: the whole of a device, or the cache's own memory
    low, high, has  bytes of a rank: what it takes at the ends of its interval, and what there is; of the cache, what it may get
    """

    share: float
    phase: str | None
    place: str
    low: int
    high: int
    has: int | None


def deciding(plan: Plan) -> Edge | None:
    """What an answer that is too close to call hangs on, unless it is `unmoved`; None where no interval that is shown says it."""
    found = min(_edges(plan), key=lambda edge: edge.share, default=None)
    return found if found and found.share < 1 else None


def unmoved(plan: Plan) -> str:
    """Why it is too close to call, whatever is left: the first reason; empty where there is none."""
    return next(iter(plan.outcome.undecided), "")


def in_doubt(plan: Plan, each: str = "") -> str:
    """`at warm-up GPU 0 holds 43.5 GiB to 46.5 GiB of its 44.4 GiB`: what it hangs on; empty where no interval or reason says it.

    each  what follows the memory that the cache may get, such as ` a GPU`
    """
    if reason := unmoved(plan):
        return reason
    if (edge := deciding(plan)) is None:
        return ""
    ends = f"{size(max(edge.low, 0))} to {size(edge.high)}"
    if edge.has is None:
        return f"{edge.place} may get {ends}{each}"
    return f"{f'{edge.phase} ' if edge.phase else ''}{edge.place} holds {ends} of its {size(edge.has)}"


def _edges(plan: Plan) -> Iterator[Edge]:
    places = {ledger.ranks[0]: ledger.place for ledger in plan.ledgers}
    for m in moments(plan.ledgers, serving=False):
        yield Edge(_share(m.spare, m.low, m.high), WORDS[m.peak.phase], places[m.rank], m.peak.low, m.device_bytes - m.low, m.device_bytes)
    for ledger in plan.ledgers:
        if ledger.limit_bytes is not None and ledger.device_bytes is None:
            left = [ledger.limit_bytes - n for n in (ledger.total_bytes, ledger.high_bytes, ledger.low_bytes)]
            yield Edge(_share(*left), None, ledger.place, ledger.low_bytes, ledger.high_bytes, ledger.limit_bytes)
    capacity, margin = plan.capacity, plan.margin_bytes
    if capacity is not None and margin is not None and capacity.kv_bytes_low < capacity.kv_bytes_high:
        low, high = (margin + end - capacity.kv_bytes for end in (capacity.kv_bytes_low, capacity.kv_bytes_high))
        yield Edge(_share(margin, low, high), None, "the cache", capacity.kv_bytes_low, capacity.kv_bytes_high, None)


def _share(left: int, low: int, high: int) -> float:
    reach = left - low if left >= 0 else high - left
    return abs(left) / reach if reach > 0 else float("inf")


def surer(d: Deployment, plan: Plan) -> tuple[Advice, ...]:
    """Single changes after which a plan that fits is no longer too close to call, the mildest first; none for other plans."""
    if not plan.fits or plan.certainty != CLOSE or unmoved(plan):
        return ()
    edge = deciding(plan)
    kinds = _fraction(d, plan, edge), without_graphs(d, plan, _sure), _steps(d, plan), shorter_rows(d, plan, _sure), _length(d, plan)
    return tuple(map(advised, chain.from_iterable(kinds)))


def _sure(d: Deployment, **sets: Any) -> Plan | None:
    """The plan after a change where it fits and is not too close to call."""
    plan = attempt(d, **sets)
    return plan if plan is not None and plan.certainty != CLOSE else None


def _fraction(d: Deployment, plan: Plan, edge: Edge | None) -> Iterator[Change]:
    """Less where the device is full beside it, else more, up to what advice may offer; the least that is certain, or likely."""
    now = plan.asked("memory_fraction")
    if now is None or d.device is None or d.kv_memory is not None:
        return
    most = max(facts_of(plan).fraction_ceiling or 0.0, now)
    values = (round(now - step / 100 if edge and edge.phase else now + step / 100, 2) for step in HUNDREDTHS)
    best: tuple[float, Plan] | None = None
    for value in (one for one in values if 0 < one <= most):
        if (after := _sure(d, memory_fraction=value)) and (best is None or after.certainty == "certain"):
            best = value, after
        if best and best[1].certainty == "certain":
            break
    if best:
        yield Change(f"set the engine's memory fraction to {best[0]:g}", "memory_fraction", *best)


def _steps(d: Deployment, plan: Plan) -> Iterator[Change]:
    now, least = plan.asked("max_num_batched_tokens"), max(remedies.LEAST_STEP_TOKENS, plan.asked("max_num_seqs") or 0)
    if now is not None and now > least and (found := _sure(d, max_num_batched_tokens=least)):
        yield Change(f"steps of {least:,} tokens", "max_num_batched_tokens", least, found)


def _length(d: Deployment, plan: Plan) -> Iterator[Change]:
    """A shorter longest request, or a shorter context where that is what was asked."""
    name = "max_model_len" if d.context is None and plan.asked("max_model_len") else "context"
    now = plan.asked(name)
    for share in SHARES:
        value = int(now * share) // 256 * 256
        if value and (found := _sure(d, **{name: value})):
            text = "set the longest request to" if name == "max_model_len" else "shorten the context to"
            yield Change(f"{text} {value:,} tokens", name, value, found)
            return
