"""What a log measured of a plan's lines: figures as printed, in bytes, and the ledger entries that predict them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.ledger import Entry
from kvplan.planner.plan import Plan
from kvplan.startup_logs.patterns import Figure
from kvplan.startup_logs.read import LoggedStart
from kvplan.units import GIB, MIB

BYTES = {"GiB": GIB, "MiB": MIB}
CONTEXT = "CUDA context"
OTHERS = 2 * GIB  # beyond the interval: a desktop, not a server beside this one


class Target(NamedTuple):
    """One measured line: its name in a record, the entries that it measures (by how their names begin), and its bytes."""

    line: str
    entries: tuple[str, ...]
    n_bytes: int

    def predicted(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        return tuple(e for e in entries if e.name.startswith(self.entries))


def targets(start: LoggedStart, plan: Plan) -> list[Target]:
    """The lines that this log measures, of those that the plan predicts."""
    if not plan.ledgers:
        return []
    return [t for t in _READERS[start.engine](start, plan) if t.n_bytes >= 0 and t.predicted(plan.ledgers[0].entries)]


def own_targets(start: LoggedStart, plan: Plan) -> list[Target]:
    """The same without figures that hold far more than a process' own: what others held on the device is nobody's constant."""
    found = []
    for target in targets(start, plan):
        most = sum(e.high for e in target.predicted(plan.ledgers[0].entries)) + OTHERS
        if target.n_bytes <= most or not counts_others(start, target):
            found.append(target)
    return found


def counts_others(start: LoggedStart, target: Target) -> bool:
    """Whether what other processes hold on the device is in this figure."""
    return target.line == CONTEXT or (start.engine == "tensorrt-llm" and target.line == "outside torch")


def record_lines(start: LoggedStart, plan: Plan) -> dict[str, int]:
    """The same as lines of a record: an entry that a target holds beside the line it is named by is then zero."""
    entries = plan.ledgers[0].entries if plan.ledgers else ()
    lines: dict[str, int] = {}
    for target in own_targets(start, plan):
        others = {e.name: 0 for e in target.predicted(entries) if e.basis == "modelled" and not e.name.startswith("weights: ")}
        lines |= {**others, target.line: target.n_bytes}
    return lines


def on_device(figure: Figure) -> bool:
    """Whether a buffer of llama.cpp is on a device: host buffers are named CPU, CPU_Mapped, CUDA_Host and the like."""
    return not (figure.rank or "").startswith("CPU") and not (figure.rank or "").endswith("_Host")


def _bytes(start: LoggedStart, name: str) -> int | None:
    value = start.value(name)
    unit = next((f.unit for f in start.figures if f.name == name), "GiB")
    return None if value is None else int(value * BYTES.get(unit, 1))


def _total(start: LoggedStart, plan: Plan) -> int | None:
    """The device's memory: as this log prints it, else as the plan has it."""
    return _bytes(start, "total_memory") or (plan.ledgers[0].limit_bytes if plan.ledgers else None)


def _sum(plan: Plan, *begins: str) -> int:
    return sum(e.bytes for e in plan.ledgers[0].entries if e.name.startswith(begins))


def _vllm(start: LoggedStart, plan: Plan) -> list[Target]:
    named = (
        ("weights", "weights", ("weights", "LoRA")),
        ("activation_peak", "activations", ("activations",)),
        ("non_torch", "outside torch", ("outside torch",)),
    )
    return [Target(line, entries, n) for figure, line, entries in named if (n := _bytes(start, figure)) is not None]


def _sglang(start: LoggedStart, plan: Plan) -> list[Target]:
    found = []
    weights, total = _bytes(start, "weights"), _total(start, plan)
    if weights is not None:
        found.append(Target("weights", ("weights: ", "weight loading"), weights))
    frees = [f.value for f in start.figures if f.name == "free_memory"]
    if not frees or total is None:
        return found
    gone = total - int(min(frees) * GIB) - _value(plan, "reserve", 0)
    link, ranks = _bytes(start, "distributed"), _value(plan, "tp") * _value(plan, "pp")
    if ranks > 1:
        link = gone - _sum(plan, "CUDA context") if link is None else link
        found.append(Target("distributed init", ("distributed init",), link))
    found.append(Target(CONTEXT, ("CUDA context",), gone - (link or 0 if ranks > 1 else 0)))
    return found


def _tensorrt_llm(start: LoggedStart, plan: Plan) -> list[Target]:
    weights, activation, peak = (_bytes(start, name) for name in ("weights", "activation_peak", "peak"))
    found = [Target("weights", ("weights: ", "weight loading"), weights)] if weights is not None else []
    if activation is not None:
        found.append(Target("activations", ("activations",), activation))
        if peak is not None and weights is not None:
            found.append(Target("outside torch", ("outside torch", "communication buffers"), peak - weights - activation))
        return found
    execution, runtime, decoder = (_bytes(start, name) for name in ("execution", "runtime_buffers", "decoder"))
    if execution is not None:
        found.append(Target("execution context", ("execution context", "logits"), execution))
    if runtime is not None and decoder is not None:
        found.append(Target("runtime buffers and decoder", ("runtime buffers", "sequence tables"), runtime + decoder))
    total, free = _bytes(start, "total_memory"), _bytes(start, "free_memory")
    if None not in (weights, execution, runtime, decoder, total, free):
        rest = total - free - weights - execution - runtime - decoder - _value(plan, "reserve", 0)  # type: ignore[operator]
        found.append(Target(CONTEXT, ("CUDA context", "communication buffers"), rest))
    return found


def _llama_cpp(start: LoggedStart, plan: Plan) -> list[Target]:
    if _value(plan, "n_devices") > 1:
        return []  # which buffer is whose is the engine's own order; one device alone is measured
    found = []
    for figure, line, entries in (("model_buffer", "weights", ("weights: ",)), ("compute_buffer", "compute buffer", ("compute buffer",))):
        mine = [f for f in start.figures if f.name == figure and on_device(f)]
        if mine:
            found.append(Target(line, entries, int(mine[-1].value * MIB)))
    total, free = plan.ledgers[0].limit_bytes, _bytes(start, "free_memory")
    if total is not None and free is not None:
        found.append(Target(CONTEXT, ("CUDA context",), total - free - _value(plan, "reserve", 0)))
    return found


def _value(plan: Plan, name: str, otherwise: int = 1) -> int:
    return int(plan.question[name][0] or otherwise)


_READERS: dict[str, Callable[[LoggedStart, Plan], list[Target]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
    "llama.cpp": _llama_cpp,
}
