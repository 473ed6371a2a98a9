"""A question under a workload: its plan's pool, policies side by side, and the pool and devices at which a share of requests never waits
for pages twice. The simulator itself is `kvplan.simulate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.tiers import OFFLOADING, Tier
from kvplan.errors import KvplanError, SpecError, UnsupportedError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.layouts import LayoutSizes, layouts
from kvplan.planner.plan import Plan
from kvplan.planner.speed import speed
from kvplan.planner.users import GOAL, SHARE, Carried, good, met, most_users
from kvplan.simulate.geometry import Geometry, from_plan
from kvplan.simulate.record import Goal
from kvplan.simulate.result import SimulationResult
from kvplan.simulate.run import DEFAULT_STEP, MAX_SEQS, enough, has_tiers, pool_for, shares_prefixes, simulate
from kvplan.simulate.steptime import StepTime, from_roofline
from kvplan.simulate.tiers import TierSize
from kvplan.simulate.users import Habits, Users
from kvplan.simulate.workload import Request

SCHEMA = "kvplan.simulation/1"
#: Where the roofline is taken: it is a line in kept tokens, and routed experts are read as by this many sequences.
_CONTEXT, _BATCH = 1024, 64
#: The requests of one of n replicas, the same at every call.
Replica = Callable[[int], Iterable[Request]]


class Size(NamedTuple):
    """How large the pool must be for `share` of the requests never to wait for pages, nor to be preempted.

    pages, kv_bytes        of one replica; bytes of a rank
    n_devices, tp, pp, dp  the fewest devices whose own pool does it, None where no device was named or none of up to `most` does
    result                 of the workload at that many pages
    """

    share: float
    pages: int
    kv_bytes: int
    n_devices: int | None
    tp: int | None
    pp: int | None
    dp: int | None
    result: SimulationResult


class UsersSize(NamedTuple):
    """The fewest devices, and their layout, that carry so many users; of a cache of kv_memory only its replicas. None: none tried does."""

    users: int
    n_devices: int | None
    tp: int | None
    pp: int | None
    dp: int | None
    result: SimulationResult | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return self._asdict() | {"result": None if self.result is None else self.result.as_dict()}


class Simulation(NamedTuple):
    """What a workload does to a plan's pool; `as_dict()` is the JSON (`kvplan schema simulation`). No policies where it does not start."""

    plan: Plan
    workload: Mapping[str, Any]
    page_tokens: int
    page_bytes: int
    step_time: StepTime
    policies: tuple[SimulationResult, ...]
    size: Size | None
    notes: tuple[str, ...]
    users: Carried | None = None
    sized: UsersSize | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (schema `kvplan.simulation/1`)."""
        plan = self.plan.as_dict()
        size = None if self.size is None else self.size._asdict() | {"result": self.size.result.as_dict()}
        return {
            "schema": SCHEMA,
            **{name: plan[name] for name in ("model", "question", "starts", "fits", "verdict")},
            "workload": dict(self.workload),
            "page_tokens": self.page_tokens,
            "page_bytes": self.page_bytes,
            "step_time": self.step_time._asdict(),
            "policies": [result.as_dict() for result in self.policies],
            "size": size,
            "users": None if self.users is None else self.users.as_dict(),
            "sized": None if self.sized is None else self.sized.as_dict(),
            "notes": list(self.notes),
        }


def step_time(d: Deployment, overhead: float = 0.0) -> tuple[StepTime, str]:
    """Seconds of a step by the device's roofline, and what is to be said of them; a fixed time where there is no device with rates.

    overhead  seconds added to what the roofline says
    """
    if d.device is None or d.device.bandwidth_gb_per_s is None or not d.device.dense_tflops:
        return DEFAULT_STEP, f"every step takes {DEFAULT_STEP.overhead * 1000:g} ms, an assumption: give step_time, or a device with rates"
    length = min(_CONTEXT, d.max_model_len or d.model.max_context or _CONTEXT)
    bound = speed(replace(d, context=length, batch=_BATCH * (d.dp or 1)))
    return from_roofline(
        bound, length, _BATCH, overhead
    ), "steps take what datasheet rates allow and step_overhead; real ones are slower: give step_time"


def simulated(
    d: Deployment,
    replica: Replica,
    described: Mapping[str, Any],
    *,
    policies: Sequence[str],
    steps: StepTime | None,
    overhead: float,
    size_for: float | None,
    most: int,
    users: Habits | None = None,
    routers: Sequence[str] | None = None,
    goal: Goal | None = None,
    size_users: int | None = None,
    notes: Sequence[str] = (),
    **settings: Any,
) -> Simulation:
    """The simulation of a question.

    steps       None: the roofline's, each with `overhead` seconds more
    size_for    share of requests that should neither wait for pages nor be preempted, for the sizing answer
    most        devices to try for it
    users       instead of the requests of a replica: users, of all of them
    routers     of all replicas; None: one of them, unless users ask
    size_users  how many users devices are sought for
    settings    what `kvplan.simulate.run.simulate` takes
    """
    plan = evaluate(d)
    said = list(notes)
    if plan.starts is False:
        return Simulation(plan, described, 0, 0, steps or DEFAULT_STEP, (), None, (*said, plan.verdict))
    geometry = from_plan(plan)

    def timed(other: Deployment) -> StepTime:
        return steps or step_time(other, overhead)[0]

    dp = plan.asked("dp") or 1
    if routers is not None and dp == 1 and size_users is None:
        raise SpecError("router", [("", "there is one replica and nothing to route; say how many with dp")])
    every = users is not None or routers is not None
    names = routers or ["least-loaded"]
    goal = goal or (GOAL if users else None)
    said += [] if steps else [step_time(d, overhead)[1]]
    said += [f"one of {dp} replicas, which take turns with the requests"] if dp > 1 and not every else []
    said += _left_out(plan, geometry, sharing_said=settings.get("share_prefixes") is not None)
    settings |= {"goal": goal, "tiers": tier_sizes(plan)}

    def run(one: Plan, asking: Iterable[Request] | Users, tried: Deployment, **more: Any) -> SimulationResult:
        n = (one.asked("dp") or 1) if every else 1
        own = {"router": names[0], "step_time": timed(tried), **settings, "tiers": tier_sizes(one)}
        return simulate(one, asking, replicas=n, **{**own, **more})

    def load() -> Iterable[Request] | Users:
        return Users(users) if users else replica(1 if every else dp)

    sides = [(policy, router) for policy in policies for router in (names if dp > 1 and every else names[:1])]
    results = tuple(run(plan, load(), d, policy=policy, router=router) for policy, router in sides)
    found = Simulation(plan, described, geometry.groups[0].block_tokens, page_bytes(plan, geometry), timed(d), results, None, ())
    if users is not None and goal is not None:
        carries, at = most_users(
            lambda asking, most_bad: run(plan, asking, d, policy=policies[0], most_bad=most_bad), users, SHARE, results[0]
        )
        bound = not steps and timed(d) != DEFAULT_STEP
        found = found._replace(users=Carried(users.users, good(results[0]), goal, SHARE, carries, bound, at))
        if found.users and found.users.more:
            said.append(f"no more than {carries:,} users were tried; it may carry more")
        if size_users is not None:
            sized = _for_users(d, users._replace(users=size_users), most, run)
            found = found._replace(sized=sized)
            said += [f"none of the layouts tried, of up to {most}, carries {size_users:,} users"] if sized.result is None else []
    if size_for is not None:
        size = _sized_for(d, plan, replica, size_for, most, settings, timed)
        found = found._replace(size=size)
        if d.device is not None and size.n_devices is None:
            said.append(f"no layout of up to {most} devices has such a pool")
    return found._replace(notes=tuple(said))


def _left_out(plan: Plan, geometry: Geometry, *, sharing_said: bool) -> Iterator[str]:
    """Notes of what a plan's pool has and the simulation has not. `sharing_said`: the question says whether prefixes are shared."""
    if any(group.kind == "state" for group in geometry.groups) and not sharing_said:
        yield "prefix sharing is off: keeping recurrent states for it is not simulated"
    if tier_sizes(plan) and not (has_tiers(geometry) and shares_prefixes(plan, geometry)):
        yield "the tiers below the pool are left out: they are simulated below one pool of full attention whose prefixes are shared"


