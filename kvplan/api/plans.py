"""One plan, and what the package ships."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan import catalogue
from kvplan.api.asking import deployment
from kvplan.devices import Device
from kvplan.errors import UnknownName
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.planner.explain import Line


def estimate(model: str | ModelSpec, **question: Any) -> Plan:
    """What `model` needs, and whether it fits.

    model     a catalogue id, an alias, a hub id, a path to a spec (with `./`, `/` or a suffix), or a ModelSpec
    question  the names of the contract (`context="32k"`, `batch=16`, `device="h100-80gb"`, ...); sizes as integers or strings

    Returns a Plan: bytes everywhere, `fits` None without a device or kv_memory. Raises KvplanError for bad input.

    >>> plan = estimate("meta-llama/llama-3.1-8b", context="32k", batch=16)
    >>> plan.cache.bytes_per_token
    131072
    >>> plan.cache.total_bytes == 16 * 32768 * 131072
    True
    """
    d = deployment(model, **question)
    plan = evaluate(d)
    if plan.fits is not False:
        return plan
    from kvplan.planner.questions import advise

    larger = catalogue.devices() if d.device and d.kv_memory is None else ()
    return plan._replace(advice=advise(d, plan, larger))


def explain(model: str | ModelSpec, **question: Any) -> tuple[Line, ...]:
    """Where each number of `estimate`'s answer comes from; takes the same names."""
    from kvplan import engines
    from kvplan.engines.base import cache_formats
    from kvplan.planner.evaluate import default_engine
    from kvplan.planner.explain import explain as lines

    d = deployment(model, **question)
    settled = engines.find(d.engine or default_engine(d)).settle(d).question
    return lines(settled, cache_formats(settled), evaluate(d))


def models() -> list[str]:
    """The ids of the packaged model specs."""
    return catalogue.model_ids()


def devices() -> list[Device]:
    """The packaged devices."""
    return catalogue.devices()


def schema(what: str) -> dict[str, Any]:
    """The JSON Schema of a `plan` (what estimate returns) or a `model` (what a spec file holds)."""
    if what == "plan":
        from kvplan.planner.schema import PLAN

        return PLAN
    if what == "model":
        from kvplan.spec import json_schema

        return json_schema()
    raise UnknownName("schema", what, ["plan", "model"])
