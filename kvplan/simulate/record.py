"""What a simulation is watched for: time-weighted counts with memory that does not grow with the trace."""

from __future__ import annotations

from kvplan.simulate.result import Moments, SimulationResult, Timeline
from kvplan.simulate.sequence import Manager, Shares

SAMPLE_STEPS = 32  # every so many steps the pages are looked into
POINTS = 1024  # most points of a timeline; beyond it every second is dropped


class Histogram:
    """Seconds (or counts) by value."""

    def __init__(self) -> None:
        self.weight: dict[int, float] = {}

    def add(self, value: int, weight: float) -> None:
        self.weight[value] = self.weight.get(value, 0.0) + weight

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


MILLISECOND = 1e-3


def _bucket(seconds: float) -> int:
    """Whole milliseconds, three figures at most: so that a histogram of delays stays small."""
    n = max(round(seconds / MILLISECOND), 0)
    digits = max(len(str(n)) - 3, 0)
    unit = int(10**digits)
    return n // unit * unit


class Recorder:
    """Everything a result is made of. Nothing is counted before `warm` seconds of simulated time, except totals."""

    def __init__(self, warm: float = 0.0) -> None:
        self.warm = warm
        self.seconds = 0.0
        self.steps = self.tokens = self.done = self.done_tokens = 0
        self.kept_waiting = self.hindered = self.rejected = self.too_long = self.preempted = self.preemptions = 0
        self.used, self.running, self.queued = Histogram(), Histogram(), Histogram()
        self.wait, self.first, self.latency = Histogram(), Histogram(), Histogram()
        self._sums = [0.0, 0.0, 0.0, 0.0]  # page-seconds stored, reserved, internal, in use
        self._looked = self._since = 0.0
        self._every, self._skipped = 1, 0
        self._saved = [0.0, 0.0]  # page-seconds that sharing saves, and that there would be without it
        self._points: list[tuple[float, int, int, int, int, int]] = []

    def step(self, now: float, dt: float, manager: Manager, running: int, waiting: int, tokens: int) -> None:
        used = manager.used
        self.steps += 1
        self.tokens += tokens
        if now < self.warm:
            return
        self.seconds += dt
        self._since += dt
        self.used.add(used, dt)
        self.running.add(running, dt)
        self.queued.add(waiting, dt)
        self._skipped += 1
        if self._skipped >= self._every:
            self._skipped = 0
            self._points.append((now, used, running, waiting, manager.hit_tokens, manager.asked_tokens))
            if len(self._points) > POINTS:
                self._points = self._points[::2]
                self._every *= 2

    def idle(self, seconds: float) -> None:
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
        self.wait.add(_bucket(waited), 1)

    def first_token(self, seconds: float) -> None:
        self.first.add(_bucket(seconds), 1)

    def finished(self, seconds: float, prompt: int, output: int) -> None:
        self.done += 1
        self.done_tokens += prompt + output
        self.latency.add(_bucket(seconds), 1)

    def result(self, manager: Manager, policy: str, promised: float | None) -> SimulationResult:
        """The result; shares of what the recorder looked into, over the whole pool."""
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
            seconds=self.seconds,
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
            hit_tokens=manager.hit_tokens,
            asked_tokens=manager.asked_tokens,
            evicted=manager.evicted,
            saved=self._saved[0] / self._saved[1] if self._saved[1] else 0.0,
            promised=promised,
            timeline=Timeline(*(tuple(column) for column in zip(*self._points, strict=True))) if self._points else Timeline(),
        )
