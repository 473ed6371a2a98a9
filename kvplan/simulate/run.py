"""One call: a pool, a workload, a policy, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Any

from kvplan import engines
from kvplan.errors import SpecError, UnknownName, UnsupportedError
from kvplan.simulate.beside import Beside
from kvplan.simulate.blocks import CountedBlocks
from kvplan.simulate.buddy import Contiguous, power_of_two, wanted
from kvplan.simulate.cells import Cells
from kvplan.simulate.cluster import drive
from kvplan.simulate.forks import ForkedBlocks
from kvplan.simulate.geometry import Geometry, Planned, from_plan
from kvplan.simulate.prefix import PrefixBlocks
from kvplan.simulate.radix import RadixTree
from kvplan.simulate.record import Goal, Recorder
from kvplan.simulate.result import BesidePool, Routed, SimulationResult, TierFound
from kvplan.simulate.routers import ROUTERS
from kvplan.simulate.scheduler import Limits, Scheduler
from kvplan.simulate.sequence import Manager, Sequence
from kvplan.simulate.source import Source, Stream
from kvplan.simulate.steptime import StepTime
from kvplan.simulate.tiers import Tiers, TierSize
from kvplan.simulate.users import Users
from kvplan.simulate.workload import Request

POLICIES = ("paged", "contiguous-max", "contiguous-pow2", "contiguous-oracle")
#: Where neither a device's roofline nor measurements are given: every step takes this long.
DEFAULT_STEP = StepTime(overhead=0.03)
#: Sequences at once where neither the caller nor the plan says: vLLM's long-time default; SGLang admits at least 2,048.
MAX_SEQS, SGLANG_SEQS = 256, 2048
#: Nothing is looked at before the source says so.
WHEN_WARMED = float("inf")


def simulate(
    pool: Planned | Geometry,
    workload: Iterable[Request] | Users,
    *,
    policy: str = "paged",
    pages: int | None = None,
    share_prefixes: bool | None = None,
    step_time: StepTime = DEFAULT_STEP,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    swap_seconds: float | None = None,
    warm_seconds: float = 0.0,
    replicas: int = 1,
    router: str = "least-loaded",
    goal: Goal | None = None,
    most_bad: int | None = None,
    tiers: Collection[TierSize] = (),
    check: bool = False,
) -> SimulationResult:
    """What the caches of one replica, or of several behind a router, do under a workload: requests in the order of their arrival, or users.

    pool            a plan (its page groups, blocks and longest request), or a Geometry
    pages           of the pool, instead of its own number
    policy          paged, or one contiguous chunk per request: contiguous-max, contiguous-pow2, contiguous-oracle
    share_prefixes  whether equal prefixes share pages; None: where the pool's engine does and a request has something in common
    step_time       seconds of a step; `from_roofline` of a device, `fitted` to measurements
    max_num_seqs, max_num_batched_tokens   None: the plan's, else 256 (2,048 of SGLang's) and 8192
    swap_seconds    None: preempted requests compute their tokens again; else seconds to bring back a token
    warm_seconds    simulated time at the start that is left out; users: left out is until each had an answer
    router          of several replicas, see `routers`
    goal            what a good answer is, which are counted
    tiers           below the pool of each replica, nearest first: where prefixes are shared in one pool of full attention, else left out
    most_bad        stop when more than so many requests had no good one
    check           prove after every step that each page is free or held (slow)

    Deterministic. Raises SpecError, UnknownName, UnsupportedError.
    """
    geometry = geometry_of(pool)
    geometry = geometry._replace(pages=pages or geometry.pages)
    seqs = max_num_seqs or _asked(pool, "max_num_seqs") or (SGLANG_SEQS if geometry.sort == "radix" else MAX_SEQS)
    step_tokens = max_num_batched_tokens or max(_asked(pool, "max_num_batched_tokens") or 8192, seqs)
    if policy not in POLICIES:
        raise UnknownName("policy", policy, list(POLICIES))
    if step_tokens < seqs:
        text = f"{step_tokens} is less than max_num_seqs {seqs}: a step must hold a token of each sequence"
        raise SpecError("max_num_batched_tokens", [("", text)])
    if router not in ROUTERS:
        raise UnknownName("router", router, list(ROUTERS))
    source: Source
    if isinstance(workload, Users):
        source, shared, forks = workload, True, False
    else:
        requests, first = _peek(iter(workload))
        shared, forks = bool(first.content), first.width > 1 and policy == "paged"
        source = Stream(_ordered(requests, forks))
    if forks and share_prefixes:
        raise UnsupportedError("simulate: forked sequences share within their request only; leave share_prefixes out")
    sharing = shared and shares_prefixes(pool, geometry) if share_prefixes is None else share_prefixes
    limits = Limits(
        max_seqs=min(seqs, geometry.seats or seqs, geometry.streams if geometry.sort == "cells" and geometry.streams > 1 else seqs),
        step_tokens=step_tokens,
        max_tokens=geometry.max_model_len,
        fits=_fits(geometry, policy, step_tokens),
        swap_seconds=swap_seconds,
    )
    warm = WHEN_WARMED if not source.warmed else warm_seconds

    def one() -> Scheduler:
        manager = ForkedBlocks(geometry) if forks else _manager(geometry, policy, sharing, step_tokens, tiers)
        return Scheduler(manager, limits, step_time, Recorder(warm, goal), check)

    ones = [one() for _ in range(replicas)]
    routed = drive(ones, source, ROUTERS[router](replicas, geometry.groups[0].block_tokens, geometry.pages), most_bad)
    tiers_of_each = [one.recorder.tiers(one.manager) for one in ones]
    recorder, managers = ones[0].recorder, [one.manager for one in ones]
    for other in ones[1:]:
        recorder.take_in(other.recorder)
    result = recorder.result(managers, policy, geometry.promised, _spread(router, routed))
    return result._replace(beside=_pools_beside(geometry, managers), tiers=_tiers_together(tiers_of_each))


def _spread(router: str, requests: list[int]) -> Routed | None:
    """How evenly a router dealt requests out: the most and the fewest that a replica had, over the mean; None of one replica."""
    if len(requests) == 1:
        return None
    mean = sum(requests) / len(requests)
    return Routed(router, len(requests), max(requests) / mean if mean else 0.0, min(requests) / mean if mean else 0.0)


def _pools_beside(geometry: Geometry, managers: list[Manager]) -> tuple[BesidePool, ...]:
    """The pools of other groups, each with the most pages that any replica held of it."""
    besides = [manager for manager in managers if isinstance(manager, Beside)]
    peaks = (max(column) for column in zip(*(manager.peaks for manager in besides), strict=True))
    return tuple(BesidePool(one.groups[0].kind, one.pages, most) for one, most in zip(geometry.beside, peaks, strict=False))


def _tiers_together(of_each: list[tuple[TierFound, ...]]) -> tuple[TierFound, ...]:
    """Each tier with what all replicas found and lost in it."""
    return tuple(
        same[0]._replace(hit_tokens=sum(one.hit_tokens for one in same), evicted=sum(one.evicted for one in same))
        for same in zip(*of_each, strict=True)
    )


def geometry_of(pool: Planned | Geometry) -> Geometry:
    return pool if isinstance(pool, Geometry) else from_plan(pool)


def has_tiers(geometry: Geometry) -> bool:
    """Whether tiers below such a pool are simulated: one pool of full attention whose prefixes are shared."""
    return not geometry.beside and geometry.sort != "cells" and all(group.kind == "full" for group in geometry.groups)


def alone(pool: Planned | Geometry, workload: Iterable[Request], pages: int) -> float:
    """Share of prompt tokens found by a pool of so many pages, requests one after another, as `simulate` of one sequence at once says.

    Steps of the scheduler that change no page are left out. Requests that are longer than the longest are too.
    """
    geometry = geometry_of(pool)._replace(pages=pages)
    step = _asked(pool, "max_num_batched_tokens") or 8192
    manager, fits = _manager(geometry, "paged", True, step), _fits(geometry, "paged", step)
    whole = all(group.kind == "full" for group in geometry.groups)  # nothing leaves a window
    for number, request in enumerate(workload):
        if request.prompt + request.output > geometry.max_model_len or not fits(request):
            continue
        s = Sequence(number, request)
        at = manager.admit(s, step)
        assert at is not None, "an empty pool has room"
        at = min(at + step, s.known)
        while at < s.known:
            manager.grow(s, at, min(at + step, s.known))
            at = min(at + step, s.known)
        end = s.whole - 1
        at = at if whole else manager.wake(s, at)
        while at < end:
            until = end if whole else at + 1
            manager.grow(s, at, until)
            at = until if whole else manager.wake(s, until)
        manager.end(s, end)
    return manager.hit_tokens / manager.asked_tokens if manager.asked_tokens else 0.0


def shares_prefixes(pool: Planned | Geometry, geometry: Geometry) -> bool:
    """Whether the pool's engine shares prefixes unless told otherwise, as far as that is simulated. States: see docs/simulate.md."""
    options, shares = {}, True
    if not isinstance(pool, Geometry):
        options, shares = dict(pool.question["engine_option"][0] or ()), engines.facts(pool.question["engine"][0]).shares_prefixes
    if str(options.get("enable_prefix_caching", shares)).lower() in ("false", "0", "off", "no") or "state" in {
        group.kind for group in geometry.groups
    }:
        return False
    return geometry.sort != "cells"


