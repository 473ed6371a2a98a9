"""A question's hit curve: prompt tokens found in the engine's prefix cache by its size, and what the plan's own pool finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import SpecError, UnsupportedError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.planner.simulation import Replica, cache_tiers, page_bytes, step_time
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
    method: Literal["stack distance", "runs", "samples", "none"]
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


class _Cache:
    """The cache of a question, asked what it finds at any size: by the one pass, or by its manager, on a sample where there is much.

    single  whether there is one pass; one_in: pages of the workload for each of the sample
    """

    def __init__(self, shown: Plan, requests: Callable[[], Iterable[Request]], bounds: bool) -> None:
        self.shown, self.geometry, self.requests = shown, from_plan(shown), requests
        if self.geometry.beside or not shares_prefixes(shown, self.geometry):
            raise UnsupportedError("hit_curve: this engine shares no prefixes for this model and these options, or it is not simulated")
        groups = self.geometry.groups
        self.block, self.copies = groups[0].block_tokens, sum(group.copies for group in groups)
        self.single = self.geometry.sort == "blocks" and self.copies == 1 and groups[0].kind == "full"
        self.page_bytes = page_bytes(shown, self.geometry)
        self.came = 0
        self._kept: list[Chain] | None = [] if bounds and self.single else None
        self.stack = stack(_chains(self._accepted(), self.block, self._kept))
        if not self.stack.requests:
            raise SpecError("workload", [("", f"no request is within the longest of {self.geometry.max_model_len:,} tokens")])
        self._uses = next_uses(self._kept) if self._kept else []
        self.one_in = 1 if self.single else rate_for(self.references, self.geometry)
        self._sample = Sample(self.block, self.one_in)
        self._thin = list(self._sample.requests(accepted(requests(), self.geometry.max_model_len))) if self.one_in > 1 else []
        self._small, self._prompts = shrunk(self.geometry, self.one_in), sum(request.prompt for request in self._thin)

    def _accepted(self) -> Iterator[Request]:
        """Requests within the longest; `came` counts all."""

        def counted() -> Iterator[Request]:
            for request in self.requests():
                self.came += 1
                yield request

        return accepted(counted(), self.geometry.max_model_len)

    @property
    def references(self) -> int:
        """Pages that the requests held, each as often as it was asked for."""
        return self.stack.references * self.copies

    def found(self, pages: int) -> float:
        """Share of prompt tokens found by so many pages."""
        if self.single:
            return self.stack.found(pages) * self.block / self.stack.asked_tokens
        if self.one_in == 1:
            return self.whole(pages)
        hits = alone(self._small, self._thin, max(round(pages / self.one_in), 1)) * self._prompts
        return self._sample.share(hits) * self._sample.asked * self.block / self.stack.asked_tokens

    def whole(self, pages: int) -> float:
        """The same by the manager, run on all requests."""
        return alone(self.shown, self.requests(), pages)

    def point(self, pages: int) -> HitPoint:
        """A size with its bounds."""
        fifo = best = None
        if self._kept:
            hits = first_in(self._kept, pages), optimum(self._kept, self._uses, pages)
            fifo, best = (n * self.block / self.stack.asked_tokens for n in hits)
        return HitPoint(pages, pages // self.copies * self.block, pages * self.page_bytes, self.found(pages), fifo, best)

    def points(self) -> tuple[list[HitPoint], float]:
        """The sizes shown, from the largest request to where nothing more is found, and the share found there."""
        smallest, largest = self.stack.largest * self.copies, self.stack.working_set * self.copies
        points = [self.point(pages) for pages in spread(smallest, largest, SHOWN if self.single or self.one_in > 1 else RUNS)]
        most = self.found(largest if self.single else self.references)
        while points[-1].found < most:  # evicting whole leaves, or windows, may need more than least recently used pages do
            points.append(self.point(2 * points[-1].pages))
        return points, most

    def said(self, points: Sequence[HitPoint]) -> Iterator[str]:
        """How the shares were found, for people."""
        if self.one_in > 1:
            middle = points[len(points) // 2].pages
            shares = f"{100 * self.whole(middle):.1f} %, the sample {100 * self.found(middle):.1f} %"
            whole = f"at {middle:,} pages the whole workload finds {shares}"
            yield f"a sample of one page in {self.one_in:,}, by hash (SHARDS), as this cache is no stack algorithm: {whole}"
        elif not self.single:
            yield f"this cache is no stack algorithm: its manager was run at each of the {len(points)} sizes"
        if self.single and self.stack.again:
            yield f"{self.stack.again:,} last blocks were computed beside an equal one: the curve may be off by as many blocks at most"
        if not self.stack.hits.any():
            yield "nothing is ever found: the requests share nothing (prefixes, turns, samples, a trace with hash_ids)"


def curve(d: Deployment, replica: Replica, described: Mapping[str, Any], *, bounds: bool, notes: Sequence[str]) -> HitCurve:
    """The hit curve of a question under a workload. Raises UnsupportedError where prefixes are not shared or it is not simulated."""
    plan = evaluate(d)
    if plan.starts is False:
        return HitCurve(plan, described, "none", 0, 0, 0, 0, 0, 0, 0, 0.0, 0, (), None, None, (*notes, plan.verdict), None)
    own, dp = plan.capacity is not None, plan.asked("dp") or 1
    cache = _Cache(plan if own else evaluate(replace(d, kv_memory=_PLENTY)), lambda: replica(dp), bounds)
    points, most = cache.points()
    smallest, largest = points[0].pages, next(one.pages for one in points if one.found >= most)
    pool = cache.point(cache.geometry.pages) if own and cache.geometry.pages >= smallest else None
    below: tuple[TierHits, ...] = ()
    batched = None
    if pool is not None:
        below = _tiers(plan, pool, lambda tokens: cache.found(max(min(tokens // cache.block * cache.copies, largest), smallest)))
        batched = simulate(plan, replica(dp), step_time=step_time(d)[0]).hit_rate
    said = [*notes, *([f"one of {dp} replicas, which take turns with the requests"] if dp > 1 else [])]
    if below:
        said.append("tiers are taken to hold what was used last, whatever lies above them, without requests that run at once")
    if own and pool is None:
        said.append(f"the plan's own pool of {cache.geometry.pages:,} pages is less than the largest request needs")
    return HitCurve(
        plan=plan,
        workload=described,
        method="stack distance" if cache.single else "samples" if cache.one_in > 1 else "runs",
        page_tokens=cache.block,
        page_bytes=cache.page_bytes,
        requests=cache.stack.requests,
        too_long=cache.came - cache.stack.requests,
        asked_tokens=cache.stack.asked_tokens,
        smallest=smallest,
        working_set=largest,
        most=most,
        again=cache.stack.again if cache.single else 0,
        points=tuple(points),
        pool=pool,
        batched=batched,
        notes=(*said, *cache.said(points)),
        stack=cache.stack,
        tiers=below,
        one_in=cache.one_in,
    )


def _tiers(plan: Plan, pool: HitPoint, found: Callable[[int], float]) -> tuple[TierHits, ...]:
    """Each tier below the pool: it holds what was used last, of which those above hold the latest."""
    above, held, made = pool.found, pool.tokens, list[TierHits]()
    for tier, tokens in cache_tiers(plan):
        held = max(held, tokens)
        share = max(found(held), above)
        made.append(TierHits(tier.place, tier.system, tokens, share, share - above))
        above = share
    return tuple(made)


def spread(low: int, high: int, n: int) -> list[int]:
    """Up to n whole sizes from low to high, each the same factor above the last."""
    return sorted({low, high, *(round(low * (high / low) ** (i / (n - 1))) for i in range(n))})


def _chains(requests: Iterable[Request], block: int, kept: list[Chain] | None) -> Iterator[Chain]:
    for request in requests:
        one = chain(request, block)
        if kept is not None:
            kept.append(one)
        yield one
