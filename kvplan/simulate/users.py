"""Users who wait for an answer, think, and ask on: a closed loop, in which a slow server is asked less often.

Each user has a conversation of several turns, whose whole past every request brings along, and then begins another. With tools, each turn
is several requests: the answers before the last call a tool, whose result comes after a while and goes into the next prompt. What a user
asks, and for how long a user thinks, is drawn for each user apart: it depends neither on the server nor on how many others there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from numpy.random import default_rng

from kvplan.errors import SpecError
from kvplan.simulate.workload import Content, Lengths, Request, Shape, no_room, prefix_of

REQUESTS, OF_EACH = 1000, 2
_FIRST_STREAM = 1 << 41  # apart from the numbers of prefixes


class Habits(NamedTuple):
    """shape         lengths of texts and answers, longest conversation, system prompts, turns, mean think time (exponential)
    tool_calls    calls of tools before each turn's last answer; results of `tool_tokens` come `tool_seconds` later on average (exponential)
    requests      answers to look at, after as many as there are users; None: 1,000, or two of each user where that is more
    """

    users: int
    shape: Shape
    tool_calls: int = 0
    tool_tokens: Lengths | None = None
    tool_seconds: float = 1.0
    seed: int = 0
    requests: int | None = None

    @property
    def looked_at(self) -> int:
        return self.requests or max(REQUESTS, OF_EACH * self.users)


class User:
    """One user's conversation: what is asked next, and when."""

    __slots__ = ("_calls", "_gaps", "_habits", "_outputs", "_rng", "_step", "_texts", "past", "shared", "stream")

    def __init__(self, number: int, habits: Habits) -> None:
        self._habits = habits
        self._rng = default_rng([habits.seed, number])
        self._calls = habits.tool_calls + 1  # requests of a turn
        self.stream = _FIRST_STREAM + number
        self._begin()
        turn = int(self._rng.integers(0, habits.shape.turns))  # users are at all turns of their conversations when one starts to look
        self._step = turn * self._calls
        self.past += sum(self._texts[: self._step]) + sum(self._outputs[: self._step])

    def _begin(self) -> None:
        """Another conversation."""
        habits, rng = self._habits, self._rng
        shape, steps = habits.shape, habits.shape.turns * self._calls
        self.shared: Content = prefix_of(shape)(int(rng.integers(0, 1 << 40)))
        self.past = self.shared[-1][1] if self.shared else 0
        self._step = 0
        self._outputs = shape.output.sample(rng, steps).tolist()
        self._gaps = rng.exponential(shape.think_seconds, steps).tolist()
        self._texts = shape.prompt.sample(rng, steps).tolist()
        if habits.tool_tokens is not None:
            results = habits.tool_tokens.sample(rng, steps).tolist()
            waits = rng.exponential(habits.tool_seconds, steps).tolist()
            for step in range(steps):
                if step % self._calls:
                    self._texts[step] = results[step]
                if (step + 1) % self._calls:
                    self._gaps[step] = waits[step]

    def another(self) -> None:
        self.stream += self._habits.users
        self._begin()

    def first_gap(self) -> float:
        return float(self._rng.exponential(self._habits.shape.think_seconds))

    def ask(self, now: float) -> Request:
        most = self._habits.shape.max_tokens
        if self._step == len(self._texts) or self.past + self._texts[self._step] + 1 > most:
            self.another()
        prompt = min(self.past + self._texts[self._step], most - 1)
        answer = min(self._outputs[self._step], most - prompt)
        content = tuple((stream, min(end, prompt)) for stream, end in self.shared)
        return Request(now, prompt, answer, (*content, (self.stream, prompt)), True)

    def answered(self, request: Request) -> float:
        """Seconds until the user asks again."""
        self.past = request.prompt + request.output
        gap: float = self._gaps[self._step]
        self._step += 1
        return gap


class Users:
    """All of them, as a source of requests."""

    def __init__(self, habits: Habits) -> None:
        if faults := no_room(habits.shape):
            raise SpecError("workload", faults)
        self.habits = habits
        self._users = [User(n, habits) for n in range(habits.users)]
        self._waiting = [(user.first_gap(), n) for n, user in enumerate(self._users)]
        heapify(self._waiting)
        self._done = 0

    @property
    def coming(self) -> float | None:
        return self._waiting[0][0] if self._waiting else None

    @property
    def over(self) -> bool:
        return self._done >= self.habits.users + self.habits.looked_at

    @property
    def warmed(self) -> bool:
        return self._done >= self.habits.users

    def take(self) -> Request:
        now, n = heappop(self._waiting)
        return self._users[n].ask(now)

    def ended(self, request: Request, now: float, served: bool) -> None:
        n = (request.content[-1][0] - _FIRST_STREAM) % self.habits.users
        gap = self._users[n].answered(request)
        if not served:
            self._users[n].another()
        self._done += 1
        heappush(self._waiting, (now + gap, n))


def one_after_another(users: Users) -> Iterator[Request]:
    """The requests in the order in which they come where every answer comes at once."""
    while not users.over:
        request = users.take()
        yield request
        users.ended(request, request.arrival, True)
