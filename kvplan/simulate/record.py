"""What a simulation is watched for: time-weighted counts with memory that does not grow with the trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.simulate.result import Moments, Routed, SimulationResult, TierFound, Timeline
from kvplan.simulate.sequence import Manager, Shares
from kvplan.simulate.tiers import Tiers
from kvplan.simulate.workload import Request

SAMPLE_STEPS = 32  # every so many steps the pages are looked into
POINTS = 1024  # most points of a timeline; beyond it every second is dropped
MILLISECOND, MICROSECOND = 1e-3, 1e-6


class Histogram:
    """Seconds (or counts) by value."""

    def __init__(self) -> None:
        self.weight: dict[int, float] = {}

    def add(self, value: int, weight: float) -> None:
        self.weight[value] = self.weight.get(value, 0.0) + weight

    def mark(self, seconds: float, unit: float = MILLISECOND) -> None:
        """One more of so many seconds, in whole units of three figures at most: so that a histogram of delays stays small."""
        n = round(seconds / unit)
        if n >= 1000:
            cut = 10
            while n >= 1000 * cut:
                cut *= 10
            n = n // cut * cut
        elif n < 0:
            n = 0
        self.weight[n] = self.weight.get(n, 0.0) + 1

    def moments(self, scale: float = 1.0) -> Moments:
        """Mean and percentiles, values multiplied by `scale`."""
        whole = sum(self.weight.values())
        if not whole:
            return Moments(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        values = sorted(self.weight)
        marks, at, seen = [], 0, 0.0
        wanted = [0.5 * whole, 0.9 * whole, 0.95 * whole, 0.99 * whole]
        for value in values:
            seen += self.weight[value]
            while at < len(wanted) and seen >= wanted[at] * (1 - 1e-12):
                marks.append(value * scale)
                at += 1
        marks += [values[-1] * scale] * (len(wanted) - at)
        mean = sum(value * weight for value, weight in self.weight.items()) / whole * scale
        return Moments(mean, marks[0], marks[1], marks[2], marks[3], values[-1] * scale)


def tiers_of(manager: Manager) -> tuple[TierFound, ...]:
    """What the tiers below a pool gave so far; nothing where it has none."""
    tiers: Tiers | None = getattr(manager, "tiers", None)
    return tiers.results() if tiers is not None else ()


def _less(one: TierFound, before: TierFound | None) -> TierFound:
    if before is None:
        return one
    return one._replace(hit_tokens=one.hit_tokens - before.hit_tokens, evicted=one.evicted - before.evicted)


class Goal(NamedTuple):
    """What a good answer is: seconds to the first token, and for each further one on average."""

    first_token: float
    per_token: float


class Recorder:
    """Everything a result is made of, from `warm` seconds of simulated time on; what was before is forgotten."""

    def __init__(self, warm: float = 0.0, goal: Goal | None = None) -> None:
        self.warm, self.goal = warm, goal
        self._early = warm > 0
        self._before: tuple[int, ...] = (0, 0, 0)  # tokens found and asked for, pages evicted, before `warm`
        self._tiers: tuple[TierFound, ...] = ()  # what tiers had given before it
        self._clear()

    def _clear(self) -> None:
        self.seconds = 0.0
        self.steps = self.tokens = self.done = self.done_tokens = self.good = 0
        self.kept_waiting = self.hindered = self.rejected = self.too_long = self.preempted = self.preemptions = 0
        self.used, self.running, self.queued = Histogram(), Histogram(), Histogram()
        self.wait, self.first, self.latency, self.per_token = Histogram(), Histogram(), Histogram(), Histogram()
        self._sums = [0.0, 0.0, 0.0, 0.0]  # page-seconds stored, reserved, internal, in use
        self._looked = self._since = 0.0
        self._every, self._skipped = 1, 0
        self._saved = [0.0, 0.0]  # page-seconds that sharing saves, and that there would be without it
        self._points: list[tuple[float, int, int, int, int, int]] = []

    def begin(self, now: float, manager: Manager) -> None:
        """What is asked about begins now."""
        self._early = False
        self._before = (manager.hit_tokens, manager.asked_tokens, manager.evicted)
        self._tiers = tiers_of(manager)
        self._clear()

    def step(self, now: float, dt: float, manager: Manager, running: int, waiting: int, tokens: int) -> None:
        if self._early:
            if now < self.warm:
                return
            self.begin(now, manager)
        used = manager.used
        self.steps += 1
        self.tokens += tokens
        self.seconds += dt
        self._since += dt
        for seconds, value in ((self.used.weight, used), (self.running.weight, running), (self.queued.weight, waiting)):
            seconds[value] = seconds.get(value, 0.0) + dt
        self._skipped += 1
        if self._skipped >= self._every:
            self._skipped = 0
            self._points.append((now, used, running, waiting, manager.hit_tokens, manager.asked_tokens))
            if len(self._points) > POINTS:
                self._points = self._points[::2]
                self._every *= 2

    def idle(self, seconds: float) -> None:
        """Time in which nothing runs."""
        self.seconds += seconds
        self.used.add(0, seconds)
        self.running.add(0, seconds)
        self.queued.add(0, seconds)

    def due(self, step: int) -> bool:
        """Whether the pages should be looked into after this step."""
        return step % SAMPLE_STEPS == 0 and self._since > 0

    def sample(self, shares: Shares, manager: Manager) -> None:
        dt, self._since = self._since, 0.0
        used, again = manager.used, manager.again
        self._looked += dt
        self._saved[0] += dt * again
        self._saved[1] += dt * (used + again)
        for i, pages in enumerate((*shares, used)):
            self._sums[i] += pages * dt

    def admitted(self, waited: float) -> None:
        self.wait.mark(waited)

    def first_token(self, seconds: float) -> None:
        self.first.mark(seconds)

    def finished(self, now: float, first: float, request: Request) -> None:
        """An answer that began and ended at these times."""
        self.done += 1
        self.done_tokens += request.prompt + request.output
        self.latency.mark(now - request.arrival)
        each = (now - first) / (request.output - 1) if request.output > 1 else 0.0
        if request.output > 1:
            self.per_token.mark(each, MICROSECOND)
        self.good += self.goal is None or (first - request.arrival <= self.goal.first_token and each <= self.goal.per_token)

    @property
    def bad(self) -> int:
        """Requests that had no good answer."""
        return self.done - self.good + self.rejected

    def take_in(self, other: Recorder) -> None:
        """Another replica's figures, as if all had been one: times add up."""
        for name in ("seconds", "steps", "tokens", "done", "done_tokens", "good", "kept_waiting", "hindered", "rejected", "too_long",
                     "preempted", "preemptions", "_looked"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("used", "running", "queued", "wait", "first", "latency", "per_token"):
            mine: Histogram = getattr(self, name)
            for value, weight in getattr(other, name).weight.items():
                mine.add(value, weight)
        self._sums = [a + b for a, b in zip(self._sums, other._sums, strict=True)]
        self._saved = [a + b for a, b in zip(self._saved, other._saved, strict=True)]
        self._before = tuple(a + b for a, b in zip(self._before, other._before, strict=True))

    def tiers(self, manager: Manager) -> tuple[TierFound, ...]:
        """What the tiers of its own manager gave since it began."""
        before = {(one.place, one.system): one for one in self._tiers}
        return tuple(_less(one, before.get((one.place, one.system))) for one in tiers_of(manager))

    def result(self, managers: Sequence[Manager], policy: str, promised: float | None, router: Routed | None = None) -> SimulationResult:
        """The result; shares of what the recorder looked into, over the whole pool. Of several replicas: of one, where time counts."""
        manager, n = managers[0], len(managers)
        found, asked, evicted = (
            sum(getattr(one, name) for one in managers) - before
            for name, before in zip(("hit_tokens", "asked_tokens", "evicted"), self._before, strict=True)
        )
        pool = manager.size * self._looked
        stored, reserved, internal, used = (x / pool if pool else 0.0 for x in self._sums)
        if policy.startswith("contiguous"):
            used = stored + reserved + internal
        return SimulationResult(
            policy=policy,
            pages=manager.size,
            requests=self.done,
            rejected=self.rejected,
            too_long=self.too_long,
            kept_waiting=self.kept_waiting,
            hindered=self.hindered,
            preempted=self.preempted,
            preemptions=self.preemptions,
            seconds=self.seconds / n,
            steps=self.steps,
            tokens=self.done_tokens,
            computed_tokens=self.tokens,
            stored=stored,
            reserved=reserved,
            internal=internal,
            external=1 - used,
            of_used=stored / used if used else 0.0,
            pages_used=self.used.moments(),
            running=self.running.moments(),
            queued=self.queued.moments(),
            waited=self.wait.moments(MILLISECOND),
            first_token=self.first.moments(MILLISECOND),
            latency=self.latency.moments(MILLISECOND),
            hit_tokens=found,
            asked_tokens=asked,
            evicted=evicted,
            saved=self._saved[0] / self._saved[1] if self._saved[1] else 0.0,
            promised=promised,
            good=self.good,
            per_token=self.per_token.moments(MICROSECOND),
            routed=router,
            timeline=Timeline(*(tuple(column) for column in zip(*self._points, strict=True))) if self._points else Timeline(),
        )