def page_bytes(plan: Plan, geometry: Geometry) -> int:
    """Of a page of the plan's pool, on a rank."""
    return geometry.bytes_per_page or (plan.capacity.kv_bytes // geometry.pages if plan.capacity else 0)


def cache_tiers(plan: Plan) -> list[tuple[Tier, int]]:
    """The tiers that keep pages of the cache below a plan's pool, nearest first, each with its tokens."""
    return [(tier, tier.tokens) for tier in plan.outcome.tiers if tier.tokens is not None and tier.what == "cache"]


def tier_sizes(plan: Plan) -> tuple[TierSize, ...]:
    """The same of one replica, as they are simulated."""
    return tuple(
        TierSize(
            tier.place, tier.system, tier.piece_tokens, tokens // tier.piece_tokens,
            tier.piece_tokens if tier.system == OFFLOADING else 1,
        )
        for tier, tokens in cache_tiers(plan)
    )  # fmt: skip


def _for_users(d: Deployment, habits: Habits, most: int, run: Callable[..., SimulationResult]) -> UsersSize:
    """The fewest devices that carry so many users; tp and pp that the question chooses are kept."""

    def carried(plan: Plan, tried: Deployment) -> SimulationResult | None:
        return met(lambda asking, most_bad: run(plan, asking, tried, most_bad=most_bad), habits, SHARE)

    tries = _replicas if d.device is None or d.kv_memory is not None else _laid_out
    found = _fewest(lambda n: tries(replace(d, dp=None), n), most, carried)
    if found is None:
        return UsersSize(habits.users, None, None, None, None, None)
    n, sizes, result = found
    return UsersSize(habits.users, n if d.device else None, sizes.tp, sizes.pp, sizes.dp, result)


Tried = Iterator[tuple[Deployment, LayoutSizes]]


def _replicas(d: Deployment, n: int) -> Tried:
    """n replicas of a cache of given memory."""
    yield replace(d, dp=n), LayoutSizes(d.tp or 1, d.pp or 1, n)


def _laid_out(d: Deployment, n: int) -> Tried:
    """The question in the layouts of n devices that leave the sizes which it chooses."""
    for sizes in layouts(n):
        if sizes.pp == (d.pp or 1) and d.tp in (None, sizes.tp) and d.dp in (None, sizes.dp):
            yield replace(d, n_devices=None, tp=sizes.tp, pp=sizes.pp, dp=sizes.dp), sizes


def _fewest(
    tries: Callable[[int], Tried], most: int, enough: Callable[[Plan, Deployment], SimulationResult | None]
) -> tuple[int, LayoutSizes, SimulationResult] | None:
    """The first layout of the fewest devices whose plan starts and is enough, and the result; None where none of up to `most` is."""
    for n in range(1, most + 1):
        for tried, sizes in tries(n):
            try:
                plan = evaluate(tried)
                result = None if plan.starts is False else enough(plan, tried)
            except KvplanError:
                continue  # the model can not be split like that
            if result is not None:
                return n, sizes, result
    return None


def _sized_for(
    d: Deployment,
    plan: Plan,
    replica: Replica,
    share: float,
    most: int,
    settings: Mapping[str, Any],
    steps: Callable[[Deployment], StepTime],
) -> Size:
    """The pool at which `share` of the requests runs through, and the devices that have it. Raises UnsupportedError for several pools."""
    geometry = from_plan(plan)
    if geometry.beside or geometry.streams > 1:
        raise UnsupportedError("simulate: size_for looks for one pool; this engine has several for this model")
    dp, own = plan.asked("dp") or 1, {**settings, "step_time": steps(d)}
    pages, result = pool_for(plan, lambda: replica(dp), share=share, most=_worst(plan, geometry), **own)
    return Size(share, pages, pages * page_bytes(plan, geometry), *_devices(d, replica, share, most, own, steps), result=result)


def _worst(plan: Plan, geometry: Geometry) -> int:
    """Pages at which as many of the longest requests as the engine runs at once find room."""
    seqs = plan.asked("max_num_seqs") or geometry.seats or MAX_SEQS
    return max(geometry.pages, seqs * geometry.request_pages(geometry.max_model_len, geometry.max_model_len))


def _devices(
    d: Deployment, replica: Replica, share: float, most: int, settings: Mapping[str, Any], steps: Callable[[Deployment], StepTime]
) -> tuple[int | None, int | None, int | None, int | None]:
    """The fewest of the question's device, and their layout, whose own pool is enough; sizes that the question chooses are kept."""
    if d.device is None or d.kv_memory is not None:
        return None, None, None, None

    def held(plan: Plan, tried: Deployment) -> SimulationResult | None:
        own = {**settings, "step_time": steps(tried), "tiers": tier_sizes(plan)}
        result = simulate(plan, replica(tried.dp or 1), **own)
        return result if enough(result, share) else None

    found = _fewest(lambda n: _laid_out(d, n), most, held)
    return (found[0], found[1].tp, found[1].pp, found[1].dp) if found else (None, None, None, None)
