"""The public functions: find what a question names, ask the planner, return values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kvplan import catalogue
from kvplan.deployment import NAMES, Deployment
from kvplan.devices import Device, sized
from kvplan.errors import SpecError, UnknownName
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.planner.questions import advise
from kvplan.spec import ModelSpec
from kvplan.units import parse_bytes, parse_tokens

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


def deployment(model: str | ModelSpec, **question: Any) -> Deployment:
    """The question as a value, every name read and checked; None is "not chosen"."""
    faults: list[tuple[str, str]] = []
    values: dict[str, Any] = {}
    for name, value in question.items():
        if name not in NAMES:
            raise UnknownName("question", name, list(NAMES))
        if value is None:
            continue
        try:
            values[name] = _read(name, value)
        except SpecError as error:
            faults += [(name, message) for _, message in error.faults]
        except UnknownName as error:
            faults.append((name, str(error)))
    if faults:
        raise SpecError("question", faults)
    return Deployment(model=_find(model), **values)


def model(name: str | ModelSpec) -> ModelSpec:
    """The spec that a name or a path means. Raises UnknownName or SpecError."""
    return _find(name)


def _find(model: str | ModelSpec) -> ModelSpec:
    if isinstance(model, ModelSpec):
        return model
    if not isinstance(model, str) or not model.strip():
        raise SpecError("model", [("", "write a model id such as meta-llama/llama-3.1-8b, or a path such as ./model.yaml")])
    if model.startswith(("./", "../", "/", "~")) or model.endswith((".yaml", ".yml", ".json", ".gguf")):
        return catalogue.read_spec(model)
    return catalogue.find_model(model)


def device(name: str | Device) -> Device:
    """The device that a name, a product name or a size means. Raises UnknownName or SpecError."""
    if isinstance(name, Device):
        return name
    if str(name)[:1].isdigit() and str(name).lower().rstrip().endswith("b"):
        return sized(parse_bytes(name, "device"))
    return catalogue.find_device(str(name))


def _read(name: str, value: Any) -> Any:
    kind = NAMES[name].kind
    if kind == "tokens":
        return _at_least_one(name, parse_tokens(value, name))
    if kind == "bytes":
        return parse_bytes(value, name)
    if kind == "count":
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 19:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not a whole number")])
        return value if name == "n_gpu_layers" else _at_least_one(name, value)
    if kind == "fraction":
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0 < number <= 1:
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not a fraction; write a number above 0 and at most 1")])
        return number
    if kind == "flag":
        if not isinstance(value, bool):
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not true or false")])
        return value
    if kind == "device":
        return device(value)
    if kind == "options":
        return _options(value)
    if not isinstance(value, str):
        raise SpecError(name, [("", f"{str(value)[:60]!r} is not text")])
    return value


def _at_least_one(name: str, value: int) -> int:
    if not 1 <= value <= 1 << 40:
        raise SpecError(name, [("", f"{value} is out of range: at least 1, at most {1 << 40}")])
    return value


def _options(value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        return tuple((str(k), str(v).lower() if isinstance(v, bool) else str(v)) for k, v in value.items())
    pairs = []
    for item in [value] if isinstance(value, str) else value:
        key, equals, text = str(item).partition("=")
        if not equals or not key:
            raise SpecError("engine_option", [("", f"{str(item)[:60]!r}: write KEY=VALUE")])
        pairs.append((key.strip(), text.strip()))
    return tuple(pairs)
