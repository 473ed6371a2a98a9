"""The JSON Schema of a simulation, `kvplan.simulation/1`. Names may be added; those here do not change meaning."""

from __future__ import annotations

from typing import Any, get_type_hints

from kvplan.planner.schema import PLAN, _array, _object
from kvplan.planner.simulation import SCHEMA
from kvplan.simulate.record import Goal
from kvplan.simulate.result import BesidePool, Moments, Routed, SimulationResult, TierFound, Timeline
from kvplan.simulate.steptime import StepTime

_NUMBER: dict[str, Any] = {"type": "number"}
_INT: dict[str, Any] = {"type": "integer"}
_TEXT: dict[str, Any] = {"type": "string"}
_MAYBE_INT: dict[str, Any] = {"type": ["integer", "null"]}
_MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_MAYBE_NUMBER: dict[str, Any] = {"type": ["number", "null"]}

_MOMENTS = _object(dict.fromkeys(Moments._fields, _NUMBER))
_TIMELINE = _object({name: _array(_NUMBER) for name in Timeline._fields})
_BESIDE = _array(_object({"kind": _TEXT, "pages": _INT, "most": _INT}))
_TIERS = _array(_object({"place": _TEXT, "system": _TEXT, **dict.fromkeys(("tokens", "hit_tokens", "evicted"), _INT)}))
_ROUTED = {"anyOf": [{"type": "null"}, _object({"router": _TEXT, "replicas": _INT, "busiest": _NUMBER, "idlest": _NUMBER})]}
_OF: dict[Any, dict[str, Any]] = {
    int: _INT, float: _NUMBER, str: _TEXT, float | None: _MAYBE_NUMBER, Moments: _MOMENTS, Timeline: _TIMELINE,
    tuple[BesidePool, ...]: _BESIDE, tuple[TierFound, ...]: _TIERS, Routed | None: _ROUTED,
}  # fmt: skip

#: One policy: the fields of a SimulationResult as they are typed, and what is worked out of them.
_RESULT = _object(
    {name: _OF[type_] for name, type_ in get_type_hints(SimulationResult).items()} | {"hit_rate": _NUMBER, "spare_pages": _INT}
)

_MAYBE_RESULT = {"anyOf": [{"type": "null"}, _RESULT]}
_LAYOUT = dict.fromkeys(("n_devices", "tp", "pp", "dp"), _MAYBE_INT)
_CARRIED = _object({
    "users": _INT, "good": _NUMBER, "goal": _object(dict.fromkeys(Goal._fields, _NUMBER)), "share": _NUMBER, "carries": _INT,
    "bound": {"type": "boolean"}, "result": _MAYBE_RESULT,
})  # fmt: skip

SIMULATION: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA,
    **_object({
        "schema": {"const": SCHEMA},
        **{name: PLAN["properties"][name] for name in ("model", "question", "starts", "fits", "verdict")},
        "workload": _object({
            "name": _TEXT, "trace": _MAYBE_TEXT, "requests": _MAYBE_INT, "rate": _MAYBE_NUMBER, "burstiness": _NUMBER, "seed": _INT,
        }),
        "page_tokens": _INT,
        "page_bytes": _INT,
        "step_time": _object(dict.fromkeys(StepTime._fields, _NUMBER)),
        "policies": _array(_RESULT),
        "size": {"anyOf": [{"type": "null"}, _object({
            "share": _NUMBER, "pages": _INT, "kv_bytes": _INT, **_LAYOUT, "result": _RESULT,
        })]},
        "users": {"anyOf": [{"type": "null"}, _CARRIED]},
        "sized": {"anyOf": [{"type": "null"}, _object({"users": _INT, **_LAYOUT, "result": _MAYBE_RESULT})]},
        "notes": _array(_TEXT),
    }),
}  # fmt: skip
