"""Predicted beside logged, line by line: what an engine's start-up log says of a plan made for the same question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kvplan import catalogue, engines
from kvplan.engines.common.logs import BYTES, Range, Rule, Target
from kvplan.engines.common.releases import is_version
from kvplan.planner.plan import Plan
from kvplan.startup_logs.hints import hints
from kvplan.startup_logs.measured import targets
from kvplan.startup_logs.read import LoggedStart


class Line(NamedTuple):
    """One line of the comparison.

    unit        bytes, tokens, blocks, cells or x
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
    """A log against the plan for its question.

    notes         what in this log may explain lines that are off
    not_compared  what the log says and no line above does: figures without a prediction, options that the plan does not have
    """

    engine: str
    version: str | None
    model: str
    question: Mapping[str, Any]
    lines: tuple[Line, ...]
    agrees: bool
    summary: str
    notes: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **self._asdict(),
            "question": dict(self.question),
            "lines": [line._asdict() for line in self.lines],
            "notes": list(self.notes),
            "not_compared": list(self.not_compared),
        }


#: Weights are exact shapes; what a log says of them holds the allocator's rounding and small buffers too.
WEIGHTS_SLACK = 0.01
#: Measured line (measured.py) -> what usually is the cause where it is off.
CAUSES: dict[str, str] = {
    "weights": "the checkpoint's formats or unquantised parts, a draft model, or offloaded weights differ from the spec",
    "activations": "max_num_seqs (sampler's warm-up), max_num_batched_tokens (layers) or images differ, or another sampler is in use",
    "outside torch": "communication buffers of another link, or other processes that started meanwhile",
    "CUDA graphs": "other capture sizes, or eager mode",
    "CUDA context": "other processes or a desktop on this device: name their bytes with --reserve",
    "distributed init": "another link between the devices than such devices usually have",
    "execution context": "max_num_tokens, max_batch_size or the plugins that the engine was built with",
    "runtime buffers and decoder": "max_batch_size, max_seq_len or the release that the engine was built with",
    "compute buffer": "n_ubatch, flash attention or the backend differ",
}


def question_of(
    start: LoggedStart, overrides: Mapping[str, Any] | None = None, *, fill: bool = False
) -> tuple[str | None, dict[str, Any]]:  # fmt: skip
    """The model and the question that a log implies, by contract names; `overrides` (also `model`) come first, None ones are left out.

    fill   overrides only fill in what the log does not say
    A log that names no device but prints its total means the packaged device of that total, where one alone has it.
    """
    mine = {name: value for name, value in (overrides or {}).items() if value is not None}
    named = start.version if start.version and is_version(start.version) else None
    question = {**start.question, "engine": start.engine, **({"engine_version": named} if named else {})}
    totals = [f.value for f in start.figures if f.name == "total_memory" and f.unit == "GiB"]
    printed_total = bool(totals) and question.get("device") == f"{totals[-1]:g}GiB"
    if fill:
        said = {*question, *(("model",) if start.model else ())} - ({"device"} if printed_total else set())
        mine = {name: value for name, value in mine.items() if name not in said}
    if "engine_option" in mine and "engine_option" in question:
        mine["engine_option"] = {**question["engine_option"], **dict(mine["engine_option"])}
    if printed_total and (known := catalogue.device_of_total(totals[-1])):
        question["device"] = known.id
    question |= mine
    model = question.pop("model", None) or start.model
    return (str(model) if model else None), question


def compare(start: LoggedStart, plan: Plan, left_out: Sequence[str] = ()) -> Reconciliation:
    """Every figure that both the log and the plan have. `left_out`: what of the log's question the plan was asked without."""
    total = _device_bytes(plan)
    lines = [_target(target, plan, total) for target in targets(start, plan)]
    compared: set[str] = set()
    for rule in engines.log(start.engine).rules:
        found, logged = rule.predicted(plan.outcome), _logged(start, rule)
        if found is not None and logged is not None:
            compared.add(rule.figure)
            lines.append(_line(rule.name, rule.unit, rule.cause, found, logged, total))
    off = [line.name for line in lines if line.verdict == "off"]
    if not lines:
        summary = "the log has no figure that the plan predicts"
    elif off:
        summary = f"{len(off)} of {len(lines)} lines are off: {', '.join(off)}"
    else:
        summary = f"all {len(lines)} lines are within their intervals"
    question = {name: value for name, (value, _) in plan.question.items()}
    notes = hints(start, plan) if off or not lines else ()
    return Reconciliation(start.engine, start.version, plan.model.id, question, tuple(lines), bool(lines) and not off, summary, notes,
                          (*left_out, *_not_compared(start, plan, compared, bool(lines))))  # fmt: skip


