"""Continuous batching, one step at a time: first come first served, chunked prefill, preemption of the last admitted.

The order of decisions is vLLM's (0.32 `vllm/v1/core/sched/scheduler.py`, schedule): running requests in the order of their admission,
each decoding one token; a prompt that was cut goes on with what is left of the step's tokens; then waiting requests, as long as the first
of them fits. A request that finds no room preempts the last admitted, which returns to the front of the queue and computes its tokens
again (or, swapped, reads them back). Every decoding sequence advances one token a step, so a sequence is looked at only when it needs
or returns a page, and when it ends: a step's cost does not grow with the sequences in it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

from kvplan.simulate.record import Recorder
from kvplan.simulate.sequence import Manager, Sequence
from kvplan.simulate.steptime import StepTime
from kvplan.simulate.workload import Request


class Limits(NamedTuple):
    """max_seqs        most sequences at once
    step_tokens     tokens one step computes at most, decoding and prompts together
    max_tokens      longest request (prompt and answer); longer ones are rejected
    fits            whether the empty pool has room for a request at its longest; others are rejected
    swap_seconds    None: preempted requests compute their tokens again; else the seconds to bring one token back
    """

    max_seqs: int
    step_tokens: int
    max_tokens: int
    fits: Callable[[Request], bool]
    swap_seconds: float | None = None


class Scheduler:
    """One replica's state between steps."""

    def __init__(self, manager: Manager, limits: Limits, step: StepTime, recorder: Recorder, check: bool = False) -> None:
        self.manager, self.limits, self.step_time, self.recorder = manager, limits, step, recorder
        self.checking = check
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}
        self.partial: Sequence | None = None  # the one prompt that was cut; always the last admitted
        self.now = 0.0
        self.step = 0
        self._decoding = self._kept = 0  # sequences that decode, and the sum of their offsets
        # who asks for a page at steps of one remainder by the stride, in the order of admission
        self._phases: list[dict[Sequence, None]] = [{} for _ in range(manager.stride)]
        # by step: who asks for a page then (where there is no stride), and who ends after it, each with the rank it had when that was noted
        self._wakes: defaultdict[int, list[tuple[int, Sequence]]] = defaultdict(list)
        self._ends: defaultdict[int, list[tuple[int, Sequence]]] = defaultdict(list)
        self._blocked: tuple[Sequence, int] | None = None
        self._refused_at = -1.0  # when a request was last refused for want of pages
        self._admitted = self._sequences = 0
        self.on_end: Callable[[Request, float, bool], None] | None = None  # told who had an answer, and when

    def computed(self, s: Sequence) -> int:
        """Tokens of a running sequence in the cache."""
        return s.computed if s is self.partial else self.step + s.offset

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.running)

    def arrive(self, number: int, request: Request) -> bool:
        """A request joins the queue; False: it is rejected."""
        limits = self.limits
        too_long = request.prompt + request.output > limits.max_tokens
        if too_long or request.width > limits.max_seqs or not limits.fits(request):
            self.recorder.rejected += 1
            self.recorder.too_long += too_long
            return False
        self.waiting.append(Sequence(number, request))
        return True

    def one_step(self) -> None:
        """The next step, at whose end the clock then stands."""
        limits, manager = self.limits, self.manager
        preempted = self._wake()
        budget = limits.step_tokens - self._decoding
        decoded, kept = self._decoding, self._kept + self._decoding * self.step
        started: list[Sequence] = []
        if self.partial is not None and budget > 0:
            computed = self._go_on(self.partial, budget, started)
            preempted |= computed is None
            budget -= computed or 0
        extra = 0.0
        if not preempted:
            budget, extra = self._admit(budget, started)
        tokens = limits.step_tokens - budget
        dt = self.step_time.seconds(self._sequences, tokens, kept) + extra
        self.recorder.step(self.now, dt, manager, len(self.running), len(self.waiting), tokens)
        self.now += dt
        self.step += 1
        self._finish(started)
        if self.recorder.due(self.step):
            self.recorder.sample(manager.shares(self._all()), manager)
        if self.checking:
            manager.check(self._all())
        if not self.running and not decoded and not started and self.partial is None and not preempted and self.waiting:
            raise AssertionError("the first request waits for a pool that is empty")

    def _go_on(self, s: Sequence, budget: int, started: list[Sequence]) -> int | None:
        """Tokens of the prompt that was cut which this step computes; None: it found no pages and was preempted."""
        chunk = min(s.known - s.computed, budget)
        if not self.manager.grow(s, s.computed, s.computed + chunk):
            self._preempt(s)
            return None
        s.computed += chunk
        if s.computed == s.known:
            self.partial = None
            started.append(s)
        return chunk

    def _admit(self, budget: int, started: list[Sequence]) -> tuple[int, float]:
        """Waiting requests, the first first, while there are tokens, seats and pages: tokens left, and seconds of bringing back."""
        swap_seconds, extra = self.limits.swap_seconds, 0.0
        while budget > 0 and self.waiting and self.partial is None:
            s = self.waiting[0]
            if self._sequences + s.width > self.limits.max_seqs:
                break
            swapped = s.epoch > 0 and swap_seconds is not None
            hit = self._pages_for(s, s.known if swapped else budget)
            if hit is None:
                break
            self.waiting.popleft()
            if swapped:
                extra += (swap_seconds or 0.0) * s.known
                hit = s.known - 1
            chunk = min(s.known - hit, budget)
            s.computed = hit + chunk
            budget -= chunk
            self._admitted += 1
            s.rank = self._admitted
            self.running[s] = None
            self._sequences += s.width
            if not s.epoch:
                self._record_wait(s)
            if s.computed == s.known:
                started.append(s)
            else:
                self.partial = s
        return budget, extra

    def _pages_for(self, s: Sequence, tokens: int) -> int | None:
        """Tokens found in the cache; None where the pool has no room, which is not asked again before something of it changed."""
        hit = None if self._blocked == (s, self.manager.changes) else self.manager.admit(s, tokens)
        if hit is None:
            self._blocked = (s, self.manager.changes)
            self._refused_at = self.now
        return hit

    def _record_wait(self, s: Sequence) -> None:
        """A request was admitted for the first time, hindered if any was refused pages since it came."""
        self.recorder.admitted(self.now - s.request.arrival)
        if self._refused_at >= s.request.arrival:
            s.hindered = True
            self.recorder.kept_waiting += 1
            self.recorder.hindered += 1

    def _all(self) -> list[tuple[Sequence, int]]:
        """Every running sequence, with its computed tokens."""
        step = self.step
        found = [(s, step + s.offset) for s in self.running]
        if self.partial is not None:  # always the last admitted
            found[-1] = self.partial, self.partial.computed
        return found

    def _wake(self) -> bool:
        """Let those decode that need a page for it, in the order of admission; whether any was preempted."""
        if self._phases:
            phase = self._phases[self.step % len(self._phases)]
            if not phase or self.manager.extend(phase, self.step):
                return False
            due = [(s.rank, s) for s in phase]
        else:
            due = sorted(self._wakes.pop(self.step, ()))
        preempted = False
        for rank, s in due:
            if s.rank != rank:  # preempted for one before it
                continue
            computed = self.step + s.offset
            while not self.manager.grow(s, computed, computed + 1):
                preempted = True
                victim = next(reversed(self.running))
                self._preempt(victim)
                if victim is s:
                    break
            else:
                self._sleep(s, computed + 1)
        return preempted

    def _sleep(self, s: Sequence, computed: int) -> None:
        if self._phases:
            self._phases[-s.offset % len(self._phases)][s] = None
            return
        step = self.manager.wake(s, computed) - s.offset
        if step < s.until:
            self._wakes[step].append((s.rank, s))

    def _leave(self, s: Sequence) -> None:
        del self.running[s]
        if self._phases:
            self._phases[-s.offset % len(self._phases)].pop(s, None)
        s.rank = 0
        self._sequences -= s.width

    def _preempt(self, s: Sequence) -> None:
        computed = self.computed(s)
        if s is self.partial:
            self.partial = None
        else:
            s.known = computed + 1
            self._decoding -= s.width
            self._kept -= s.width * s.offset
        self.manager.end(s, computed)
        self._leave(s)
        s.epoch += 1
        s.computed = 0
        self.waiting.appendleft(s)
        self.recorder.preemptions += 1
        if s.epoch == 1:
            self.recorder.preempted += 1
            self.recorder.hindered += not s.hindered

    def _finish(self, started: list[Sequence]) -> None:
        """After a step: prompts that are done have their first token and decode from now on; sequences that are done leave."""
        for s in started:
            if s.first < 0:
                s.first = self.now
                self.recorder.first_token(self.now - s.request.arrival)
            left = s.whole - s.known - 1
            s.offset = s.computed - self.step
            self._decoding += s.width
            self._kept += s.width * s.offset
            s.until = self.step + left
            self._ends[s.until].append((s.rank, s))
            self._sleep(s, s.computed)
        ending = self._ends.pop(self.step, None)
        if ending is None:
            return
        ending.sort()
        for rank, s in ending:
            if s.rank != rank:
                continue
            self._decoding -= s.width
            self._kept -= s.width * s.offset
            self.manager.end(s, s.whole - 1)
            self._leave(s)
            self.recorder.finished(self.now, s.first, s.request)
            if self.on_end is not None:
                self.on_end(s.request, self.now, True)
