"""One question in, one plan out. It never searches and never advises; searches call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan import engines
from kvplan.deployment import NAMES, Deployment
from kvplan.engines.common import drivers
from kvplan.engines.common.builds import unnamed
from kvplan.engines.common.checks import before_all, refusal
from kvplan.engines.common.doubts import doubts, more_slots, newer, second_copy, unread_weights, without_kernel
from kvplan.engines.common.lines import least_sure, stage_weights, weight_entries
from kvplan.engines.common.passed import capped
from kvplan.engines.common.phases import close, doubted, judged
from kvplan.engines.common.protocol import Certainty, ChosenBy, Facts, Outcome, Settled, refused
from kvplan.engines.common.risks import with_risks
from kvplan.engines.common.settling import weight_formats
from kvplan.errors import KvplanError
from kvplan.ledger import Entry, Ledger, exact
from kvplan.parallel import split_layers
from kvplan.planner.cache import report
from kvplan.planner.facts import model_facts
from kvplan.planner.given_memory import on_its_device
from kvplan.planner.plan import CLOSE, Plan
from kvplan.units import show_bytes


def evaluate(d: Deployment, *, limits: bool = True, on_device: bool = True) -> Plan:
    """The plan for a question. Raises KvplanError for what can not be read or is not modelled; not fitting is an answer.

    limits=False: the longest context and most sequences may be left out, for those who ask only whether it fits. on_device=False: memory
    that is given (kv_memory) is not held against the device, which then only says the engine's defaults: its arithmetic alone.
    """
    return read_and_evaluate(d, limits=limits, on_device=on_device)[1]


def read_and_evaluate(d: Deployment, *, limits: bool = True, on_device: bool = True) -> tuple[Settled, Plan]:
    """`evaluate`, and the question as its engine read it."""
    settled, outcome = _answered(d, limits, on_device)
    return settled, Plan(
        model=model_facts(settled),
        question=_question(d, settled),
        cache=report(settled.question, settled.layers),
        outcome=outcome,
        verdict=_verdict(settled.question, outcome),
    )


def holds(d: Deployment) -> bool:
    """Whether a question can be asked and fits: `evaluate` without what is only shown, for searches that ask often."""
    found = answered(d)
    return found is not None and found.fits is True


def answered(d: Deployment) -> Outcome | None:
    """The outcome alone, without its limits; None where the question can not be asked."""
    try:
        return _answered(d, limits=False)[1]
    except KvplanError:
        return None


def _answered(d: Deployment, limits: bool, on_device: bool = True) -> tuple[Settled, Outcome]:
    """The question as its engine settles it, and the answer. Raises as `evaluate` does."""
    engine, settled = engines.settle(d)
    settled = settled._replace(limits=limits)
    question, facts = settled.question, engine.facts
    released = replace(question, engine_version=d.engine_version or question.engine_version)  # not the nearest that is known
    reason = (settled.lacks or refusal(released, facts)) if settled.misfit is None else None
    outcome = refused(reason) if reason else engine.plan(settled)
    if outcome.starts is not False and (stops := settled.stopped if settled.misfit is None else refusal(released, facts)):
        reason, outcome = stops, refused(stops)
    if reason:  # which hangs on no memory
        settled = settled._replace(passed=())
    if not outcome.ledgers:
        outcome = outcome._replace(ledgers=_weights_alone(settled))
    outcome = judged(outcome, facts)
    outcome = with_risks(settled, engine, outcome)
    if on_device:
        outcome = on_its_device(settled, engine, outcome)
    outcome = _within_its_length(d, outcome)
    old = before_all(d, facts)
    settled, outcome = _in_doubt(settled, released, facts, outcome, old)
    if settled.misfit is not None and outcome.starts is not False:
        raise settled.misfit
    unread = reason is None and facts.pool == "set aside" and bool(old) and not _too_heavy(question, outcome)
    outcome = _of_all_replicas(question, outcome)
    outcome = _unknown(settled, outcome, unread)
    outcome = _beyond_ram(question, outcome)
    if d.neighbours:
        outcome = outcome._replace(ledgers=tuple(_by_neighbour(ledger, d) for ledger in outcome.ledgers))
    return settled, outcome


#: Of a device: by so much or more all of 14 answers by a later release's rules were right (tests/threads).
WIDE = 0.25


def _in_doubt(settled: Settled, released: Deployment, facts: Facts, outcome: Outcome, old: str | None) -> tuple[Settled, Outcome]:
    """The answer no surer than what it rests on, and notes of that where it starts. `old`: what is said of a release before all known."""
    d = settled.question
    ancient = (old,) if old and facts.pool != "set aside" else ()
    room = WIDE * d.device.memory_bytes if d.device else 0
    wide = abs(outcome.margin_bytes or 0) >= room > 0
    found: tuple[str, ...] = ()
    if outcome.starts:
        beside = drivers.older(d, facts, outcome) + close(outcome.ledgers, settled.room)
        found = doubts(settled, facts) + newer(released, facts) + beside
    why = (*found, *(ancient if wide else ()))
    undecided = (
        *settled.undecided,
        *(() if wide else ancient),
        *unnamed(released, facts),
        *unread_weights(d, facts),
        *without_kernel(d, facts),
        *second_copy(d, facts, outcome),
        *more_slots(settled, outcome),
    )
    outcome = doubted(outcome, why, "likely")
    outcome = doubted(outcome, undecided, CLOSE)
    outcome = capped(outcome, settled.passed)
    if outcome.starts:
        said = (*(f"likely at most: {reason}" for reason in why), *(f"{CLOSE} at most: {reason}" for reason in undecided))
        settled, outcome = settled._replace(notes=(*settled.notes, *said)), outcome._replace(undecided=undecided)
    if outcome.starts is False:
        by_rules: Certainty = "certain" if not ancient else "likely" if wide else CLOSE  # no surer than later rules let it start
        if settled.branch:
            by_rules = "likely" if outcome.certainty == "certain" else CLOSE
        sure = least_sure(outcome.certainty, _more_memory(d, outcome), by_rules)
        outcome = outcome._replace(certainty=sure, start_certainty=least_sure(outcome.start_certainty or sure, sure))
    return settled, outcome


def _more_memory(d: Deployment, outcome: Outcome) -> Certainty:
    """How sure a refusal is at most, by memory that may be had all the same: Windows and WSL move what others hold of a desktop's card, and
    a system can be told to give its GPU more of what they share."""
    lacks = -(outcome.margin_bytes or 0)
    if d.device is None or lacks <= 0:
        return "certain"
    if d.device.shows_desktops and lacks <= (d.reserve or 0):
        return CLOSE
    return "likely" if lacks <= d.device.settable_bytes else "certain"


def _of_all_replicas(question: Deployment, outcome: Outcome) -> Outcome:
    """The most sequences of all replicas, which share the question's; an engine says those of one."""
    capacity = outcome.capacity
    if capacity is None or capacity.max_batch is None:
        return outcome
    return outcome._replace(capacity=capacity._replace(max_batch=capacity.max_batch * (question.dp or 1)))


