"""Predicted beside measured: validates a plan, every layer kind, or a list of receipts. This file allocates nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.deployment import Deployment
from kvplan.errors import ProbeError
from kvplan.units import show_bytes
from kvplan.validate import segments
from kvplan.validate.child import Worker
from kvplan.validate.description import Layout
from kvplan.validate.predict import Predicted, Proposal, fewer_layers, propose
from kvplan.validate.receipts import Case, Receipt, Row, exponent, receipt, verdict


def validate(
    d: Deployment,
    *,
    device: str = "cpu",
    layout: Layout = "contiguous",
    limit_bytes: int | None = None,
    force: bool = False,
    headroom_bytes: int | None = None,
) -> Receipt:
    """Allocates what the fullest rank of the plan holds, writes all of it, measures, and compares line by line.

    device          `cpu`, `cuda`, `cuda:1`: where to allocate (the question's own device is what it is planned for)
    layout          contiguous, or growing by concatenation; a question with a block size is always paged
    limit_bytes     allocate fewer layers of each kind where the plan takes more; the receipt says so
    force           try even what the plan says can not fit
    headroom_bytes  let the measuring process have only so much more memory than it starts with (CPU)

    Out of memory and refused are statuses of the returned Receipt. Raises UnsupportedError without torch or for an engine with pools of
    its own, ProbeError without such a device.
    """
    proposal = propose(d, layout)
    if limit_bytes is not None:
        proposal = fewer_layers(proposal, limit_bytes)
    return _run("caches", [proposal], device, force, headroom_bytes)


def all_kinds(*, device: str = "cpu", target_bytes: int = 256 << 20, only: Sequence[str] = ()) -> Receipt:
    """One case for every layer kind, and for the layouts and storage formats, each of about `target_bytes`, one after the other."""
    from kvplan.validate.kinds import cases

    return _run("kinds", [case for case in cases(target_bytes) if not only or case.name in only], device, False, None)


#: Tokens at which a decode step is timed: below 8,192 an H200 does little but launch a layer's kernels (validation/cuda-speed.json).
ON_CPU, ON_GPU = (256, 512, 1024, 2048, 4096), (8192, 16384, 32768, 65536, 131072)


def speed(*, device: str = "cpu", lengths: Sequence[int] | None = None, seconds: float = 0.5) -> Receipt:
    """Times one decode step of one layer with and without its cache at each length, and the cache's reads against a plain copy.

    On a CPU with one thread: several wait for one another, and on a busy machine for the slowest.

    The receipt's `speed`: points [{length, cache_bytes, with_cache_s, without_cache_s, read_s}], exponents of growth (0 flat, 1 linear,
    2 quadratic), read_bytes_per_s at the longest length, copy_bytes_per_s.
    """
    with Worker(device, threads=1 if device == "cpu" else None) as worker:
        lengths = lengths or (ON_CPU if device == "cpu" else ON_GPU)
        events = list(worker.run("speed", lengths=list(lengths), seconds=seconds))
        if events[-1]["event"] == "killed":
            raise ProbeError(f"the measuring process was killed by {events[-1]['signal']}")
        points = _told(events, "length")
        found: dict[str, Any] = {"points": points}
        for event in events:
            if event["event"] == "copy":
                found["copy_bytes_per_s"] = event["bytes"] / event["seconds"]
        if len(points) > 1:
            found["exponents"] = {
                name: exponent([p["length"] for p in points], [p[name] for p in points])
                for name in ("with_cache_s", "without_cache_s", "read_s")
            }
            found["read_bytes_per_s"] = points[-1]["cache_bytes"] / points[-1]["read_s"]
        return receipt("speed", worker.machine, speed=found)


def _run(subject: Any, proposals: list[Proposal], device: str, force: bool, headroom: int | None) -> Receipt:
    with Worker(device) as worker:
        needs = _needs(worker, proposals)
        free = worker.free
        refused = [not force and free is not None and n > free for n in needs]
        going = [p for p, no in zip(proposals, refused, strict=True) if not no]
        done: list[Case] = []
        if going:
            events = list(worker.run("caches", cases=[_shapes(p) for p in going], headroom=headroom))
            if found := _told(events, "overheads"):
                worker.machine |= {"overheads": found[0]}
            done = _collect(going, [e for e in events if e["event"] != "overheads"])
        rest = iter(done)
        cases = [_refusal(p, n, free or 0) if no else next(rest) for p, n, no in zip(proposals, needs, refused, strict=True)]
        return receipt(subject, worker.machine, cases=tuple(cases))


def _told(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """What the events of one name say."""
    return [{key: value for key, value in event.items() if key != "event"} for event in events if event["event"] == name]


def _shapes(p: Proposal) -> list[dict[str, Any]]:
    return [row.shape._asdict() for row in p.rows]


def _needs(worker: Worker, proposals: list[Proposal]) -> list[int]:
    """Bytes that must be free for each: the plan's and what growing holds for a moment; on a GPU in segments of torch's allocator."""
    moments = [max((_piece(row) for row in p.rows if row.shape.layout == "growing"), default=0) for p in proposals]
    if worker.machine["device"] == "cpu":
        return [p.total_bytes + moment for p, moment in zip(proposals, moments, strict=True)]
    found = worker.run("sizes", cases=[_shapes(p) for p in proposals])
    taken = [segments.predict(event["sizes"]).reserved for event in found]
    return [max(p.total_bytes, n) + moment for p, n, moment in zip(proposals, taken, moments, strict=True)]


def _piece(row: Predicted) -> int:
    """One sequence's buffer in one layer."""
    return row.bytes // (row.shape.layers * row.shape.sequences)


