"""One question in, one plan out. It never searches and never advises; searches call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan import engines
from kvplan.deployment import NAMES, Deployment
from kvplan.engines.common.protocol import ChosenBy, Outcome, Settled
from kvplan.engines.common.settling import cache_formats, lowered, stored_as, weight_formats
from kvplan.errors import SpecError
from kvplan.planner.cache import report
from kvplan.planner.plan import CacheReport, ModelFacts, Plan
from kvplan.tensors import Lowered
from kvplan.units import show_bytes
from kvplan.weights import count, model_tensors, total_bytes


def evaluate(d: Deployment) -> Plan:
    """The plan for a question. Raises KvplanError for what can not be read or is not modelled; not fitting is an answer."""
    engine = engines.find(d.engine or default_engine(d))
    settled = engine.settle(d)
    question = settled.question
    model = lowered(question, stored_as(settled))
    outcome = engine.plan(settled)
    cache, note = _report(question, model, outcome)
    return Plan(
        model=_facts(settled, model, note),
        question=_question(d, settled),
        cache=cache,
        outcome=outcome,
        verdict=_verdict(question, outcome),
    )


def default_engine(d: Deployment) -> str:
    """vllm where there is a device to fill, else ideal."""
    return "ideal" if d.device is None else "vllm"


def _report(d: Deployment, model: Lowered, outcome: Outcome) -> tuple[CacheReport, tuple[str, ...]]:
    """The cache as asked for; where the engine refused a format that can not hold this model's rows, in the compute type, and a note."""
    try:
        return report(d, model), ()
    except SpecError as error:
        if outcome.starts is not False:
            raise
        plain = replace(d, kv_dtype=d.dtype)
        return report(plain, lowered(plain, cache_formats(plain))), (f"the cache is shown in {d.dtype}: {error}",)


def _facts(settled: Settled, model: Lowered, note: tuple[str, ...]) -> ModelFacts:
    spec, parameters = settled.question.model, count(model)
    return ModelFacts(
        id=spec.id,
        name=spec.name,
        parameters=parameters.total,
        active_parameters=parameters.active,
        embedding_parameters=parameters.embedding,
        mtp_parameters=parameters.draft,
        weight_bytes=total_bytes(model_tensors(model), weight_formats(settled.question)),
        notes=(*spec.notes, *settled.notes, *note, *_calibration(settled.question)),
    )


def _calibration(d: Deployment) -> tuple[str, ...]:
    note = d.constants.note if d.constants is not None and d.device is not None else None
    return (note,) if note else ()


def _question(asked: Deployment, settled: Settled) -> Mapping[str, tuple[Any, ChosenBy]]:
    answers: dict[str, tuple[Any, ChosenBy]] = {"model": (settled.question.model.id, "you")}
    for name in NAMES:
        value: Any = getattr(settled.question, name)
        if name == "device" and value is not None:
            value = value.id
        if name == "engine_option":
            value = dict(value)
        mine = getattr(asked, name) not in (None, ())
        answers[name] = (value, "you" if mine else settled.chosen_by.get(name, "kvplan"))
    return answers


def _verdict(d: Deployment, outcome: Outcome) -> str:
    asked = f"{d.batch} x {d.context:,} tokens of {d.model.id}"
    if outcome.fits is None:
        return f"{asked}: no device and no cache memory given, so nothing limits it"
    where = f"{d.n_devices} x {d.device.name}" if d.device else f"{show_bytes(d.kv_memory or 0)} of cache memory a rank"
    if d.device is None and d.kv_memory is None:
        where = "this engine"
    if outcome.fits:
        left = f"with {show_bytes(outcome.margin_bytes or 0)} left on rank {outcome.limiting_rank}"
        sure = "" if outcome.certainty == "certain" else f" ({outcome.certainty})"
        return f"{asked} fits {where}{sure}, {left}"
    sure = "" if outcome.certainty == "certain" else f" ({outcome.certainty})"
    refusal = "" if outcome.starts else "; it would not start"
    return f"{asked} does not fit {where}{sure}: {outcome.reason}{refusal}"
