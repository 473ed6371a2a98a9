"""What in a log itself may explain why it and its plan differ: other processes, ranks, the release, flags that were not read."""

from __future__ import annotations

from kvplan import engines
from kvplan.planner.plan import Plan
from kvplan.startup_logs.measured import own_targets, targets
from kvplan.startup_logs.read import LoggedStart
from kvplan.units import GIB, MIB, show_bytes

#: What a process' own context may take before anything else is in use on a device.
_OWN = GIB
_UNEVEN = 0.02


def hints(start: LoggedStart, plan: Plan) -> tuple[str, ...]:
    """One sentence each, the likeliest first."""
    found = [
        _refused(plan),
        _device(plan),
        _others(start, plan),
        _ranks(start, plan),
        _uneven(start),
        _release(start, plan),
        _unread(start),
        _parallel(start, plan),
    ]
    return tuple(hint for hint in found if hint)


def _refused(plan: Plan) -> str | None:
    return f"the plan says that the engine would not start: {plan.outcome.reason}" if plan.starts is False else None


def _device(plan: Plan) -> str | None:
    return "the log names no device: name it with --device" if plan.asked("device") is None else None


def _others(start: LoggedStart, plan: Plan) -> str | None:
    """Memory that was taken before the engine began."""
    free = [f for f in start.figures if f.name == "free_memory"]
    total = plan.ledgers[0].limit_bytes if plan.ledgers else None
    printed = start.value("total_memory")
    if printed is not None:
        total = int(printed * GIB)
    if engines.log(start.engine).free_late:
        return _beside(start, plan)
    if not free or total is None:
        return None
    least = min(f.value * (MIB if f.unit == "MiB" else GIB) for f in free)
    own = sum(e.bytes for ledger in plan.ledgers[:1] for e in ledger.entries if e.name in ("CUDA context", "distributed init"))
    taken = int(total - least - max(own, _OWN)) - int(plan.asked("reserve") or 0)
    if taken < GIB // 2:
        return None
    return (
        f"{show_bytes(int(total - least))} of {show_bytes(total)} were in use when the engine started, about {show_bytes(taken)} of it by "
        f"others: --reserve {taken // MIB}MiB"
    )


def _beside(start: LoggedStart, plan: Plan) -> str | None:
    """Figures that hold what others have on the device, and far more than is expected."""
    own = own_targets(start, plan)
    for target in targets(start, plan):
        if target not in own:
            most = sum(e.bytes for e in target.predicted(plan.ledgers[0].entries))
            more = target.n_bytes - most
            return f"{target.line} holds {show_bytes(target.n_bytes)}, about {show_bytes(more)} of it others': --reserve {more // MIB}MiB"
    return None


def _ranks(start: LoggedStart, plan: Plan) -> str | None:
    """More ranks in the log than in the question."""
    seen = {f.rank for f in start.figures if f.rank and f.name in ("kv_cache", "weights")}
    sizes = {name: int(plan.asked(name) or 1) for name in ("tp", "pp", "dp")}
    expected = sizes["tp"] * sizes["pp"] * sizes["dp"]
    if engines.log(start.engine).buffers or len(seen) <= expected:
        return None
    return f"{len(seen)} ranks print in this log, {expected} are in the question: name --tp, --pp or --dp"


def _uneven(start: LoggedStart) -> str | None:
    """Ranks that differ: the smallest one's cache counts."""
    values = [f.value for f in start.figures if f.name == "kv_cache" and f.rank]
    if len(values) < 2 or max(values) - min(values) <= _UNEVEN * max(values):
        return None
    return f"ranks have {min(values):g} to {max(values):g} GiB for their cache: the smallest counts; something else runs beside one of them"


def _release(start: LoggedStart, plan: Plan) -> str | None:
    used, chosen_by = plan.question["engine_version"]
    if start.version is None and chosen_by != "you":
        return f"the log names no release: the rules of {start.engine} {used} are used; name --engine-version"
    return next((note for note in plan.model.notes if "is not a release we know" in note or "is not known by itself" in note), None)


def _unread(start: LoggedStart) -> str | None:
    if not start.unread:
        return None
    said = ", ".join(f"{name}={str(value)[:40]}" for name, value in list(start.unread.items())[:8])
    return f"flags that change memory and that a question does not have: {said}"


def _parallel(start: LoggedStart, plan: Plan) -> str | None:
    if not engines.log(start.engine).buffers or int(plan.asked("n_devices") or 1) > 1:
        return None
    devices = {f.rank for f in start.figures if f.name == "model_buffer" and f.rank and not f.rank.startswith("CPU") and "_" not in f.rank}
    return f"{len(devices)} devices hold the model: name --n-devices {len(devices)}" if len(devices) > 1 else None
