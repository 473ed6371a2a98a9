"""The public functions: find what a question names, ask the planner, return values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan import catalogue
from kvplan.deployment import NAMES, Deployment
from kvplan.devices import Device, sized
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.planner.evaluate import default_engine, evaluate
from kvplan.planner.plan import Plan
from kvplan.planner.questions import advise
from kvplan.spec import ModelSpec
from kvplan.units import parse_bytes, parse_tokens

if TYPE_CHECKING:
    from kvplan.planner.compare import Row
    from kvplan.planner.explain import Line
    from kvplan.planner.fit import Carrier
    from kvplan.planner.sweep import Columns, Grid
    from kvplan.roofline import Roofline
    from kvplan.stored import StoredWeights


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


def fit(
    model: str | ModelSpec,
    *,
    devices: Sequence[str | Device] | None = None,
    prices: Mapping[str, float] | None = None,
    most: int = 16,
    **question: Any,
) -> tuple[Carrier, ...]:
    """Which hardware carries the question: for each device the fewest that fit and their layout, ranked, losers with their reason.

    devices  ids, names or sizes; None: every packaged device that one can buy for a server
    prices   device id -> price of one, in any unit; ranks by the price of all together
    most     how many of one device are tried

    >>> best = fit("meta-llama/llama-3.1-8b", devices=["h100", "l4"], engine="ideal", context="8k", batch=16)[0]
    >>> best.device.id, best.n_devices
    ('l4', 2)
    """
    from kvplan.planner.fit import fit as search

    if question.get("device") is not None:
        raise SpecError("device", [("", "fit looks for the device; name candidates with devices")])
    among = [device(name) for name in devices] if devices is not None else catalogue.devices()
    named = {device(name).id: _price(name, price) for name, price in (prices or {}).items()}
    asked = deployment(model, **question)
    if asked.engine is None:
        asked = calibrated(asked, "vllm")  # what a question with a device is put to
    return search(asked, among, most=_at_least_one("most", most), prices=named)


def compare(*questions: Mapping[str, Any]) -> tuple[Row, ...]:
    """Questions side by side, what differs first; each is a mapping of `model` and the contract's names.

    >>> rows = compare({"model": "meta-llama/llama-3.1-8b", "context": "8k"}, {"model": "meta-llama/llama-3.1-8b", "context": "16k"})
    >>> [row.ratios for row in rows if row.name == "cache of a sequence"]
    [(1.0, 2.0)]
    """
    from kvplan.planner.compare import compare as side_by_side

    if not questions:
        raise SpecError("compare", [("", "name at least one question")])
    return side_by_side([estimate(**question) for question in questions])


def roofline(model: str | ModelSpec, **question: Any) -> Roofline:
    """The least time a decode step and a prompt can take on the question's device: bytes over bandwidth, operations over rate.

    >>> roofline("meta-llama/llama-3.1-8b", device="h100", engine="ideal", context="8k").decode.bound_by
    'memory'
    """
    from kvplan.planner.speed import speed

    return speed(deployment(model, **question))


class Sweep(NamedTuple):
    """A grid of questions: what stays the same, and the axes."""

    question: Deployment
    over: Grid


def sweep(model: str | ModelSpec, axes: Mapping[str, Sequence[Any]], **question: Any) -> Sweep:
    """A grid over any names of a question; `sweep_ranges` evaluates it. Needs numpy (the `sweep` extra).

    >>> job = sweep("meta-llama/llama-3.1-8b", {"context": ["8k", "16k"], "batch": range(1, 3)}, engine="ideal")
    >>> [columns["cache_total_bytes"].tolist() for _, columns in sweep_ranges(job)]
    [[1073741824, 2147483648, 2147483648, 4294967296]]
    """
    try:
        from kvplan.planner.sweep import grid
    except ImportError:
        raise KvplanError("a sweep needs numpy; install the `sweep` extra of kvplan-llm") from None
    if not axes:
        raise SpecError("grid", [("", "name at least one axis such as context=8k:1m:x2")])
    both = [name for name in axes if question.get(name) is not None]
    if both:
        raise SpecError("grid", [(name, "is an axis and an option; keep one") for name in both])
    read: dict[str, list[Any]] = {}
    for name, values in axes.items():
        if name not in NAMES or NAMES[name].kind == "options":
            raise UnknownName("axis", name, [n for n in NAMES if NAMES[n].kind != "options"])
        read[name] = [_read(name, value) for value in values]
        if not read[name]:
            raise SpecError("grid", [(name, "an axis without values")])
    return Sweep(deployment(model, **question), grid(read))


def sweep_ranges(
    job: Sweep, rows: int = 100_000, start: int = 0, scheduler: str | None = None, workers: int | None = None
) -> Iterator[tuple[int, Columns]]:
    """The points of a sweep from `start` on, `rows` at a time: how many, and a column for each axis and figure.

    scheduler  a Dask scheduler's address, or `local`; None evaluates here
    """
    from kvplan.planner.sweep import chunks, columns

    ranges = chunks(job.over, rows, start)
    if scheduler is None:
        yield from ((last - first, columns(job.question, job.over, first, last)) for first, last in ranges)
        return
    from kvplan import cluster

    with cluster.connected(scheduler, workers) as client:
        yield from cluster.columns(client, job.question, job.over, ranges)


def _price(name: str, price: Any) -> float:
    if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
        raise SpecError("prices", [(name[:60], f"{str(price)[:60]!r} is not a price; write a number such as 2.5")])
    return float(price)


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


def question(model: str) -> dict[str, Any]:
    """A question from a deployment file (YAML with `model` and the contract's names), or just the model that `model` names."""
    if not model.endswith((".yaml", ".yml")):
        return {"model": model}
    data = catalogue.parse_yaml(catalogue.read_text(model), model)
    if not isinstance(data, dict) or "model" not in data or "n_layers" in data:
        return {"model": model}
    unknown = [name for name in data if name != "model" and name not in NAMES]
    if unknown:
        raise SpecError(model, [(name[:60], "no name of a question; see `kvplan estimate --help`") for name in unknown])
    return data


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
    spec, stored = _find(model)
    return calibrated(Deployment(model=spec, stored=stored, **values))


def calibrated(d: Deployment, engine: str | None = None) -> Deployment:
    """The question with the measured constants it names, of the engine it would be put to. Raises SpecError."""
    name = engine or d.engine or default_engine(d)
    return replace(d, constants=catalogue.constants(name.strip().lower(), d.calibration or "packaged"))


def model(name: str | ModelSpec) -> ModelSpec:
    """The spec that a name or a path means. Raises UnknownName, SpecError, FormatError, UnsupportedError."""
    return _find(name)[0]


def import_model(source: str, revision: str | None = None) -> str:
    """A reviewable spec, as YAML text, of a config.json, a checkpoint's folder, a GGUF file or a Hub id."""
    from kvplan import importers
    from kvplan.importers.spec_yaml import dump_spec

    spec = _file(source)[0] if _is_path(source) else importers.from_hub(source, revision).spec
    return dump_spec(spec.plain())


def _find(model: str | ModelSpec) -> tuple[ModelSpec, StoredWeights | None]:
    """The spec, and the weights as stored where the model's files are at hand; a Hub id outside the catalogue is asked of the Hub."""
    if isinstance(model, ModelSpec):
        return model, None
    if not isinstance(model, str) or not model.strip():
        raise SpecError("model", [("", "write a model id such as meta-llama/llama-3.1-8b, or a path such as ./model.yaml")])
    if _is_path(model):
        return _file(model)
    try:
        return catalogue.find_model(model), None
    except UnknownName as unknown:
        if _HUB_ID.fullmatch(model) is None:
            raise
        from kvplan import importers

        try:
            return importers.from_hub(model)
        except KvplanError as error:
            raise KvplanError(f"{unknown}; and it could not be had from the Hub: {error}") from None


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def _is_path(model: str) -> bool:
    return model.startswith(("./", "../", "/", "~")) or model.endswith((".yaml", ".yml", ".json", ".gguf", ".safetensors"))


def _file(path: str) -> tuple[ModelSpec, StoredWeights | None]:
    if path.endswith((".yaml", ".yml")):
        return catalogue.read_spec(path), None
    from kvplan import importers

    return importers.read(path)


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
