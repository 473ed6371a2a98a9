"""What a simulation found, as frozen values."""

from __future__ import annotations

from typing import Any, NamedTuple


class Moments(NamedTuple):
    """Of a quantity over time (or over requests): mean, percentiles, largest."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: float


class Timeline(NamedTuple):
    """At most about a thousand moments: seconds, pages in use, requests running and waiting, tokens found and asked for so far."""

    seconds: tuple[float, ...] = ()
    pages: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    hit_tokens: tuple[int, ...] = ()
    asked_tokens: tuple[int, ...] = ()


class BesidePool(NamedTuple):
    """Another pool that every request needs pages of: of what kind, how many pages, and the most that were ever in use."""

    kind: str
    pages: int
    most: int


class TierFound(NamedTuple):
    """A tier below the pool, of one replica: where it lies, what keeps it, the tokens that it holds, those of prompts that came back from
    it, and pieces that it forgot. Of several replicas: the tokens of one, what came back of all."""

    place: str
    system: str
    tokens: int
    hit_tokens: int
    evicted: int


class Routed(NamedTuple):
    """Replicas behind a router: how many, and requests of the one that got most and of the one that got least, over the mean."""

    router: str
    replicas: int
    busiest: float
    idlest: float


class SimulationResult(NamedTuple):
    """One policy under one workload. Shares are fractions of the pool, over time; they add up to 1.

    pages            pages of the pool (token slots for contiguous policies)
    requests         finished; `rejected` could never fit, `too_long` of them in the model's length; `preempted` lost
                     their pages, `preemptions` times in all
    kept_waiting     requests that waited because the next one to run found no pages; `hindered`: those, and those preempted
    tokens           of finished requests, prompt and answer; `computed_tokens`: tokens that steps computed, again after preemption
    stored           slots of tokens that are still attended to
    reserved         slots held for tokens that will come
    internal         slots held that no token will use (and those of tokens no longer attended to)
    external         free pages; for contiguous policies chunk rounding and free chunks
    of_used          stored over pages in use
    waited, first_token, latency   seconds from arrival to admission, first token, end; `per_token`: of each token after the first
    good             finished requests that met the goal for these; all of them where there is none
    routed           of several replicas: pages, shares and what runs are those of one, requests and tokens those of all
    hit_tokens       tokens found in the cache, of `asked_tokens` tokens of admitted prompts; `evicted`: registered pages reused
    tiers            of `hit_tokens` those that came back from each tier below the pool, nearest first
    saved            pages that sharing saves, of those that would be in use without it, both over the whole time
    promised         longest requests that the plan says run at once
    """

    policy: str
    pages: int
    requests: int
    rejected: int
    too_long: int
    kept_waiting: int
    hindered: int
    preempted: int
    preemptions: int
    seconds: float
    steps: int
    tokens: int
    computed_tokens: int
    stored: float
    reserved: float
    internal: float
    external: float
    of_used: float
    pages_used: Moments
    running: Moments
    queued: Moments
    waited: Moments
    first_token: Moments
    latency: Moments
    hit_tokens: int
    asked_tokens: int
    evicted: int
    saved: float
    promised: float | None
    good: int
    per_token: Moments
    beside: tuple[BesidePool, ...] = ()
    tiers: tuple[TierFound, ...] = ()
    routed: Routed | None = None
    timeline: Timeline = Timeline()

    @property
    def hit_rate(self) -> float:
        """Share of admitted prompt tokens found in the cache."""
        return self.hit_tokens / self.asked_tokens if self.asked_tokens else 0.0

    @property
    def spare_pages(self) -> int:
        """Pages that were in use never, at the 99th percentile of time: what one could give back."""
        return self.pages - int(self.pages_used.p99)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON prints it."""
        plain: dict[str, Any] = dict(self._asdict())
        plain |= {name: value._asdict() for name, value in plain.items() if isinstance(value, Moments | Timeline | Routed)}
        plain["beside"] = [pool._asdict() for pool in self.beside]
        plain["tiers"] = [tier._asdict() for tier in self.tiers]
        return {**plain, "hit_rate": self.hit_rate, "spare_pages": self.spare_pages}