def _asked(pool: Planned | Geometry, name: str) -> int | None:
    return None if isinstance(pool, Geometry) else pool.question[name][0]


def _fits(geometry: Geometry, policy: str, in_flight: int) -> Callable[[Request], bool]:
    """Whether an empty pool holds a request at its longest: the last token of an answer is never stored."""
    if policy != "paged":
        rule = policy.removeprefix("contiguous-")
        return lambda r: power_of_two(wanted(rule, r, geometry.max_model_len)) <= 1 << geometry.slots.bit_length() - 1
    if geometry.sort == "cells":
        return lambda r: r.prompt + r.output - 1 <= geometry.pages // geometry.streams
    pools = (geometry, *geometry.beside)
    return lambda r: all(r.width * pool.request_pages(r.prompt + r.output - 1, in_flight) <= pool.pages for pool in pools)


def _manager(geometry: Geometry, policy: str, sharing: bool, in_flight: int, tiers: Collection[TierSize] = ()) -> Manager:
    if policy != "paged":
        if geometry.beside or any(group.kind == "state" for group in geometry.groups):
            raise UnsupportedError("simulate: contiguous reservation is a baseline for one pool of keys and values; this model has others")
        return Contiguous(geometry, policy.removeprefix("contiguous-"))
    if geometry.sort == "cells":
        if sharing:
            raise UnsupportedError("simulate: llama.cpp's cells are not shared between slots")
        return Cells(geometry)
    if geometry.beside:
        if sharing:
            raise UnsupportedError("simulate: prefix sharing over pools apart (windows) is not simulated; use share_prefixes=False")
        return Beside([CountedBlocks(one, in_flight) for one in (geometry, *geometry.beside)])
    below = Tiers([*tiers]) if tiers and sharing and has_tiers(geometry) else None
    if sharing and geometry.sort == "radix":
        return RadixTree(geometry, below)
    return PrefixBlocks(geometry, in_flight, tiers=below) if sharing else CountedBlocks(geometry, in_flight)


