"""Simulations as text: a table with a column for each policy, the contract's object, or a flat row for each policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvplan.planner.simulation import Simulation, Size, UsersSize
from kvplan.planner.users import Carried
from kvplan.report import render_answers, render_rows
from kvplan.report.answer import sentence
from kvplan.report.html import page, question, rows_table
from kvplan.report.printable import noted, one_line, prose
from kvplan.report.words import chosen, model
from kvplan.simulate.result import Moments, Routed, SimulationResult, TierFound
from kvplan.units import counted, show_bytes


def render(simulations: Sequence[Simulation], fmt: str) -> str | bytes:
    """The simulations in a format."""
    return render_answers(simulations, fmt, lambda one: [_flat(one, result) for result in one.policies], _one, _document)


def _document(simulations: Sequence[Simulation]) -> str:
    return page("simulation", "".join(_one(simulation, "html") + question(simulation.plan) for simulation in simulations))


def _one(simulation: Simulation, fmt: str) -> str:
    shown = render_rows if fmt != "html" else lambda rows, _: rows_table(rows)
    parts = [prose(sentence(simulation.plan), fmt)] if simulation.plan.starts is False else []
    if simulation.users is not None:
        parts.append(prose(_users(simulation, simulation.users), fmt))
    elif simulation.policies:
        parts.append(prose(_requests(simulation.policies[0]), fmt))
    parts.append(prose(_head(simulation), fmt))
    if simulation.policies:
        rows = [{"": name} | {_name(one, simulation): show(one, simulation) for one in simulation.policies} for name, show in ROWS]
        parts.append(shown([row for row in rows if any(value != "" for value in list(row.values())[1:])], fmt))
    if simulation.size is not None:
        parts.append(prose(_size(simulation, simulation.size), fmt))
    if simulation.notes:
        parts.append(prose(noted(simulation.notes), fmt))
    return "\n\n".join(parts)


def _name(result: SimulationResult, simulation: Simulation) -> str:
    """Of a column: what tells the results apart."""
    if result.routed is None:
        return result.policy
    several = len({one.policy for one in simulation.policies}) > 1
    return f"{result.policy}, {result.routed.router}" if several else result.routed.router


def _flat(simulation: Simulation, result: SimulationResult) -> dict[str, Any]:
    row: dict[str, Any] = {"model": simulation.plan.model.id, **chosen(simulation.plan), **simulation.workload}
    for name, value in result.as_dict().items():
        if name == "routed" and value:
            row |= value
        elif isinstance(value, dict):
            row |= {f"{name}_{part}": number for part, number in value.items()} if name != "timeline" else {}
        elif name == "routed":
            row |= dict.fromkeys(("router", "replicas", "busiest", "idlest"))
        elif name == "tiers":
            row |= {f"found_in_{tier['place']}": tier["hit_tokens"] for tier in value}
        elif name != "beside":
            row[name] = value
    return row


def _head(simulation: Simulation) -> str:
    plan, what = simulation.plan, simulation.workload
    where = f"on {plan.asked('n_devices') or 1} x {plan.asked('device')}" if plan.asked("device") else "in the memory given"
    own = next((result for result in simulation.policies if result.policy == "paged"), None)
    pool = f": {own.pages:,} pages of {simulation.page_tokens:,} tokens, {show_bytes(simulation.page_bytes)} a page and rank" if own else ""
    who = f"{model(plan)}, {plan.asked('engine')} {where}{pool}"
    if what.get("users"):
        return f"{who}\n{_habits(what)}"
    rate = f"{what['rate']:g} a second" if what["rate"] else "at the trace's times" if what["trace"] else "all at once"
    many = f"{what['requests']:,} requests" if what["requests"] else "all requests"
    return f"{who}\n{many} of {one_line(what['trace'] or what['name'])}, {rate}"


def _habits(what: Mapping[str, Any]) -> str:
    """Who asks."""
    system = f", {counted(what['prefixes'], 'system prompt')} of {what['prefix_tokens']:,} tokens" if what["prefixes"] else ""
    tools = f", {counted(what['tool_calls'], 'tool call')} before each answer" if what["tool_calls"] else ""
    talks = f"conversations of {counted(what['turns'], 'turn')} of {what['name']}, {what['think_seconds']:g} s to think"
    return f"{counted(what['users'], 'user')}, {talks}{tools}{system}; {what['requests']:,} requests looked at"


def _users(simulation: Simulation, found: Carried) -> str:
    """What users there are room for: the first line of the answer."""
    goal, share = found.goal, f"{100 * found.share:g} %"
    good = f"an answer that begins within {goal.first_token:g} s and goes on with a token every {1000 * goal.per_token:g} ms"
    does = "carries" if found.good >= found.share else "does not carry"
    text = f"it {does} {counted(found.users, 'user')}: {_percent(found.good)} of their requests get {good} ({share} must)"
    upper = found.bound and not found.more
    most = f"it carries {'at most ' * upper}{counted(found.carries, 'user')}" if found.carries else "it carries not a single one"
    text += f"\n{most} like these{', as real steps are slower than the bound taken here' if upper else ''}"
    if (size := simulation.sized) is not None:
        text += f"\n{_sized(simulation, size)}"
    return text


def _requests(result: SimulationResult) -> str:
    """What becomes of the requests: the first line of the answer where no users are asked about."""
    asked, short = result.requests + result.rejected, [f"{result.kept_waiting:,} waited for pages", f"{result.preempted:,} were preempted"]
    short += [f"{result.rejected:,} were rejected"] if result.rejected else []
    many = f"all {asked:,}" if not result.rejected else f"{result.requests:,} of {asked:,}"
    speed = f", {result.tokens / result.seconds:,.0f} tokens a second" if result.seconds else ""
    return f"{many} requests finish in {result.seconds:,.1f} s{speed}: {', '.join(short)}"


def _sized(simulation: Simulation, size: UsersSize) -> str:
    who = counted(size.users, "user")
    if size.result is None:
        return f"nothing of what was tried carries {who}"
    if size.n_devices is None:
        return f"{who} take {counted(size.dp or 1, 'replica')} of this cache"
    least = "at least " if simulation.users and simulation.users.bound else ""
    return f"{who} take {least}{_devices(simulation, size)}"


def _devices(simulation: Simulation, size: Size | UsersSize) -> str:
    """`4 x h100-80gb (tp 2, dp 2)`."""
    layout = ", ".join(f"{name} {value}" for name, value in (("tp", size.tp), ("pp", size.pp), ("dp", size.dp)) if value and value > 1)
    return f"{size.n_devices} x {simulation.plan.asked('device')}{f' ({layout})' if layout else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _spread(m: Moments, unit: str = "") -> str:
    return " / ".join(f"{value:,.4g}" if unit else f"{value:,.0f}" for value in (m.mean, m.p50, m.p99, m.most)) + (unit and f" {unit}")


def _tier(one: TierFound, r: SimulationResult) -> str:
    where = {"cpu": "RAM", "disk": "disk"}[one.place]
    return f"{where} {one.hit_tokens:,} ({_percent(one.hit_tokens / r.asked_tokens if r.asked_tokens else 0.0)})"


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
    ("of them back from tiers below the pool", lambda r, _: ", ".join(_tier(one, r) for one in r.tiers)),
    ("cached pages evicted", lambda r, _: _when(r.evicted, f"{r.evicted:,}")),
    ("pages saved by sharing", lambda r, _: _when(r.saved, _percent(r.saved))),
    ("running: mean / p50 / p99 / most", lambda r, _: _spread(r.running)),
    ("longest requests promised at once", lambda r, _: "-" if r.promised is None else f"{r.promised:,.2f}"),
    ("waiting: mean / p50 / p99 / most", lambda r, _: _spread(r.queued)),
    ("wait: mean / p50 / p99 / most", lambda r, _: _spread(r.waited, "s")),
    ("first token: mean / p50 / p99 / most", lambda r, _: _spread(r.first_token, "s")),
    ("end: mean / p50 / p99 / most", lambda r, _: _spread(r.latency, "s")),
    ("each further token: mean / p50 / p99 / most", lambda r, s: _when(s.users is not None, _spread(r.per_token, "s"))),
    ("requests well answered", lambda r, s: _when(s.users is not None, f"{r.good:,}")),
    ("replicas; the busiest and the idlest got", lambda r, _: "" if r.routed is None else _routed(r.routed)),
    ("other pools: most pages in use", lambda r, _: ", ".join(f"{one.kind} {one.most:,} of {one.pages:,}" for one in r.beside)),
    ("requests kept waiting for pages", lambda r, _: f"{r.kept_waiting:,}"),
    ("preempted requests, preemptions", lambda r, _: f"{r.preempted:,}, {r.preemptions:,}"),
]


def _routed(one: Routed) -> str:
    return f"{one.replicas:,}; {_percent(one.busiest)}, {_percent(one.idlest)} of the mean"


def _page(result: SimulationResult, simulation: Simulation) -> float:
    """Bytes of one of the policy's pages: contiguous ones are token slots."""
    paged = next((one.pages for one in simulation.policies if one.policy == "paged"), None)
    if result.policy == "paged" or paged is None:
        return simulation.page_bytes if result.policy == "paged" else simulation.page_bytes / simulation.page_tokens
    return simulation.page_bytes * paged / result.pages


def _size(simulation: Simulation, size: Size) -> str:
    who = f"{100 * size.share:g} % of the requests"
    text = f"{who} never wait for pages nor are preempted with {size.pages:,} pages, {show_bytes(size.kv_bytes)} of cache a rank"
    if simulation.plan.asked("device") is None:
        return text
    if size.n_devices is None:
        return f"{text}; no layout of the devices tried has such a pool"
    return f"{text}; {_devices(simulation, size)} do it"