#: Figures that measure a line by themselves or with others (each engine's `measured`), or only say what was there.
_MEASURED = frozenset({
    "weights", "activation_peak", "non_torch", "torch_peak", "distributed", "free_memory", "total_memory", "free_after_load", "requested",
    "free_after_pool", "free_after_graphs", "consumed", "k_size", "v_size", "attention_block", "least_fraction", "model_buffer",
})  # fmt: skip
MOST_NAMED = 8


def _not_compared(start: LoggedStart, plan: Plan, compared: set[str], some: bool) -> Iterator[str]:
    """One sentence for each kind of thing in the log that no line holds against the plan."""
    figures = sorted({f.name for f in start.figures} - compared - (_MEASURED if some else set()) - {"in_use"})
    if figures:
        yield f"figures without a prediction: {', '.join(name.replace('_', ' ') for name in figures)}"
    if start.unread:
        yield "options that change memory and that no name of a question says: " + _listed(f"{k}={v}" for k, v in start.unread.items())
    if start.unknown:
        yield f"options that {start.engine}'s table does not have: {_listed(start.unknown)}"
    missing = [name for name in ("device", "tp", "engine_version") if plan.question[name][1] != "you"]
    if start.is_page and missing:
        yield f"a page of metrics does not say {', '.join(missing)}: give it where it is not the default"
    if (used := start.value("in_use")) is not None:
        yield f"how full the cache is ({used:.1%} when it was read): what requests hold, no part of a plan"


def _listed(names: Iterable[str]) -> str:
    every = [name[:60] for name in names]
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more


def _device_bytes(plan: Plan) -> int | None:
    limits = [ledger.limit_bytes for ledger in plan.ledgers if ledger.limit_bytes]
    fraction = plan.asked("memory_fraction") if engines.log(str(plan.asked("engine"))).capped else None
    return int(limits[0] / (fraction or 1)) if limits else None


def _target(target: Target, plan: Plan, total: int | None) -> Line:
    lines = target.predicted(plan.ledgers[0].entries)
    found = Range(sum(e.bytes for e in lines), sum(e.low for e in lines), sum(e.high for e in lines))
    rounding = 0.005 * BYTES["GiB"] + (WEIGHTS_SLACK * target.n_bytes if target.line == "weights" else 0)
    return _line(target.line, "bytes", CAUSES[target.line], found, (target.n_bytes, rounding), total)


def _logged(start: LoggedStart, rule: Rule) -> tuple[float, float] | None:
    """The logged value in the line's unit, and half its last printed digit."""
    found = [f for f in start.figures if f.name == rule.figure]
    if not found or (value := start.value(rule.figure)) is None:
        return None
    scale = BYTES.get(found[0].unit, 1)
    digits = len(f"{value:g}".partition(".")[2])
    rounding = 0.5 * 10 ** -max(digits, 2) if rule.unit in ("bytes", "x") else 0.5
    return value * scale, rounding * scale


def _line(name: str, unit: str, cause: str, found: Range, logged: tuple[float, float], total: int | None) -> Line:
    value, rounding = logged
    slack = rounding + 0.0005 * abs(value)  # a logged figure is rounded, and ranks differ by crumbs
    inside = found.low - slack <= value <= found.high + slack
    difference = found.value - value
    share = difference / total if total and unit == "bytes" else None
    return Line(
        name, unit, found.value, found.low, found.high, value, difference, share, "within" if inside else "off", None if inside else cause
    )