def _refusal(p: Proposal, needs: int, free: int) -> Case:
    note = f"refused before allocating: needs {needs:,} B ({show_bytes(needs)}), {free:,} B ({show_bytes(free)}) are free"
    rows = tuple(Row(_name(row), row.bytes, None, {}, row.shape) for row in p.rows)
    return Case(p.name, "refused", rows, p.total_bytes, None, {}, p.question, note)


def _name(row: Predicted) -> str:
    return f"{row.shape.line} {row.shape.tensor}"


def _collect(proposals: list[Proposal], events: Any) -> list[Case]:
    rows: list[dict[int, Row]] = [{} for _ in proposals]
    sizes: list[list[int]] = [[] for _ in proposals]
    ends: dict[int, dict[str, Any]] = {}
    killed: dict[str, Any] = {}
    for event in events:
        if event["event"] == "row":
            n, i = event["case"], event["row"]
            one = proposals[n].rows[i]
            sizes[n] += event["requested"]
            rows[n][i] = Row(_name(one), one.bytes, event["allocated"], event["measured"], one.shape, event["peak"], event["bookkeeping"])
        elif event["event"] == "killed":
            killed = event
        else:
            ends[event["case"]] = event
    return [_close(p, rows[n], sizes[n], ends.get(n, killed)) for n, p in enumerate(proposals)]


def _close(p: Proposal, found: dict[int, Row], sizes: list[int], end: dict[str, Any]) -> Case:
    rows = tuple(found.get(i) or Row(_name(row), row.bytes, None, {}, row.shape) for i, row in enumerate(p.rows))
    allocated = sum(row.allocated_bytes or 0 for row in rows)
    measured: dict[str, int | None] = end.get("measured", {})
    # growing by concatenation frees on the way: what torch then keeps in its segments depends on what it found free
    grows = any(row.shape.layout == "growing" for row in p.rows)
    on_gpu = segments.predict(sizes)._asdict() if "torch_allocated" in measured and not grows else None
    if end["event"] == "case":
        return Case(p.name, verdict(rows, p.total_bytes), rows, p.total_bytes, allocated, measured, p.question, "", on_gpu)
    if end["event"] == "out of memory":
        note = f"out of memory with {end['held']:,} B ({show_bytes(end['held'])}) of {p.total_bytes:,} B allocated: {end['message']}"
        return Case(p.name, "out of memory", rows, p.total_bytes, end["held"], {}, p.question, note)
    note = f"the measuring process was killed by {end['signal']} with at least {allocated:,} B ({show_bytes(allocated)}) allocated"
    return Case(p.name, "killed", rows, p.total_bytes, allocated, {}, p.question, note)


def table(found: Receipt) -> list[dict[str, Any]]:
    """A receipt's rows for people: predicted beside allocated beside measured, a total for each case."""
    lines = []
    for case in found.cases:
        for row in case.rows:
            lines.append(_line(case.name, row.name, row.predicted_bytes, row.allocated_bytes, row.measured_bytes, row.equal, row.shape))
        main = next((n for n in case.measured.values() if n is not None), None)
        same = None if case.allocated_bytes is None else case.allocated_bytes == case.predicted_bytes
        lines.append(_line(case.name, case.note or "total", case.predicted_bytes, case.allocated_bytes, main, same))
    return lines


def _line(
    case: str, name: str, predicted: int | None, allocated: int | None, measured: int | None, equal: bool | None, shape: Any = None
) -> Any:
    return {
        "case": case,
        "line": name,
        "format": shape.element if shape else "",
        "predicted": predicted,
        "allocated": allocated,
        "equal": equal,
        "measured": measured,
    }
