"""Predicted beside logged, line by line: what an engine's start-up log says of a plan made for the same question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from kvplan import catalogue
from kvplan.engines.base import Capacity
from kvplan.ledger import Ledger
from kvplan.planner.plan import Plan
from kvplan.startup_logs.read import LoggedStart
from kvplan.units import GIB, MIB

_BYTES = {"GiB": GIB, "MiB": MIB}


class Range(NamedTuple):
    """What is predicted: the estimate and the ends of its 90 % interval, equal where it is exact."""

    value: float
    low: float
    high: float


class Line(NamedTuple):
    """One line of the comparison.

    unit        bytes, tokens, blocks or x
    difference  predicted - logged; of_device: that as a share of device memory (bytes on a known device alone)
    verdict     within the interval (or the log's rounding); else off, and `cause` says what usually does that
    """

    name: str
    unit: str
    predicted: float
    low: float
    high: float
    logged: float
    difference: float
    of_device: float | None
    verdict: Literal["within", "off"]
    cause: str | None


class Reconciliation(NamedTuple):
    """A log against the plan for its question. `missing`: what the question lacked and the log did not say."""

    engine: str
    version: str | None
    model: str
    question: Mapping[str, Any]
    lines: tuple[Line, ...]
    agrees: bool
    summary: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "question": dict(self.question), "lines": [line._asdict() for line in self.lines]}


class Rule(NamedTuple):
    """A figure of a log, where a plan has it, and why they differ when they do."""

    name: str
    figure: str
    unit: str
    predicted: Callable[[Plan], Range | None]
    cause: str


def _entries(*starts: str) -> Callable[[Plan], Range | None]:
    """The lines of the first rank whose names begin so, together."""

    def find(plan: Plan) -> Range | None:
        lines = [e for e in plan.ledgers[0].entries if e.name.startswith(starts)] if plan.ledgers else []
        if not lines:
            return None
        return Range(sum(e.bytes for e in lines), sum(e.low for e in lines), sum(e.high for e in lines))

    return find


def _left(ledger: Ledger) -> int:
    cache = next((e.bytes for e in ledger.entries if e.name == "KV cache"), 0)
    return cache if ledger.limit_bytes is None else ledger.limit_bytes - ledger.total_bytes + cache


def _cache(plan: Plan) -> Range | None:
    if plan.capacity is None or not plan.ledgers:
        return None
    left, kv = min(_left(ledger) for ledger in plan.ledgers), plan.capacity.kv_bytes
    return Range(left, left - (kv - plan.capacity.kv_bytes_low), left + (plan.capacity.kv_bytes_high - kv))


def _counted(name: str) -> Callable[[Plan], Range | None]:
    """A count of the capacity; its interval follows the cache's."""

    def find(plan: Plan) -> Range | None:
        c: Capacity | None = plan.capacity
        value = getattr(c, name) if c is not None else None
        if c is None or value is None or not c.kv_bytes:
            return None
        return Range(value, value * c.kv_bytes_low / c.kv_bytes, value * c.kv_bytes_high / c.kv_bytes)

    return find


_WEIGHTS = "the checkpoint's formats or unquantised parts, a draft model, or offloaded weights differ from the spec"
_CACHE = "the sum of the lines above; or other processes' memory, or another max_num_seqs, length or release than the log says"
_COUNT = "cache bytes above; where those agree, the cache format, block size or layer grouping"

RULES: dict[str, tuple[Rule, ...]] = {
    "vllm": (
        Rule("weights", "weights", "bytes", _entries("weights", "LoRA"), _WEIGHTS),
        Rule("activations", "activation_peak", "bytes", _entries("activations"),
             "max_num_seqs (sampler's warm-up), max_num_batched_tokens (layers) or images differ, or another sampler is in use"),
        Rule("outside torch", "non_torch", "bytes", _entries("outside torch"),
             "communication buffers of another link, or other processes that started meanwhile"),
        Rule("CUDA graphs", "cuda_graph", "bytes", _entries("CUDA graphs"), "other capture sizes, or eager mode"),
        Rule("cache", "kv_cache", "bytes", _cache, _CACHE),
        Rule("blocks", "blocks", "blocks", _counted("blocks"), _COUNT),
        Rule("tokens", "tokens", "tokens", _counted("tokens"), _COUNT),
        Rule("concurrency", "concurrency", "x", _counted("max_concurrency"), _COUNT),
    ),
    "sglang": (
        Rule("weights", "weights", "bytes", _entries("weights"), _WEIGHTS),
        Rule("cache", "kv_cache", "bytes", _cache, "free memory before loading, on which the fraction is taken, was another"),
        Rule("tokens", "tokens", "tokens", _counted("tokens"), _COUNT),
    ),
    "tensorrt-llm": (
        Rule("weights", "weights", "bytes", _entries("weights"), _WEIGHTS),
        Rule("cache", "kv_cache", "bytes", _cache, "the engine's own buffers: batch size and token limits it was built with"),
        Rule("blocks", "blocks", "blocks", _counted("blocks"), _COUNT),
        Rule("tokens", "tokens", "tokens", _counted("tokens"), _COUNT),
    ),
    "llama.cpp": (
        Rule("weights", "model_buffer", "bytes", _entries("weights"), "layers off the device, or the file's formats by tensor"),
        Rule("cache", "kv_size", "bytes", _entries("KV cache"), "context, sequences, unified cells or cache types differ"),
        Rule("compute buffer", "compute_buffer", "bytes", _entries("compute"), "n_ubatch, flash attention or the backend differ"),
    ),
}  # fmt: skip


def question_of(start: LoggedStart, overrides: Mapping[str, Any] | None = None) -> tuple[str | None, dict[str, Any]]:
    """The model and the question that a log implies, by contract names; `overrides` (also `model`) come first, None ones are left out.

    A log that names no device but prints its total means the packaged device of that total, where one alone has it.
    """
    mine = {name: value for name, value in (overrides or {}).items() if value is not None}
    question = {**start.question, "engine": start.engine, **({"engine_version": start.version} if start.version else {})}
    if "engine_option" in mine and "engine_option" in question:
        mine["engine_option"] = {**question["engine_option"], **dict(mine["engine_option"])}
    totals = [f.value for f in start.figures if f.name == "total_memory" and f.unit == "GiB"]
    if totals and question.get("device") == f"{totals[-1]:g}GiB" and (known := catalogue.device_of_total(totals[-1])):
        question["device"] = known.id
    question |= mine
    model = question.pop("model", None) or start.model
    return (str(model) if model else None), question


def compare(start: LoggedStart, plan: Plan) -> Reconciliation:
    """Every figure that both the log and the plan have."""
    total = _device_bytes(plan)
    lines = []
    for rule in RULES.get(start.engine, ()):
        found, logged = rule.predicted(plan), _logged(start, rule)
        if found is not None and logged is not None:
            lines.append(_line(rule, found, logged, total))
    off = [line.name for line in lines if line.verdict == "off"]
    if not lines:
        summary = "the log has no figure that the plan predicts"
    elif off:
        summary = f"{len(off)} of {len(lines)} lines are off: {', '.join(off)}"
    else:
        summary = f"all {len(lines)} lines are within their intervals"
    question = {name: value for name, (value, _) in plan.question.items()}
    return Reconciliation(start.engine, start.version, plan.model.id, question, tuple(lines), bool(lines) and not off, summary)


def _device_bytes(plan: Plan) -> int | None:
    limits = [ledger.limit_bytes for ledger in plan.ledgers if ledger.limit_bytes]
    fraction = plan.question.get("memory_fraction", (None,))[0]
    return int(limits[0] / fraction) if limits and fraction else None


def _logged(start: LoggedStart, rule: Rule) -> tuple[float, float] | None:
    """The logged value in the line's unit, and half its last printed digit."""
    found = [f for f in start.figures if f.name == rule.figure]
    if not found or (value := start.value(rule.figure)) is None:
        return None
    scale = _BYTES.get(found[0].unit, 1)
    digits = len(f"{value:g}".partition(".")[2])
    rounding = 0.5 * 10 ** -max(digits, 2) if rule.unit in ("bytes", "x") else 0.5
    return value * scale, rounding * scale


def _line(rule: Rule, found: Range, logged: tuple[float, float], total: int | None) -> Line:
    value, rounding = logged
    slack = rounding + 0.0005 * abs(value)  # a logged figure is rounded, and ranks differ by crumbs
    inside = found.low - slack <= value <= found.high + slack
    difference = found.value - value
    share = difference / total if total and rule.unit == "bytes" else None
    return Line(
        rule.name, rule.unit, found.value, found.low, found.high, value, difference, share, "within" if inside else "off",
        None if inside else rule.cause,
    )  # fmt: skip
