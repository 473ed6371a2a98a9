"""What arrives: lengths, times, shared content. Streams of requests, reproducible by seed, with nothing kept but the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from kvplan.errors import SpecError, UnknownName
from kvplan.units import cdiv

#: Content of a request: (stream, end) pairs. Two requests agree up to a token when the same stream covers it in both; a stream stands
#: for everything up to its end, what came before it included. What follows the last pair is nobody else's.
Content = tuple[tuple[int, int], ...]
CHUNK = 4096


class Request(NamedTuple):
    """One request: seconds, tokens, what it shares, and whether its answer continues its last stream (a next turn will hold it).

    width, beam   sequences that answer the prompt together, sharing its pages, as samples or as the beams of a search
    """

    arrival: float
    prompt: int
    output: int
    content: Content = ()
    continues: bool = False
    width: int = 1
    beam: bool = False


class Lengths(NamedTuple):
    """A distribution of lengths. `fixed`: value; `lognormal`: mean and coefficient of variation; `empirical`: the values themselves."""

    kind: str
    mean: float = 0.0
    cv: float = 1.0
    values: tuple[int, ...] = ()

    def sample(self, rng: Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """n lengths of at least 1 token."""
        if self.kind == "fixed":
            return np.full(n, max(round(self.mean), 1))
        if self.kind == "empirical":
            return rng.choice(np.maximum(self.values, 1), n).astype(np.int64)
        sigma2 = np.log1p(self.cv**2)
        drawn = rng.lognormal(np.log(self.mean) - sigma2 / 2, np.sqrt(sigma2), n)
        return np.maximum(np.rint(drawn), 1).astype(np.int64)


def parse_lengths(text: str | int, name: str) -> Lengths:
    """`512` (fixed), `lognormal:MEAN` or `lognormal:MEAN:CV`, `10,20,40` (drawn from these). Raises SpecError."""
    plain = str(text).strip()
    try:
        if plain.startswith("lognormal:"):
            mean, cv = (float(part) for part in (plain + ":1" * (plain.count(":") == 1)).split(":")[1:])
            found = Lengths("lognormal", mean, cv)
        else:
            values = tuple(int(part) for part in plain.split(","))
            found = Lengths("fixed", values[0]) if len(values) == 1 else Lengths("empirical", values=values)
        good = min(found.values or (found.mean,)) >= 1 and max(found.values or (found.mean,)) <= 1 << 30 and 0 < found.cv <= 100
    except (ValueError, TypeError):
        good = False
    if not good:
        raise SpecError(name, [("", f"{str(text)[:60]!r}: write 512, lognormal:MEAN:CV or 10,20,40")])
    return found


class Arrivals(NamedTuple):
    """Times of arrival: `rate` a second; `cv` of the gaps (1: Poisson; more: gamma bursts; 0: evenly); rate None: all at once."""

    rate: float | None
    cv: float = 1.0

    def gaps(self, rng: Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if self.rate is None:
            return np.zeros(n)
        if self.cv == 0:
            return np.full(n, 1 / self.rate)
        shape = self.cv**-2
        return rng.gamma(shape, 1 / (self.rate * shape), n)


class Shape(NamedTuple):
    """A workload. Lengths of user texts and answers, and what requests have in common.

    max_tokens     prompt and answer together are cut to this
    prefixes       this many system prompts of `prefix_tokens` tokens, picked uniformly, stand before the user's text
    samples        answers drawn in parallel from one prompt: requests of their own with equal prompts, as engines send them today
    width, beam    sequences of one request that share its pages by forking (the paper's manager); beams of a search or samples
    turns          turns of a conversation: each brings the whole past, `think_seconds` apart on average
    branch         children a node has in a few-shot tree of examples of `prefix_tokens` tokens, `depth` levels
    """

    prompt: Lengths
    output: Lengths
    max_tokens: int = 1 << 30
    prefixes: int = 0
    prefix_tokens: int = 0
    samples: int = 1
    turns: int = 1
    think_seconds: float = 10.0
    branch: int = 0
    depth: int = 1
    width: int = 1
    beam: bool = False


#: Published means of the PagedAttention paper's workloads (arXiv 2309.06180, Figure 11), cut at its 2048 tokens. Only means are
#: published as numbers: lengths are taken log-normal, with the deviations, as shares of the mean, that agree best with the paper's other
#: figures (docs/simulate.md has what others give).
WORKLOADS: dict[str, Shape] = {
    "sharegpt": Shape(Lengths("lognormal", 161.31), Lengths("lognormal", 337.99), 2048),
    "alpaca": Shape(Lengths("lognormal", 19.31, 0.5), Lengths("lognormal", 58.45, 1.2), 2048),
    "fixed": Shape(Lengths("fixed", 512), Lengths("fixed", 128)),
}


def named(name: str) -> Shape:
    """A packaged workload. Raises UnknownName."""
    if name not in WORKLOADS:
        if "/" in name or "." in name:
            message = f"{name[:60]!r} is none that is packaged; requests of a file are asked for by trace (--trace FILE)"
            raise SpecError("workload", [("", message)])
        raise UnknownName("workload", name, list(WORKLOADS))
    return WORKLOADS[name]


def generate(shape: Shape, arrivals: Arrivals, n: int, seed: int = 0) -> Iterator[Request]:
    """The first n requests of a workload, by time of arrival. The same seed gives the same requests.

    Conversations that all begin at once are as many as have n turns together: otherwise nobody would come to a second turn.
    """
    _check(shape, arrivals, n)
    if shape.turns > 1:
        begun = None if arrivals.rate is not None else cdiv(n, shape.turns)
        return islice(_conversations(shape, arrivals, seed, begun), n)
    return islice(_single(shape, arrivals, seed), n)


def _check(shape: Shape, arrivals: Arrivals, n: int) -> None:
    faults = [
        (name, f"{value} is out of range: at least {least}")
        for name, value, least in (
            ("n", n, 1), ("samples", shape.samples, 1), ("turns", shape.turns, 1), ("max_tokens", shape.max_tokens, 2),
            ("width", shape.width, 1), ("prefixes", shape.prefixes, 0),
            ("prefix_tokens", shape.prefix_tokens, 0), ("depth", shape.depth, 1), ("cv", arrivals.cv, 0),
        ) if not value >= least
    ]  # fmt: skip
    faults += no_room(shape) if shape.turns > 1 else []
    if arrivals.rate is not None and not 0 < arrivals.rate < float("inf"):
        faults.append(("rate", f"{arrivals.rate} requests a second; write a number above 0"))
    if faults:
        raise SpecError("workload", faults)


def no_room(shape: Shape) -> list[tuple[str, str]]:
    """What is wrong with a conversation whose system prompt is as long as the longest request."""
    before = shape.prefix_tokens * (shape.depth if shape.branch else min(shape.prefixes, 1))
    if before <= shape.max_tokens - 2:
        return []
    return [("prefix_tokens", f"{before:,} tokens before each text leave none of {shape.max_tokens:,} for it")]


def _drawn(shape: Shape, arrivals: Arrivals, rng: Generator) -> Iterator[tuple[float, int, int, int]]:
    """(arrival, prompt, output, a random number) in order, drawn in chunks."""
    now = 0.0
    while True:  # in chunks of one size, so that the first requests are the same however many there are
        times = now + np.cumsum(arrivals.gaps(rng, CHUNK))
        prompts, outputs = shape.prompt.sample(rng, CHUNK), shape.output.sample(rng, CHUNK)
        picks = rng.integers(0, 1 << 40, CHUNK)
        yield from zip(times.tolist(), prompts.tolist(), outputs.tolist(), picks.tolist(), strict=True)
        now = float(times[-1])


def _single(shape: Shape, arrivals: Arrivals, seed: int) -> Iterator[Request]:
    streams = count(1 << 41)  # apart from the numbers of prefixes
    before = prefix_of(shape)
    for arrival, text, output, pick in _drawn(shape, arrivals, default_rng(seed)):
        content = before(pick)
        shared = content[-1][1] if content else 0
        prompt = min(shared + text, shape.max_tokens - 1)
        content = tuple((stream, min(end, prompt)) for stream, end in content)
        answer = min(output, shape.max_tokens - prompt)
        if shape.samples > 1:
            content = (*content, (next(streams), prompt))
        for _ in range(shape.samples):
            yield Request(arrival, prompt, answer, content, False, shape.width, shape.beam and shape.width > 1)


def prefix_of(shape: Shape) -> Callable[[int], Content]:
    """What stands before a text, by a random number."""
    if shape.branch:

        def path(pick: int) -> Content:
            node, found = 1, []
            for level in range(shape.depth):
                node, pick = node * shape.branch + pick % shape.branch, pick // shape.branch
                found.append((node, (level + 1) * shape.prefix_tokens))
            return tuple(found)

        return path
    if shape.prefixes and shape.prefix_tokens:
        return lambda pick: ((pick % shape.prefixes + 1, shape.prefix_tokens),)
    return lambda pick: ()


def _conversations(shape: Shape, arrivals: Arrivals, seed: int, begun: int | None) -> Iterator[Request]:
    """Conversations that start at the arrivals, so many at most; a heap holds those that go on."""
    rng, streams, before = default_rng(seed), count(1 << 41), prefix_of(shape)
    drawn = _drawn(shape, arrivals, rng)
    starts, time = islice(drawn, begun), 0.0
    waiting: list[tuple[float, int, int, int, Content]] = []  # next turn's time, stream, turns left, tokens so far, system prompt
    start = next(starts, None)
    while True:
        if start is None and not waiting:  # all that began have ended, some of them before their last turn
            start = (time, *next(drawn)[1:])
        if start is not None and (not waiting or start[0] <= waiting[0][0]):
            time, text, output, pick = start
            shared = before(pick)
            stream, left, past = next(streams), shape.turns, shared[-1][1] if shared else 0
            text = min(text, shape.max_tokens - past - 1)  # a first text is cut, as without turns; a later one ends the conversation
            start = next(starts, None)
        else:
            time, stream, left, past, shared = heappop(waiting)
            text, output = int(shape.prompt.sample(rng, 1)[0]), int(shape.output.sample(rng, 1)[0])
        if past + text + 1 > shape.max_tokens:
            continue
        output = min(output, shape.max_tokens - past - text)
        yield Request(time, past + text, output, (*shared, (stream, past + text)), True)
        if left > 1:
            gap = float(rng.exponential(shape.think_seconds))
            heappush(waiting, (time + gap, stream, left - 1, past + text + output, shared))


def replay(arrivals: Sequence[float], prompts: Sequence[int], outputs: Sequence[int]) -> Iterator[Request]:
    """Requests at given times with given lengths, nothing shared."""
    for arrival, prompt, output in zip(arrivals, prompts, outputs, strict=True):
        yield Request(arrival, prompt, output)
