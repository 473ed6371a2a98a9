"""Simulations as text: a table with a column for each policy, the contract's object, or a flat row for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvplan.planner.simulation import Simulation, Size
from kvplan.report import render_data, render_rows
from kvplan.report.printable import one_line, prose
from kvplan.report.structured import dump
from kvplan.simulate.result import Moments, SimulationResult
from kvplan.units import show_bytes


def render(simulations: Sequence[Simulation], fmt: str) -> str | bytes:
    """The simulations in a format: structured ones print an object for one and an array for several."""
    if fmt in ("json", "yaml"):
        objects = [simulation.as_dict() for simulation in simulations]
        return dump(objects[0] if len(objects) == 1 else objects, fmt)
    if fmt in ("csv", "jsonl", "parquet"):
        return render_data([_flat(simulation, result) for simulation in simulations for result in simulation.policies], fmt)
    return "\n\n".join(_one(simulation, fmt) for simulation in simulations)


def _one(simulation: Simulation, fmt: str) -> str:
    parts = [prose(_head(simulation), fmt)]
    if simulation.policies:
        rows = [{"": name} | {one.policy: show(one, simulation) for one in simulation.policies} for name, show in ROWS]
        parts.append(render_rows([row for row in rows if any(value != "" for value in list(row.values())[1:])], fmt))
    if simulation.size is not None:
        parts.append(prose(_size(simulation, simulation.size), fmt))
    if simulation.notes:
        parts.append(prose("\n".join(f"note: {one_line(note)}" for note in simulation.notes), fmt))
    return "\n\n".join(parts)


def _flat(simulation: Simulation, result: SimulationResult) -> dict[str, Any]:
    row: dict[str, Any] = {"model": simulation.plan.model.id}
    row |= {name: value for name, (value, by) in simulation.plan.question.items() if by == "you" and name not in ("model", "engine_option")}
    row |= simulation.workload
    for name, value in result.as_dict().items():
        if isinstance(value, dict):
            row |= {f"{name}_{part}": number for part, number in value.items()} if name != "timeline" else {}
        elif name != "beside":
            row[name] = value
    return row


def _head(simulation: Simulation) -> str:
    plan, what = simulation.plan, simulation.workload
    asked = {name: value for name, (value, _) in plan.question.items()}
    where = f"on {asked['n_devices'] or 1} x {asked['device']}" if asked["device"] else "in the memory given"
    own = next((result for result in simulation.policies if result.policy == "paged"), None)
    pool = f": {own.pages:,} pages of {simulation.page_tokens:,} tokens, {show_bytes(simulation.page_bytes)} a page and rank" if own else ""
    rate = f"{what['rate']:g} a second" if what["rate"] else "at the trace's times" if what["trace"] else "all at once"
    many = f"{what['requests']:,} requests" if what["requests"] else "all requests"
    model = f"{one_line(plan.model.name)} ({one_line(plan.model.id)})"
    return f"{model}, {asked['engine']} {where}{pool}\n{many} of {one_line(what['trace'] or what['name'])}, {rate}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _spread(m: Moments, unit: str = "") -> str:
    return " / ".join(f"{value:,.4g}" if unit else f"{value:,.0f}" for value in (m.mean, m.p50, m.p99, m.most)) + (unit and f" {unit}")


def _when(value: int | float, text: str) -> str:
    return text if value else ""


Show = Callable[[SimulationResult, Simulation], str]
ROWS: list[tuple[str, Show]] = [
    ("requests finished", lambda r, _: f"{r.requests:,}"),
    ("rejected: longer than the longest request", lambda r, _: _when(r.too_long, f"{r.too_long:,}")),
    ("rejected: more than the pool", lambda r, _: _when(r.rejected - r.too_long, f"{r.rejected - r.too_long:,}")),
    ("simulated time, steps", lambda r, _: f"{r.seconds:,.1f} s, {r.steps:,}"),
    ("tokens a second", lambda r, _: f"{r.tokens / r.seconds:,.0f}" if r.seconds else "-"),
    ("of the pool: tokens stored", lambda r, _: _percent(r.stored)),
    ("of the pool: reserved for tokens to come", lambda r, _: _percent(r.reserved)),
    ("of the pool: internal fragmentation", lambda r, _: _percent(r.internal)),
    ("of the pool: free, or external fragmentation", lambda r, _: _percent(r.external)),
    ("of pages in use: tokens stored", lambda r, _: _percent(r.of_used)),
    ("pages in use: mean / p50 / p99 / most", lambda r, _: _spread(r.pages_used)),
    ("pages one could give back (p99)", lambda r, s: f"{r.spare_pages:,} ({show_bytes(int(r.spare_pages * _page(r, s)))})"),
    ("prefix tokens found", lambda r, _: _when(r.asked_tokens, f"{r.hit_tokens:,} of {r.asked_tokens:,} ({_percent(r.hit_rate)})")),
    ("cached pages evicted", lambda r, _: _when(r.evicted, f"{r.evicted:,}")),
    ("pages saved by sharing", lambda r, _: _when(r.saved, _percent(r.saved))),
    ("running: mean / p50 / p99 / most", lambda r, _: _spread(r.running)),
    ("longest requests promised at once", lambda r, _: "-" if r.promised is None else f"{r.promised:,.2f}"),
    ("waiting: mean / p50 / p99 / most", lambda r, _: _spread(r.queued)),
    ("wait: mean / p50 / p99 / most", lambda r, _: _spread(r.waited, "s")),
    ("first token: mean / p50 / p99 / most", lambda r, _: _spread(r.first_token, "s")),
    ("end: mean / p50 / p99 / most", lambda r, _: _spread(r.latency, "s")),
    ("other pools: most pages in use", lambda r, _: ", ".join(f"{one.kind} {one.most:,} of {one.pages:,}" for one in r.beside)),
    ("requests kept waiting for pages", lambda r, _: f"{r.kept_waiting:,}"),
    ("preempted requests, preemptions", lambda r, _: f"{r.preempted:,}, {r.preemptions:,}"),
]


def _page(result: SimulationResult, simulation: Simulation) -> float:
    """Bytes of one of the policy's pages: contiguous ones are token slots."""
    paged = next((one.pages for one in simulation.policies if one.policy == "paged"), None)
    if result.policy == "paged" or paged is None:
        return simulation.page_bytes if result.policy == "paged" else simulation.page_bytes / simulation.page_tokens
    return simulation.page_bytes * paged / result.pages


def _size(simulation: Simulation, size: Size) -> str:
    who = f"{100 * size.share:g} % of the requests"
    text = f"{who} never wait for pages nor are preempted with {size.pages:,} pages, {show_bytes(size.kv_bytes)} of cache a rank"
    device = simulation.question("device")
    if device is None:
        return text
    if size.n_devices is None:
        return f"{text}; no layout of the devices tried has such a pool"
    layout = ", ".join(f"{name} {value}" for name, value in (("tp", size.tp), ("pp", size.pp), ("dp", size.dp)) if value and value > 1)
    return f"{text}; {size.n_devices} x {device}{f' ({layout})' if layout else ''} do it"
