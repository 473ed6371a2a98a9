"""One call: a pool, a workload, a policy, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kvplan.errors import SpecError, UnknownName
from kvplan.simulate.blocks import CountedBlocks
from kvplan.simulate.buddy import Contiguous, power_of_two, wanted
from kvplan.simulate.cells import Cells
from kvplan.simulate.geometry import Geometry, Planned, from_plan
from kvplan.simulate.prefix import PrefixBlocks
from kvplan.simulate.radix import RadixTree
from kvplan.simulate.record import Recorder
from kvplan.simulate.result import SimulationResult
from kvplan.simulate.scheduler import Limits, Scheduler
from kvplan.simulate.sequence import Manager
from kvplan.simulate.steptime import StepTime
from kvplan.simulate.workload import Request

POLICIES = ("paged", "contiguous-max", "contiguous-pow2", "contiguous-oracle")
#: Where neither a device's roofline nor measurements are given: every step takes this long.
DEFAULT_STEP = StepTime(overhead=0.03)


def simulate(
    pool: Planned | Geometry,
    workload: Iterable[Request],
    *,
    policy: str = "paged",
    share_prefixes: bool | None = None,
    step_time: StepTime = DEFAULT_STEP,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    swap_seconds: float | None = None,
    warm_seconds: float = 0.0,
    check: bool = False,
) -> SimulationResult:
    """What one replica's cache does under a workload, whose requests must come in the order of their arrival.

    pool            a plan (its page groups, blocks and longest request), or a Geometry
    policy          paged, or one contiguous chunk per request: contiguous-max, contiguous-pow2, contiguous-oracle
    share_prefixes  whether equal prefixes share pages; None: where the pool's engine does and a request has something in common
    step_time       seconds of a step; `from_roofline` of a device, `fitted` to measurements
    max_num_seqs, max_num_batched_tokens   None: the plan's, else 256 and 8192
    swap_seconds    None: preempted requests compute their tokens again; else seconds to bring back a token
    warm_seconds    simulated time at the start that the averages leave out
    check           prove after every step that each page is free or held (slow)

    Deterministic. Raises SpecError, UnknownName, UnsupportedError.
    """
    geometry = pool if isinstance(pool, Geometry) else from_plan(pool)
    seqs = max_num_seqs or _asked(pool, "max_num_seqs") or 256
    step_tokens = max_num_batched_tokens or max(_asked(pool, "max_num_batched_tokens") or 8192, seqs)
    if policy not in POLICIES:
        raise UnknownName("policy", policy, list(POLICIES))
    if step_tokens < seqs:
        text = f"{step_tokens} is less than max_num_seqs {seqs}: a step must hold a token of each sequence"
        raise SpecError("max_num_batched_tokens", [("", text)])
    requests, shared = _peek(iter(workload))
    sharing = shared if share_prefixes is None else share_prefixes
    manager = _manager(geometry, policy, sharing, step_tokens)
    recorder = Recorder(warm_seconds)
    limits = Limits(
        max_seqs=min(seqs, geometry.streams) if geometry.sort == "cells" and geometry.streams > 1 else seqs,
        step_tokens=step_tokens,
        max_tokens=geometry.max_model_len,
        fits=_fits(geometry, policy, step_tokens),
        swap_seconds=swap_seconds,
    )
    scheduler = Scheduler(manager, limits, step_time, recorder, check)
    scheduler.run(_ordered(requests))
    return recorder.result(manager, policy, geometry.promised)


def _asked(pool: Planned | Geometry, name: str) -> int | None:
    return None if isinstance(pool, Geometry) else pool.question[name][0]


def _fits(geometry: Geometry, policy: str, in_flight: int) -> Callable[[Request], bool]:
    """Whether an empty pool holds a request at its longest: the last token of an answer is never stored."""
    if policy != "paged":
        rule = policy.removeprefix("contiguous-")
        return lambda r: power_of_two(wanted(rule, r, geometry.max_model_len)) <= 1 << geometry.slots.bit_length() - 1
    if geometry.sort == "cells":
        return lambda r: r.prompt + r.output - 1 <= geometry.pages // geometry.streams
    return lambda r: geometry.request_pages(r.prompt + r.output - 1, in_flight) <= geometry.pages


def _manager(geometry: Geometry, policy: str, sharing: bool, in_flight: int) -> Manager:
    if policy != "paged":
        return Contiguous(geometry, policy.removeprefix("contiguous-"))
    if geometry.sort == "cells":
        return Cells(geometry)
    if sharing and geometry.sort == "radix":
        return RadixTree(geometry)
    return PrefixBlocks(geometry, in_flight) if sharing else CountedBlocks(geometry, in_flight)


def _peek(requests: Iterator[Request]) -> tuple[Iterator[Request], bool]:
    """The requests, and whether the first has any content in common with others."""
    from itertools import chain

    first = next(requests, None)
    if first is None:
        raise SpecError("workload", [("", "no requests")])
    return chain([first], requests), bool(first.content)


def _ordered(requests: Iterator[Request]) -> Iterator[Request]:
    before = 0.0
    for n, request in enumerate(requests):
        if request.arrival < before:
            raise SpecError("workload", [(f"request {n}", f"arrives at {request.arrival}, before the one ahead of it ({before})")])
        if request.prompt < 1 or request.output < 1:
            raise SpecError("workload", [(f"request {n}", "a prompt and an answer have at least one token")])
        before = request.arrival
        yield request


def pool_for(
    geometry: Geometry, workload: Callable[[], Iterable[Request]], *, share: float = 0.99, **settings: object
) -> tuple[int, SimulationResult]:
    """The fewest pages at which `share` of the requests are never preempted, and the result there.

    workload  gives the same requests each time it is called
    Raises SpecError where not even the given pool reaches it.
    """

    def enough(pages: int) -> SimulationResult | None:
        result = simulate(geometry._replace(pages=pages), workload(), **settings)  # type: ignore[arg-type]
        asked = result.requests + result.rejected
        return result if result.rejected == 0 and result.preempted <= (1 - share) * asked else None

    best = enough(geometry.pages)
    if best is None:
        raise SpecError("pool", [("", f"{geometry.pages} pages do not let {share:.0%} of the requests run through; give a larger pool")])
    low, high = 0, geometry.pages
    while high - low > max(1, high // 128):
        middle = (low + high) // 2
        result = enough(middle)
        low, high, best = (low, middle, result) if result else (middle, high, best)
    return high, best