def _peek(requests: Iterator[Request]) -> tuple[Iterator[Request], Request]:
    """The requests, and the first of them, which tells what kind they are."""
    first = next(requests, None)
    if first is None:
        raise SpecError("workload", [("", "no requests")])
    return chain([first], requests), first


def _ordered(requests: Iterator[Request], forks: bool) -> Iterator[Request]:
    before = 0.0
    for n, request in enumerate(requests):
        if request.arrival < before:
            raise SpecError("workload", [(f"request {n}", f"arrives at {request.arrival}, before the one ahead of it ({before})")])
        if request.prompt < 1 or request.output < 1:
            raise SpecError("workload", [(f"request {n}", "a prompt and an answer have at least one token")])
        if request.width > 1 and not forks:
            raise UnsupportedError("simulate: requests of several sequences need a paged pool, and the first request to be one")
        before = request.arrival
        yield request


def enough(result: SimulationResult, share: float) -> bool:
    """Whether `share` of the requests that are not too long for the model never waited for pages, nor lost them, nor were refused."""
    asked = result.requests + result.rejected - result.too_long
    return result.rejected - result.too_long + result.hindered <= (1 - share) * asked + 1e-9


def pool_for(
    pool: Planned | Geometry, workload: Callable[[], Iterable[Request]], *, share: float = 0.99, most: int | None = None, **settings: Any
) -> tuple[int, SimulationResult]:
    """The fewest pages at which `share` of the requests never wait for pages nor are preempted, to one part in 128, and the result there.

    workload  gives the same requests each time it is called
    most      pages to try at most; None: those of the given pool
    Raises SpecError where not even `most` reach it.
    """
    high = geometry_of(pool).pages
    most = most or high

    def at(pages: int) -> SimulationResult | None:
        result = simulate(pool, workload(), pages=pages, **settings)
        return result if enough(result, share) else None

    low, best = 0, at(high)
    while best is None and high < most:
        low, high = high, min(2 * high, most)
        best = at(high)
    if best is None:
        raise SpecError("pool", [("", f"{high} pages do not let {share:.0%} of the requests run through; give a larger pool")])
    while high - low > max(1, high // 128):
        middle = (low + high) // 2
        result = at(middle)
        low, high, best = (low, middle, result) if result else (middle, high, best)
    return high, best
