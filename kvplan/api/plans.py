"""One plan, and what the package ships."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from kvplan import catalogue
from kvplan.api import SCHEMAS
from kvplan.api.asking import asked
from kvplan.devices import Device
from kvplan.errors import UnknownName
from kvplan.planner.evaluate import evaluate
from kvplan.planner.offload import with_offload
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from os import PathLike

    from kvplan.api.names import Question
    from kvplan.engines.common.protocol import Facts
    from kvplan.planner.explain import Line
    from kvplan.planner.records import EngineRecord


def estimate(model: str | PathLike[str] | ModelSpec, *, advise: bool = True, **question: Unpack[Question]) -> Plan:
    """What `model` needs, and whether it fits.

    model     a catalogue id, an alias, a hub id, a path to a spec (with `./`, `/` or a suffix), or a ModelSpec
    advise    False leaves out `advice`, `waste` and the note of settings that move nothing: most of the time, for those who ask often
    question  the names of the contract (`context="32k"`, `batch=16`, `device="h100-80gb"`, ...); sizes as integers or strings

    Returns a Plan: bytes everywhere, `fits` None without a device or kv_memory. Where it does not fit, `advice` holds single changes
    that make it fit, and where it does and is too close to call, those after which it is not; `waste` is what a question that fits does
    not need. Raises KvplanError for bad input.

    >>> plan = estimate("meta-llama/llama-3.1-8b", context="32k", batch=16)
    >>> plan.cache.bytes_per_token
    131072
    >>> plan.cache.total_bytes == 16 * 32768 * 131072
    True
    """
    d = asked(model, **question)
    whole = evaluate(d)
    runs, plan = with_offload(d, whole)
    if plan.fits is not None:
        from kvplan.planner.limits import with_limits

        plan = with_limits(runs, plan)
    if not advise:
        return plan
    from kvplan.planner.idle import with_idle

    plan = with_idle(d, plan)
    if plan.fits is None:
        return plan
    if plan.fits:
        from kvplan.planner.waste import wasted

        plan = plan._replace(waste=wasted(d, plan))
        if plan.certainty != "too close to call":
            return plan
        from kvplan.planner.surer import surer

        return plan._replace(advice=surer(d, plan))
    from kvplan.planner.advice import advise as changes

    larger = catalogue.devices() if d.device and d.kv_memory is None and d.calibration != "user" else ()
    if plan.outcome.split:
        return plan._replace(advice=tuple(one for one in changes(d, whole, larger) if one.option != "n_gpu_layers"))
    return plan._replace(advice=changes(d, plan, larger))


def explain(model: str | PathLike[str] | ModelSpec, **question: Unpack[Question]) -> tuple[Line, ...]:
    """Where each number of `estimate`'s answer comes from; takes the same names.

    >>> line = explain("meta-llama/llama-3.1-8b", context="8k")[0]
    >>> line.name, line.value, line.formula
    ('one token in gqa layers', 131072, '2 (K and V) x 32 layers x 8 KV heads x 128 x 2 B')
    """
    from kvplan import engines
    from kvplan.planner.explain import explain as lines

    d = asked(model, **question)
    d, plan = with_offload(d, evaluate(d))
    return lines(engines.settle(d)[1], plan)


def models() -> list[str]:
    """The ids of the packaged model specs.

    >>> "meta-llama/llama-3.1-8b" in models()
    True
    """
    return catalogue.model_ids()


def devices() -> list[Device]:
    """The packaged devices.

    >>> [device.memory_bytes >> 20 for device in devices() if device.id == "h100-80gb"]
    [81090]
    """
    return catalogue.devices()


def engines(name: str | None = None) -> list[EngineRecord]:
    """What every engine is, or the one of that name: releases, makes of devices, formats, options with their meaning.

    >>> [one["title"] for one in engines("vllm")]
    ['vLLM']
    >>> engines("vllm")[0]["options"]["enable_prefix_caching"]
    'prefix caching, which changes how states are kept'
    """
    from kvplan import engines as known

    return [_engine(known.facts(each)) for each in ([name] if name is not None else known.ENGINES)]


def _engine(facts: Facts) -> EngineRecord:
    from kvplan.engines.common.methods import spans

    return {
        "engine": facts.name, "title": facts.title, "releases": list(facts.versions), "vendors": sorted(facts.vendors), "pool": facts.pool,
        "weight_formats": sorted(facts.weight_schemes), "forms": sorted(facts.forms), "options": dict(facts.options),
        "drafts": spans(facts.drafting) if facts.drafting else {}, "unused": dict(facts.unused),
    }  # fmt: skip


def schema(what: str) -> dict[str, Any]:
    """The JSON Schema of one of SCHEMAS.

    >>> schema("plan")["title"]
    'kvplan.plan/1'
    """
    if what not in SCHEMAS:
        raise UnknownName("schema", what, list(SCHEMAS))
    if what == "model":
        from kvplan.spec import json_schema

        return json_schema()
    if what == "device":
        return Device.json_schema()
    from kvplan.planner.records import RECORDS

    if what not in RECORDS:
        from kvplan.planner import schema as answers

        answer: dict[str, Any] = getattr(answers, what.replace("-", "_"))()
        return answer
    from pydantic import TypeAdapter

    made: dict[str, Any] = TypeAdapter(RECORDS[what]).json_schema()
    return made
