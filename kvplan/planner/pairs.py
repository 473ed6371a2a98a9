"""Where no single change makes a plan fit: two together, smaller formats before less context before more devices. Tries are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.checks import most_together
from kvplan.planner import remedies
from kvplan.planner.changes import Change, attempt, edge, facts_of, roomy, smaller_weights
from kvplan.planner.plan import Plan

#: Pairs that are named at the most, and the least context that one of them may leave.
MOST_NAMED, LEAST_CONTEXT = 3, 1024


class Half(NamedTuple):
    """One of two changes: in words, the name it sets and to what."""

    text: str
    option: str
    value: Any


def pairs(d: Deployment, plan: Plan) -> Iterator[Change]:
    """At most MOST_NAMED, of each two names the mildest."""
    named: set[tuple[str, str]] = set()
    for first, second in _candidates(d, plan):
        kind = (first.option, second.option)
        if kind in named:
            continue
        found = _shortened(d, plan, first) if second.option == "context" else _both(d, plan, first, second)
        if found is not None:
            named.add(kind)
            yield found
            if len(named) == MOST_NAMED:
                return


def _candidates(d: Deployment, plan: Plan) -> Iterator[tuple[Half, Half]]:
    facts = facts_of(plan)
    weights = [Half(f"a checkpoint with {bits}-bit weights", "weight_dtype", name) for name, bits in smaller_weights(d, plan)]
    caches = [Half(f"the cache in {bits} bits", "kv_dtype", name) for name, bits in facts.kv_advice]
    now = plan.asked("tp") or 1
    free = d.n_devices is None and d.kv_memory is None and not most_together(d.device, facts)
    wider = [Half(f"split over {n} devices", "tp", n) for n in remedies.TP_SIZES if n > now] if free else []
    shorter = Half("a shorter context", "context", None)
    yield from ((one, other) for one in weights for other in caches)
    yield from ((one, shorter) for one in (*weights, *caches))
    yield from ((one, other) for one in wider for other in (*caches, *weights))
    yield from ((one, shorter) for one in reversed(wider))


def _both(d: Deployment, plan: Plan, first: Half, second: Half) -> Change | None:
    found = attempt(d, **{first.option: first.value, second.option: second.value})
    if found is None or not all(_smaller(plan, found, half) for half in (first, second)):
        return None
    return Change(f"{first.text}, and {second.text}", first.option, first.value, found, {second.option: second.value})


def _smaller(plan: Plan, found: Plan, half: Half) -> bool:
    if half.option == "weight_dtype":
        return found.model.weight_bytes < plan.model.weight_bytes
    if half.option == "kv_dtype":
        return found.cache.bytes_per_token < plan.cache.bytes_per_token
    return True


def _shortened(d: Deployment, plan: Plan, first: Half) -> Change | None:
    """The longest context at which the first change is enough, with room to spare where a shorter one leaves it."""
    now = plan.asked("context")
    if now <= LEAST_CONTEXT or d.max_model_len is not None:
        return None

    def tried(n: int) -> Plan | None:
        return attempt(d, context=n, **{first.option: first.value})

    found = edge(now, LEAST_CONTEXT, tried)
    if found is None or not _smaller(plan, found[1], first):
        return None
    n, after = roomy(found, remedies.ROUND_TOKENS, tried) or found
    return Change(f"{first.text}, and the context shortened to {n:,} tokens", first.option, first.value, after, {"context": n})
