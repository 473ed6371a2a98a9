"""A change of a question that makes its plan fit, and how one is looked for: evaluated, never guessed.

A number that is changed is changed as little as possible: the value next to the asked one that fits, found by bisection from the exact
inverse that the engine's answer gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.dtypes import WEIGHT_FORMATS, weight_scheme
from kvplan.engines.common.protocol import Facts
from kvplan.engines.common.settling import weight_formats
from kvplan.errors import KvplanError
from kvplan.planner import remedies
from kvplan.planner.evaluate import evaluate
from kvplan.planner.layouts import laid_out
from kvplan.planner.plan import Advice, Plan
from kvplan.units import cdiv
from kvplan.units import counted as said


class Change(NamedTuple):
    """One change that fits: in words, the name it sets and to what, the plan after it, and names that must follow it."""

    text: str
    option: str
    value: Any
    plan: Plan
    also: Mapping[str, Any] = {}


def advised(change: Change) -> Advice:
    """A change as a plan lists it."""
    return Advice(
        change=change.text,
        option=change.option,
        value=change.value,
        fits=True,
        margin_bytes=change.plan.margin_bytes or 0,
        certainty=change.plan.certainty,
        also=change.also,
    )


#: What evaluates a change: a question and what it sets -> the plan where it will do.
Tried = Callable[..., Plan | None]


def evaluated(d: Deployment) -> Plan | None:
    """The plan, without its limits; None where the question can not be asked of this model or engine."""
    try:
        return evaluate(d, limits=False)
    except KvplanError:
        return None


def attempt(d: Deployment, **sets: Any) -> Plan | None:
    """The plan after a change where it fits; None where it does not, or can not be asked of this model or engine."""
    try:
        plan = evaluate(_changed(d, **sets), limits=False)
    except KvplanError:
        return None
    return plan if plan.fits else None


def first(d: Deployment, changes: Iterable[tuple[str, str, Any]], tried: Tried = attempt) -> Iterator[Change]:
    """The first of some changes, each in words, a name and its value, that will do."""
    for text, option, value in changes:
        if found := tried(d, **{option: value}):
            yield Change(text, option, value, found)
            return


def _changed(d: Deployment, **sets: Any) -> Deployment:
    """The question with a change; parallel sizes that nobody chose are chosen anew where it moves them, as for who asks so."""
    asked = replace(d, **sets)
    free = [name for name in d.assumed if name in ("tp", "pp")]
    if not free or sets.keys() & set(free) or not sets.keys() & {"device", "n_devices", "weight_dtype"}:
        return asked
    again: dict[str, Any] = {"assumed": tuple(name for name in d.assumed if name not in free), **dict.fromkeys(free)}
    return laid_out(replace(asked, **again))


def hundredths(fraction: float) -> int:
    """Whole hundredths of a fraction, whatever its last binary digits are."""
    return int(fraction * 100 + 1e-9)


def counted(d: Deployment, device: Device, n: int | None = None) -> str:
    """A device as the question names its own: with their number, `4xh100-80gb`, where it did."""
    return f"{n or d.n_devices}x{device.id}" if d.counted else device.id


def edge(bad: int, good: int, tried: Callable[[int], Plan | None], guess: int | None = None) -> tuple[int, Plan] | None:
    """The number that fits with a neighbour towards `bad` that does not, and its plan; None where not even `good` fits.

    `bad` is known not to fit. `guess` saves steps where it is right, and changes nothing where it is wrong.
    """
    step, found = (1 if bad > good else -1), None
    if guess is not None and min(bad, good) < guess < max(bad, good):
        found = tried(guess)
        if found is None:
            bad = guess
        else:
            good = guess
            if guess + step == bad or (further := tried(guess + step)) is None:
                return guess, found
            good, found = guess + step, further
    found = found or tried(good)
    if found is None:
        return None
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        plan = tried(middle)
        if plan is None:
            bad = middle
        else:
            good, found = middle, plan
    return good, found


def roomy(found: tuple[int, Plan], unit: int, tried: Callable[[int], Plan | None]) -> tuple[int, Plan] | None:
    """The largest multiple of `unit` that leaves a share of the device, where the found number leaves less; None where none does."""
    n, plan = found
    whole = min((has for ledger in plan.ledgers if (has := ledger.device_bytes or ledger.limit_bytes)), default=None)
    if whole is None or _leaves(plan, whole):
        return None
    most = (n - 1) // unit

    def tried_roomy(k: int) -> Plan | None:
        after = tried(k * unit)
        return after if after is not None and _leaves(after, whole) else None

    at = edge(most + 1, 1, tried_roomy) if most else None
    return (at[0] * unit, at[1]) if at else None


def _leaves(plan: Plan, whole: int) -> bool:
    return plan.margin_bytes is not None and plan.margin_bytes >= remedies.ROOM * whole


def facts_of(plan: Plan) -> Facts:
    """What the plan's engine is."""
    return engines.facts(plan.asked("engine"))


def replica_batch(plan: Plan) -> int:
    """Sequences of the fullest data-parallel replica."""
    return cdiv(plan.asked("batch") or 1, plan.asked("dp") or 1)


def in_the_way(plan: Plan) -> dict[str, Any]:
    """Settings that somebody chose below what the question asks for -> what it needs."""
    needs = {"max_num_seqs": replica_batch(plan), "max_model_len": plan.asked("context")}
    return {name: need for name, need in needs.items() if plan.question[name][1] == "you" and (plan.asked(name) or need) < need}


def sequences(n: int) -> str:
    """`1 sequence`, `12 sequences`."""
    return said(n, "sequence")


def with_option(d: Deployment, key: str, value: str) -> tuple[tuple[str, str], ...]:
    """The engine options with one of them set."""
    return tuple((dict(d.engine_option) | {key: value}).items())


def smaller_weights(d: Deployment, plan: Plan) -> list[tuple[str, int]]:
    """Formats that a checkpoint may be had in, with their bits: fewer than those of its largest matrices, or as many of which the engine
    does not load the format."""
    facts, name = facts_of(plan), weight_formats(d)["experts" if d.model.routed else "mlp"]
    foreign = bool(facts.weight_schemes) and weight_scheme(name) not in facts.weight_schemes
    most = int(WEIGHT_FORMATS[name].bits_per_weight) + foreign
    return [(other, bits) for other, bits in facts.weight_advice if bits < most]
