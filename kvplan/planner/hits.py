"""A question's hit curve: prompt tokens found in the engine's prefix cache by its size, and what the plan's own pool finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import SpecError, UnsupportedError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.planner.simulation import Replica, step_time
from kvplan.simulate.bounds import first_in, next_uses, optimum
from kvplan.simulate.geometry import from_plan
from kvplan.simulate.run import alone, shares_prefixes, simulate
from kvplan.simulate.sampled import Sample, rate_for, shrunk
from kvplan.simulate.stack import Chain, Stack, accepted, chain, stack
from kvplan.simulate.workload import Request

SCHEMA = "kvplan.hit-curve/1"
#: Sizes shown, and sizes at which a manager is run where there is no single pass.
SHOWN, RUNS = 16, 8
#: Where no memory is given: page sizes are read from a plan with this much, whose pool is not shown.
_PLENTY = 1 << 44


class HitPoint(NamedTuple):
    """A size of the cache, and the share of prompt tokens found in it.

    pages, tokens   of one replica; `bytes` of a rank
    found           by the engine's own eviction
    fifo, optimum   by first in, first out and by the best possible eviction; None: not asked for, or not defined here
    """

    pages: int
    tokens: int
    bytes: int
    found: float
    fifo: float | None
    optimum: float | None


class TierHits(NamedTuple):
    """A tier beside the devices: tokens of one replica that it holds, the share found in it or above it, and what it adds to that."""

    place: str
    system: str
    tokens: int
    found: float
    adds: float


class HitCurve(NamedTuple):
    """`as_dict()` is the JSON (`kvplan schema hit-curve`).

    method       stack distance: one pass, every size; runs: the engine's manager run at each size shown; samples: that on one page in
                 `one_in`, kept by hash
    requests     of one replica; `too_long`, which the model's longest request leaves out, are not among them
    smallest     pages of the largest request: the curve begins there
    working_set  pages beyond which nothing more is found (runs: the first of the sizes that were run)
    most         share found there
    again        last blocks computed beside an equal one: as many blocks at most the one pass is off (see docs/simulate.md)
    points       smallest to largest; `pool`: the plan's own, None where it has none or less than `smallest`
    batched      share found in the plan's own pool with the engine's batching, at the workload's own times
    stack        the one pass's answer, of least recently used pages
    tiers        beside the plan's own pool, as they were asked for
    """

    plan: Plan
    workload: Mapping[str, Any]
    method: str
    page_tokens: int
    page_bytes: int
    requests: int
    too_long: int
    asked_tokens: int
    smallest: int
    working_set: int
    most: float
    again: int
    points: tuple[HitPoint, ...]
    pool: HitPoint | None
    batched: float | None
    notes: tuple[str, ...]
    stack: Stack | None
    tiers: tuple[TierHits, ...] = ()
    one_in: int = 1

    def at(self, pages: int) -> float:
        """Share of prompt tokens found by any number of pages from `smallest` on. Raises UnsupportedError where there is no one pass."""
        if self.stack is None or self.method != "stack distance":
            raise UnsupportedError("hit_curve: this engine's cache has no single pass over all sizes; read points")
        if pages < self.smallest:
            raise SpecError("pages", [("", f"{pages} pages do not hold the largest request, which needs {self.smallest}")])
        return self.stack.found(pages) * self.page_tokens / self.asked_tokens

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (schema `kvplan.hit-curve/1`)."""
        plan = self.plan.as_dict()
        own = {name: value for name, value in self._asdict().items() if name not in ("plan", "stack")}
        return {
            "schema": SCHEMA,
            **{name: plan[name] for name in ("model", "question", "starts", "fits", "verdict")},
            **own,
            "workload": dict(self.workload),
            "points": [point._asdict() for point in self.points],
            "pool": None if self.pool is None else self.pool._asdict(),
            "notes": list(self.notes),
        }


