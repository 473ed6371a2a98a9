"""A real transformers model beside the plan for it: cache object, weights and peaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan.deployment import Deployment
from kvplan.errors import SpecError
from kvplan.importers.hf_config import import_config, load_json
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, parse_spec
from kvplan.units import show_bytes
from kvplan.validate.child import Worker
from kvplan.validate.fewer import fewer, n_layers
from kvplan.validate.receipts import Case, Receipt, Row, receipt

_TORCH = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}
DECODED = 4  # tokens decoded one at a time, after the rest was prefilled


def validate_model(
    config: str | dict[str, Any], question: Deployment | None = None, *, device: str = "cpu", limit_bytes: int | None = None, **asked: Any
) -> Receipt:
    """Builds the model of a Hugging Face config with random weights, runs prefill and decode, and compares with the transformers plan.

    config       a path to `config.json`, or its content
    question     context, batch and the like as a Deployment (its model is read again from the config); or by name in `asked`
    limit_bytes  weights and cache that may be built: fewer layers of each kind, at full width, where the model takes more

    The receipt's rows are equal in bytes of tensors where the plan is exact (weights, cache); peaks stand beside what the plan allows.
    Weights of a quantised checkpoint are built, and predicted, in its compute type.
    Raises UnsupportedError without torch and transformers, or for a class transformers lacks.
    """
    data = load_json(config) if isinstance(config, str) else config
    name = config if isinstance(config, str) else "config"
    every, note = n_layers(data), ""
    plan, d = _plan(data, name, question, asked)
    if limit_bytes is not None and _size(plan) > limit_bytes:
        data, plan, d = _shrink(data, name, question, asked, limit_bytes)
        note = f"{n_layers(data)} of {every} layers, full width, so as to stay below {show_bytes(limit_bytes)}"
    compute = d.dtype or d.model.dtype
    if compute not in _TORCH:
        raise SpecError("dtype", [("", f"{compute!r}: a model is built in one of {', '.join(_TORCH)}")])
    batch, context = int(plan.asked("batch")), int(plan.asked("context"))
    decode = min(DECODED, context - 1)
    arguments = {"config": data, "dtype": _TORCH[compute], "batch": batch, "prefill": context - decode, "decode": decode}
    with Worker(device) as worker:
        room = min((n for n in (worker.free, limit_bytes) if n is not None), default=None)
        if room is not None and _size(plan) > room:
            text = f"refused before building: needs {_size(plan):,} B ({show_bytes(_size(plan))}), may take {room:,} B"
            text = f"{note}; {text}" if note else text
            case = Case(d.model.id, "refused", (), plan.ledgers[0].cache_bytes, None, {}, plan.chosen, text)
            return receipt("model", worker.machine, cases=(case,))
        events = list(worker.run("model", encoder=int(plan.asked("encoder_tokens") or context), **arguments))
        with_what = next(({"transformers": e["transformers"]} for e in events if e["event"] == "weights"), {})
        return receipt("model", worker.machine | with_what, cases=(_case(plan, events, note),))


def _plan(data: dict[str, Any], name: str, question: Deployment | None, asked: dict[str, Any]) -> tuple[Plan, Deployment]:
    spec: ModelSpec = parse_spec(import_config(data, name), name)
    d = replace(question, model=spec) if question else Deployment(model=spec)
    d = replace(d, engine="transformers", **asked)
    if spec.quantization:
        d = replace(d, weight_dtype=spec.dtype)  # random weights are built in the compute type, not packed
    if d.context and d.max_num_batched_tokens is None:
        d = replace(d, max_num_batched_tokens=max(1, d.context - min(DECODED, d.context - 1)))
    return evaluate(d), d


def _size(plan: Plan) -> int:
    return sum(e.bytes for e in plan.ledgers[0].entries)


def _shrink(data: dict[str, Any], name: str, question: Deployment | None, asked: dict[str, Any], limit: int) -> Any:
    """The most layers of each kind that stay below the limit; one of each where even that is more."""
    best = None
    low, high = 1, n_layers(data)
    while low <= high:
        middle = (low + high) // 2
        small = fewer(data, middle)
        plan, d = _plan(small, name, question, asked)
        if _size(plan) <= limit or middle == 1:
            best, low = (small, plan, d), middle + 1
        else:
            high = middle - 1
    return best or (data, *_plan(data, name, question, asked))


def _case(plan: Plan, events: list[dict[str, Any]], note: str) -> Case:
    by_name = {event["event"]: event for event in events}
    entries = plan.ledgers[0].entries
    predicted = plan.ledgers[0].cache_bytes
    rows = []
    if "weights" in by_name:
        found = by_name["weights"]
        weights = sum(e.bytes for e in entries if e.kind == "weights")
        rows.append(Row("weights", weights, found["bytes"]["parameters"] + found["bytes"]["buffers"], found["measured"]))
    allocated = None
    if "cache" in by_name:
        tensors = by_name["cache"]["tensors"]
        rows += _cache_rows([(e.name, e.bytes) for e in entries if e.kind == "cache"], tensors)
        allocated = sum(t["bytes"] for t in tensors)
        rows.append(Row("storage behind the cache after decoding", None, sum(t["storage"] for t in tensors), by_name["cache"]["measured"]))
    if "peaks" in by_name:
        peaks = by_name["peaks"]
        moments = sum(e.bytes for e in entries if e.kind in ("cache", "transient"))
        rows.append(Row("storage behind the cache after prefill", None, peaks["storage_after_prefill"], peaks["after_prefill"]))
        rows += [
            Row(f"peak of {step} (planned: the larger of the two)", moments, None, {"peak": peaks[step]}) for step in ("prefill", "decode")
        ]
    status, text = _status(rows, events, by_name, allocated == predicted)
    return Case(
        plan.model.id,
        status,
        tuple(rows),
        predicted,
        allocated,
        by_name.get("cache", {}).get("measured", {}),
        plan.chosen,
        "; ".join(part for part in (note, text) if part),
    )


def _cache_rows(entries: list[tuple[str, int]], tensors: list[dict[str, Any]]) -> list[Row]:
    """One row for each name that cache tensors have: the plan's lines of that name, and the tensors of that name."""
    planned: dict[str, int] = {}
    for name, n_bytes in entries:
        parts = name.split(": ")
        planned[parts[-1]] = planned.get(parts[-1], 0) + n_bytes
    there: dict[str, int] = {}
    for t in tensors:
        there[t["name"]] = there.get(t["name"], 0) + t["bytes"]
    if there and not set(there) & set(planned):  # a list of tensors without names
        return [Row("cache: all its tensors", sum(planned.values()), sum(there.values()), {})]
    return [Row(f"cache: {name}", planned.get(name, 0), there.get(name, 0), {}) for name in dict.fromkeys((*planned, *there))]


def _status(rows: list[Row], events: list[dict[str, Any]], by_name: dict[str, Any], total_equal: bool) -> tuple[Any, str]:
    if "out of memory" in by_name:
        event = by_name["out of memory"]
        return "out of memory", f"out of memory with {event['held']:,} B held: {event['message']}"
    if events and events[-1]["event"] == "killed":
        return "killed", f"the measuring process was killed by {events[-1]['signal']}"
    return ("equal" if total_equal and all(row.equal for row in rows if row.equal is not None) else "different"), ""
