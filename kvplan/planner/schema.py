"""The JSON Schemas of plans, simulations, hit curves, tiers and transfers: made of the fields of each value, as they are typed, and of
what their `as_dict` works out beside those. Names may be added; those that are there do not change meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kvplan.deployment import NAMES
from kvplan.engines.common.protocol import Capacity, Certainty, ChosenBy, Outcome, Risk
from kvplan.engines.common.tiers import Tier
from kvplan.ledger import Entry, Ledger, Peak
from kvplan.planner.plan import SCHEMA, Advice, CacheLayers, CacheReport, ModelFacts, Waste

Schema = dict[str, Any]
_PLAIN: dict[Any, str] = {int: "integer", float: "number", str: "string", bool: "boolean"}


def _without(schema: Schema, name: str) -> Schema:
    """The schema of an object that is shown without one of its fields."""
    shown = {key: value for key, value in schema["properties"].items() if key != name}
    return {**schema, "required": [key for key in schema["required"] if key != name], "properties": shown}


def of(type_: Any, **other: Schema) -> Schema:
    """The schema of a value of this type as `plain` shows it: named tuples are objects; `other`: of fields of another, or added."""
    kind, args = get_origin(type_), get_args(type_)
    if type_ in _PLAIN:
        return {"type": _PLAIN[type_]}
    if kind is Literal:
        return {"enum": list(args)}
    if kind in (UnionType, Union):  # a Literal or None is the second
        return _either(args)
    if kind is tuple:
        return _array(of(args[0])) | ({} if args[-1] is ... else dict.fromkeys(("minItems", "maxItems"), len(args)))
    if hasattr(type_, "_fields"):
        return _object({name: other.get(name) or of(hint) for name, hint in get_type_hints(type_).items()} | other)
    return {"type": "object"} if kind in (dict, Mapping) else {}


def _either(args: tuple[Any, ...]) -> Schema:
    """Of one of several types: nullable, a number of either sort, or anything."""
    if set(args) == {int, float}:
        return of(float)
    if NoneType not in args or len(args) > 2:
        return {}
    found = of(next(one for one in args if one is not NoneType))
    if "enum" in found:
        return {"enum": [*found["enum"], None]}
    return found | {"type": [found["type"], "null"]}


def _object(properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _counts(*names: str) -> Schema:
    return dict.fromkeys(names, of(int))


def _answer(title: str, properties: Schema) -> Schema:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return head | _object({"schema": {"const": title}, **properties})


def _of_plan(*names: str) -> Schema:
    return {name: plan()["properties"][name] for name in names}


def plan() -> Schema:
    """`kvplan.plan/1`."""
    tensor = _object({"name": of(str), **_counts("heads", "elems"), "dtype": of(str), **_counts("bytes_per_state")})
    segment = _object({**_counts("from_tokens", "fixed_bytes"), "bytes_per_token": of(float)})
    outcome = {name: of(hint) for name, hint in get_type_hints(Outcome).items() if name in ("start_certainty", "survives", "risk", "split")}
    return _answer(SCHEMA, {
        "model": _without(of(ModelFacts), "known_as"),
        "question": _object(dict.fromkeys(("model", *NAMES), _object({"value": {}, "chosen_by": of(ChosenBy)}))),
        "cache": of(CacheReport, layers=_array(of(CacheLayers, tensors=_array(tensor))), curve=_array(segment)),
        "ledgers": _array(of(Ledger, total_bytes=of(int), peaks=_array(of(Peak)))),
        "host": _array(of(Entry)),
        "tiers": _array(of(Tier, piece_tokens=of(int), tokens=of(int | None))),
        "capacity": _either((Capacity, NoneType)),
        "starts": of(bool | None), **outcome, "unknown": of(str | None), "risks": _array(of(Risk)), "fits": of(bool | None),
        "certainty": of(Certainty), "margin_bytes": of(int | None), "verdict": of(str),
        "advice": _array(of(Advice)), "waste": _array(of(Waste)),
    })  # fmt: skip


def simulation() -> Schema:
    """`kvplan.simulation/1`."""
    from kvplan.planner import simulation, users
    from kvplan.simulate.result import SimulationResult
    from kvplan.simulate.steptime import StepTime

    result = of(SimulationResult, hit_rate=of(float), spare_pages=of(int))
    maybe = result | {"type": ["object", "null"]}
    size, carried, sized = of(simulation.Size, result=result), of(users.Carried, result=maybe), of(simulation.UsersSize, result=maybe)
    workload = {"name": of(str), "trace": of(str | None), "requests": of(int | None), "rate": of(float | None), "burstiness": of(float)}
    return _answer(simulation.SCHEMA, {
        **_of_plan("model", "question", "starts", "fits", "verdict"), "workload": _object(workload | _counts("seed")),
        **_counts("page_tokens", "page_bytes"), "step_time": of(StepTime), "policies": _array(result),
        **{name: one | {"type": ["object", "null"]} for name, one in (("size", size), ("users", carried), ("sized", sized))},
        "notes": _array(of(str)),
    })  # fmt: skip


def hit_curve() -> Schema:
    """`kvplan.hit-curve/1`."""
    from kvplan.planner.hits import SCHEMA, HitCurve

    own = {name: of(hint) for name, hint in get_type_hints(HitCurve).items() if name not in ("plan", "workload", "stack")}
    asked = {name: simulation()["properties"][name] for name in ("model", "question", "starts", "fits", "verdict", "workload")}
    return _answer(SCHEMA, asked | own)


def tiers() -> Schema:
    """`kvplan.tiers/1`."""
    from kvplan.planner.tiers import SCHEMA, Load

    gpu = _object({**_counts("bytes"), **dict.fromkeys(("tokens", "pieces", "piece_tokens"), of(int | None))})
    return _answer(SCHEMA, {
        **_of_plan("model", "question", "starts", "fits", "verdict", "host"), **_counts("prefix_tokens"),
        "gpu": gpu | {"type": ["object", "null"]}, **_of_plan("tiers"), "loads": _array(of(Load)), "recompute_seconds": of(float | None),
        "notes": _array(of(str)),
    })  # fmt: skip


def transfer() -> Schema:
    """`kvplan.transfer/1`."""
    from kvplan.planner.transfer import SCHEMA, Moved, Transfer

    own = {name: of(hint) for name, hint in get_type_hints(Transfer).items() if name not in ("plan", "decode")}
    decode = _object({"device": of(str | None), **_counts("tp", "pp", "n_devices")})
    return _answer(SCHEMA, {**_of_plan("model", "question"), "decode": decode, **own, "moved": _array(of(Moved, bytes=of(int)))})