def _unknown(settled: Settled, outcome: Outcome, unread: bool) -> Outcome:
    """No answer where something would have to be known first, unless it fails without; `unread`: a refusal is of rules that are not its."""
    if settled.unknown and (unread or (outcome.starts is not False and outcome.fits is not False)):
        return outcome._replace(fits=None, starts=None, survives=None, certainty=CLOSE, unknown=settled.unknown)
    return outcome


def _beyond_ram(question: Deployment, outcome: Outcome) -> Outcome:
    """The risk of host memory that a server holds more of than there is."""
    held, has = sum(e.bytes for e in outcome.host), question.host_memory
    if has is None or held <= has or outcome.risk is not None:
        return outcome
    return outcome._replace(risk=f"one server holds {show_bytes(held)} of host memory, and there are {show_bytes(has)}")


def _within_its_length(asked: Deployment, outcome: Outcome) -> Outcome:
    """A request longer than the longest that is admitted is not held, by whatever engine, if nothing else of it says so."""
    context, most = asked.context, asked.max_model_len
    if not outcome.fits or context is None or most is None or context <= most:
        return outcome
    reason = f"a request of {context:,} tokens is longer than max_model_len {most:,}"
    return outcome._replace(fits=False, reason=reason, certainty="certain")


def _by_neighbour(ledger: Ledger, d: Deployment) -> Ledger:
    """The line of what others hold as one line each, where they were named."""

    def apart(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        whole = [entry for entry in entries if entry.kind == "others" and entry.bytes == d.reserve]
        named = [exact(f"held by {who}", n_bytes, "the question", "others") for who, n_bytes in d.neighbours]
        return tuple(one for entry in entries for one in (named if entry in whole else [entry]))

    return ledger._replace(entries=apart(ledger.entries), outside=apart(ledger.outside))


def _weights_alone(settled: Settled) -> tuple[Ledger, ...]:
    """The weights of every pipeline stage, where an engine refuses before it looks at memory: what is asked of a rank all the same."""
    d, tp = settled.question, settled.question.tp or 1
    found = []
    for n, stage in enumerate(split_layers(len(settled.model.layers), d.pp or 1, "first")):
        entries = weight_entries(stage_weights(settled.model, stage), weight_formats(d), tp=tp, ep=d.ep or 1)
        ranks = tuple(range(n * tp, n * tp + tp))
        found.append(Ledger(ranks, d.device.id if d.device else None, 0, 0, tuple(entries), d.device.memory_bytes if d.device else None))
    return tuple(found)


def _too_heavy(question: Deployment, outcome: Outcome) -> bool:
    """Whether the weights of a rank alone are more than its device, which no release changes."""
    if question.device is None:
        return False
    held = (sum(e.bytes for e in ledger.entries if e.kind == "weights") for ledger in outcome.ledgers if ledger.device is not None)
    return max(held, default=0) > question.device.memory_bytes


def _question(asked: Deployment, settled: Settled) -> Mapping[str, tuple[Any, ChosenBy]]:
    answers: dict[str, tuple[Any, ChosenBy]] = {"model": (settled.question.model.id, "you")}
    for name in NAMES:
        value: Any = getattr(settled.question, name)
        if name == "device" and value is not None:
            value = value.id
        if name == "engine_option":
            value = dict(value)
        mine = getattr(asked, name) not in (None, ()) and name not in asked.assumed
        answers[name] = (value, "you" if mine else settled.chosen_by.get(name, "kvplan"))
    return answers


def _place(outcome: Outcome) -> str:
    """The tightest rank, for people."""
    tight = outcome.tightest
    return f"rank {outcome.limiting_rank}" if tight is None else tight._replace(ranks=(outcome.limiting_rank or 0,)).place


def _verdict(d: Deployment, outcome: Outcome) -> str:
    asked = f"{d.batch} x {d.context:,} tokens of {d.model.known_as}"
    if outcome.unknown:
        return f"{asked}: unknown, {outcome.unknown}"
    if outcome.fits is None:
        return f"{asked}: no device and no cache memory given, so nothing limits it"
    where = f"{d.n_devices} x {d.device.name}" if d.device else f"{show_bytes(d.kv_memory or 0)} of cache memory a rank"
    if d.device is None and d.kv_memory is None:
        where = "this engine"
    if outcome.fits:
        left = f"with {show_bytes(outcome.margin_bytes or 0)} left on {_place(outcome)}"
        sure = "" if outcome.certainty == "certain" else f" ({outcome.certainty})"
        return f"{asked} fits {where}{sure}, {left}"
    sure = "" if outcome.certainty == "certain" else f" ({outcome.certainty})"
    refusal = "" if outcome.starts else "; it would not start"
    return f"{asked} does not fit {where}{sure}: {outcome.reason}{refusal}"
