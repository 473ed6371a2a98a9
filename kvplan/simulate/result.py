"""What a simulation found, as frozen values."""

from __future__ import annotations

from typing import Any, NamedTuple

SCHEMA = "kvplan.simulation/1"


class Moments(NamedTuple):
    """Of a quantity over time (or over requests): mean, percentiles, largest."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: float


class Timeline(NamedTuple):
    """At most about a thousand moments: seconds, pages in use, sequences running, requests waiting."""

    seconds: tuple[float, ...] = ()
    pages: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()


class SimulationResult(NamedTuple):
    """One policy under one workload. Shares are fractions of the pool, over time; they add up to 1.

    pages            pages of the pool (token slots for contiguous policies)
    requests         finished; `rejected` could never fit; `preempted` lost their pages at least once, `preemptions` times in all
    tokens           of finished requests, prompt and answer; `computed_tokens`: tokens that steps computed, again after preemption
    stored           slots of tokens that are still attended to
    reserved         slots held for tokens that will come
    internal         slots held that no token will use (and those of tokens no longer attended to)
    external         free pages; for contiguous policies chunk rounding and free chunks
    of_used          stored over pages in use
    waited, first_token, latency   seconds from arrival to admission, first token, end
    hit_tokens       tokens found in the cache, of `asked_tokens` tokens of admitted prompts; `evicted`: registered pages reused
    promised         longest requests that the plan says run at once
    """

    policy: str
    pages: int
    requests: int
    rejected: int
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
    promised: float | None
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
        plain = {name: value._asdict() if isinstance(value, Moments | Timeline) else value for name, value in self._asdict().items()}
        return {"schema": SCHEMA, **plain, "hit_rate": self.hit_rate, "spare_pages": self.spare_pages}
