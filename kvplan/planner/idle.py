"""What was chosen and moves nothing: each setting is taken back, and where the same answer comes out, that is said.

An engine's own facts say why it has no use for a name; this holds for whatever they do not name: a setting of a release that has none, of
a model without such a part, a limit that another one is below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvplan.deployment import NAMES, Deployment
from kvplan.dtypes import parse_kv_dtype
from kvplan.planner.changes import evaluated
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan

#: Names that say what is asked, not how it is served.
_ASKED = ("engine", "engine_version", "device", "n_devices", "context", "batch", "calibration", "engine_option")
_NAMES = tuple(name for name in NAMES if name not in _ASKED)


def with_idle(d: Deployment, plan: Plan) -> Plan:
    """The plan with a note of the settings that were chosen and without which it would be the same; one that is a default is no news."""
    if plan.starts is False:  # whatever else was asked for, it was not come to
        return plan
    found = list(_idle(d))
    if not found:
        return plan
    note = f"moves nothing in this answer: {', '.join(found)}"
    return plan._replace(model=plan.model._replace(notes=(*plan.model.notes, note)))


def _idle(d: Deployment) -> Iterator[str]:
    chosen = [name for name in _NAMES if getattr(d, name) is not None and name not in d.assumed]
    if not chosen and not d.engine_option:
        return
    answer = evaluate(d, limits=False)
    for name in chosen:
        open_: dict[str, Any] = {name: None}
        without = evaluated(replace(d, **open_))
        if without is not None and _told(answer) == _told(without) and not _default(d, answer, without, name):
            yield f"{name} {getattr(d, name)}"
    for key, value in d.engine_option:
        if key == "quantization" and (d.model.quantization or d.weight_dtype):  # what it says of the weights is in the model
            continue
        without = evaluated(replace(d, engine_option=tuple(pair for pair in d.engine_option if pair[0] != key)))
        if without is not None and _told(answer) == _told(without):
            yield f"{key}={value}"


def _default(d: Deployment, answer: Plan, without: Plan, name: str) -> bool:
    """Whether it is what was taken anyhow. A number that the engine put another one in place of is not."""
    asked, value = getattr(d, name), answer.asked(name)
    if name == "kv_dtype" and answer.cache.layers:
        shown = {t["dtype"] for layers in answer.cache.layers for t in layers.tensors}
        return asked == "auto" or set(parse_kv_dtype(asked)) <= shown
    replaced = isinstance(asked, int | float) and asked != value
    return not replaced and without.asked(name) == value


def _told(plan: Plan) -> tuple[Any, ...]:
    return plan.model, plan.cache, plan.outcome, plan.verdict