def curve(d: Deployment, replica: Replica, described: Mapping[str, Any], *, bounds: bool = True, notes: Sequence[str] = ()) -> HitCurve:
    """The hit curve of a question under a workload. Raises UnsupportedError where prefixes are not shared or it is not simulated."""
    plan = evaluate(d)
    if plan.starts is False:
        return HitCurve(plan, described, "none", 0, 0, 0, 0, 0, 0, 0, 0.0, 0, (), None, None, (*notes, plan.verdict), None)
    own = plan.capacity is not None
    shown = plan if own else evaluate(replace(d, kv_memory=_PLENTY))
    geometry = from_plan(shown)
    if geometry.beside or not shares_prefixes(shown, geometry):
        raise UnsupportedError("hit_curve: this engine shares no prefixes for this model and these options, or it is not simulated")
    block, dp = geometry.groups[0].block_tokens, plan.question["dp"][0] or 1
    cost = geometry.bytes_per_page or (shown.capacity.kv_bytes // geometry.pages if shown.capacity else 0)
    said = [*notes, *([f"one of {dp} replicas, which take turns with the requests"] if dp > 1 else [])]
    counted = [0]
    kept: list[Chain] | None = [] if bounds else None
    pass_ = stack(_chains(accepted(_counted(replica(dp), counted), geometry.max_model_len), block, kept))
    if not pass_.requests:
        raise SpecError("workload", [("", f"no request is within the longest of {geometry.max_model_len:,} tokens")])
    copies = sum(group.copies for group in geometry.groups)
    single = geometry.sort == "blocks" and copies == 1 and geometry.groups[0].kind == "full"
    smallest, largest = pass_.largest * copies, pass_.working_set * copies
    uses = next_uses(kept) if kept and single else []

    one_in = 1 if single else rate_for(pass_.references * copies, geometry)
    sample = Sample(block, one_in)
    thin = list(sample.requests(accepted(replica(dp), geometry.max_model_len))) if one_in > 1 else []
    small, prompts = shrunk(geometry, one_in), sum(request.prompt for request in thin)

    def found(pages: int) -> float:
        if single:
            return pass_.found(pages) * block / pass_.asked_tokens
        if one_in == 1:
            return alone(shown, replica(dp), pages)
        hits = alone(small, thin, max(round(pages / one_in), 1)) * prompts
        return sample.share(hits) * sample.asked * block / pass_.asked_tokens

    def point(pages: int) -> HitPoint:
        fifo = best = None
        if kept and single:
            fifo, best = (hits * block / pass_.asked_tokens for hits in (first_in(kept, pages), optimum(kept, uses, pages)))
        return HitPoint(pages, pages // copies * block, pages * cost, found(pages), fifo, best)

    points = [point(pages) for pages in spread(smallest, largest, SHOWN if single or one_in > 1 else RUNS)]
    most = found(largest if single else pass_.references * copies)
    while points[-1].found < most:  # evicting whole leaves, or windows, may need more than least recently used pages do
        points.append(point(2 * points[-1].pages))
    largest = next(one.pages for one in points if one.found >= most)
    pool = point(geometry.pages) if own and geometry.pages >= smallest else None
    below = _tiers(plan, pool, lambda tokens: found(max(min(tokens // block * copies, largest), smallest))) if pool else ()
    batched = simulate(plan, replica(dp), step_time=step_time(d)[0]).hit_rate if pool else None
    if below:
        said.append("tiers are taken to hold what was used last, whatever lies above them, without requests that run at once")
    if own and pool is None:
        said.append(f"the plan's own pool of {geometry.pages:,} pages is less than the largest request needs")
    if one_in > 1:
        middle = points[len(points) // 2].pages
        whole = f"at {middle:,} pages the whole workload finds {100 * alone(shown, replica(dp), middle):.1f} %"
        said.append(f"a sample of one page in {one_in:,}, by hash (SHARDS), as this cache is no stack algorithm: {whole}, the sample")
        said[-1] += f" {100 * found(middle):.1f} %"
    elif not single:
        said.append(f"this cache is no stack algorithm: its manager was run at each of the {len(points)} sizes")
    if single and pass_.again:
        said.append(f"{pass_.again:,} last blocks were computed beside an equal one: the curve may be off by as many blocks at most")
    if not pass_.hits.any():
        said.append("nothing is ever found: the requests share nothing (prefixes, turns, samples, a trace with hash_ids)")
    method = "stack distance" if single else "samples" if one_in > 1 else "runs"
    return HitCurve(
        plan, described, method, block, cost, pass_.requests, counted[0] - pass_.requests,
        pass_.asked_tokens, smallest, largest, most, pass_.again if single else 0, tuple(points), pool, batched, tuple(said), pass_,
        below, one_in,
    )  # fmt: skip


def _tiers(plan: Plan, pool: HitPoint, found: Callable[[int], float]) -> tuple[TierHits, ...]:
    """Each tier below the pool: it holds what was used last, of which those above hold the latest."""
    above, held, made = pool.found, pool.tokens, list[TierHits]()
    for tier in plan.outcome.tiers:
        if tier.tokens is not None and tier.what == "cache":
            held = max(held, tier.tokens)
            share = max(found(held), above)
            made.append(TierHits(tier.place, tier.system, tier.tokens, share, share - above))
            above = share
    return tuple(made)


def spread(low: int, high: int, n: int) -> list[int]:
    """Up to n whole sizes from low to high, each the same factor above the last."""
    return sorted({low, high, *(round(low * (high / low) ** (i / (n - 1))) for i in range(n))})


def _counted(requests: Iterable[Request], count: list[int]) -> Iterator[Request]:
    for request in requests:
        count[0] += 1
        yield request


def _chains(requests: Iterable[Request], block: int, kept: list[Chain] | None) -> Iterator[Chain]:
    for request in requests:
        one = chain(request, block)
        if kept is not None:
            kept.append(one)
        yield one
