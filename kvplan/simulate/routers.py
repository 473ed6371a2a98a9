"""How routers choose a replica. What they count in characters is taken as 4 to a token; loads are exact here, really up to 0.1 s old.

round-robin     in turn
least-loaded    fewest requests, more for a queue at a full cache: vLLM 0.32's own balancer of data-parallel ranks
                (`vllm/v1/engine/core_client.py`, DPLBAsyncMPClient.get_core_engine_for_request)
session         a conversation stays where its id hashes to; requests without one take turns
cache-aware     SGLang's model gateway with its defaults (`sgl-model-gateway/src/policies/cache_aware.rs`, bindings `router_args.py`)
prefix-scorer   llm-d's scheduler with estimated prefixes (`deploy/config/epp-estimate-prefix-cache-config.yaml`: approximateprefix and
                loadaware, both of weight 1)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count, islice
from random import Random

from kvplan.simulate.cluster import Route
from kvplan.simulate.scheduler import Scheduler
from kvplan.simulate.workload import Content, Request

#: SGLang: share of a prompt that must match, requests and ratio that make replicas unequal, characters that a replica's tree holds.
CACHE_THRESHOLD, BALANCE_ABS, BALANCE_REL, MAX_TREE_SIZE = 0.3, 64, 1.5, 1 << 26
CHARACTERS = 4
#: llm-d: blocks of a prompt that are looked at; waiting requests at which a replica counts as full.
MOST_BLOCKS, QUEUE = 256, 128


def load(one: Scheduler) -> int:
    """Requests at a replica."""
    return len(one.waiting) + len(one.running)


def round_robin(replicas: int, block: int, pages: int) -> Route:
    turn = count()
    return lambda request, ones: next(turn) % replicas


def least_loaded(replicas: int, block: int, pages: int) -> Route:
    start = 0

    def route(request: Request, ones: Sequence[Scheduler]) -> int:
        nonlocal start
        best, least = 0, float("inf")
        for n in range(replicas):
            i = (start + n) % replicas
            waiting = len(ones[i].waiting)
            score = waiting + len(ones[i].running) + waiting * 6 * max(0.0, ones[i].manager.used / ones[i].manager.size - 0.5)
            if score < least:
                best, least = i, score
        start = (best + 1) % replicas
        return best

    return route


def session(replicas: int, block: int, pages: int) -> Route:
    turn = count()

    def route(request: Request, ones: Sequence[Scheduler]) -> int:
        if not request.continues or not request.content:
            return next(turn) % replicas
        return Random(request.content[-1][0]).randrange(replicas)

    return route


def cache_aware(replicas: int, block: int, pages: int) -> Route:
    """A tree of the prompts that each replica was sent. It never hears what a replica evicts."""
    trees = [Texts(MAX_TREE_SIZE // CHARACTERS) for _ in range(replicas)]
    number = count(1)

    def route(request: Request, ones: Sequence[Scheduler]) -> int:
        loads = [load(one) for one in ones]
        least = loads.index(min(loads))
        chosen = least
        if not (max(loads) - min(loads) > BALANCE_ABS and max(loads) > BALANCE_REL * min(loads)):
            found = [tree.match(request.content) for tree in trees]
            if max(found) > CACHE_THRESHOLD * request.prompt:
                chosen = found.index(max(found))
        trees[chosen].add(request, -next(number))
        return chosen

    return route


class Texts:
    """Prompts by the streams that cover them, least recently used first; a stream's tokens are its own, without what comes before."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._ends: OrderedDict[int, tuple[int, int]] = OrderedDict()  # stream: where its own tokens begin, and how far they are known

    def match(self, content: Content) -> int:
        """Tokens of the longest known beginning."""
        at = 0
        for stream, end in content:
            known = self._ends.get(stream)
            if known is None:
                break
            at = min(end, known[1])
            if at < end:
                break
        return at

    def add(self, request: Request, own: int) -> None:
        at, touched = 0, []
        for stream, end in (*request.content, (own, request.prompt)):
            if end > at:
                begin, known = self._ends.get(stream, (at, at))
                self._ends[stream] = begin, max(known, end)
                self._held += max(end - known, 0)
                touched.append(stream)
                at = end
        for stream in reversed(touched):  # leaves are the older ones
            self._ends.move_to_end(stream)
        while self._held > self._most and len(self._ends) > 1:
            _, (begin, end) = self._ends.popitem(last=False)
            self._held -= end - begin


def prefix_scorer(replicas: int, block: int, pages: int) -> Route:
    """The share of a prompt's first 256 blocks that were sent to a replica lately, and half a point for an empty queue."""
    known: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(replicas)]
    random, number = Random(0), count(1)

    def route(request: Request, ones: Sequence[Scheduler]) -> int:
        blocks = _blocks(request, block, next(number))
        found = [0] * replicas
        for name in blocks:
            holders = [i for i, there in enumerate(known) if name in there]
            if not holders:
                break
            for i in holders:
                found[i] += 1
        scores = [n / max(len(blocks), 1) + 0.5 * (1 - min(len(one.waiting), QUEUE) / QUEUE) for n, one in zip(found, ones, strict=True)]
        best = max(scores)
        chosen = random.choice([i for i, score in enumerate(scores) if score == best])
        there = known[chosen]
        for name in blocks:
            there[name] = None
            there.move_to_end(name)
        while len(there) > pages:
            there.popitem(last=False)
        return chosen

    return route


def _blocks(request: Request, block: int, number: int) -> list[int]:
    """Names of a prompt's first whole blocks."""
    names: list[int] = []
    most = min(request.prompt // block, MOST_BLOCKS)
    for stream, end in (*request.content, (-number, request.prompt)):
        names += [(stream << 32) + n for n in range(len(names), min(end // block, most))]
    return list(islice(names, most))


ROUTERS: dict[str, Callable[[int, int, int], Route]] = {
    "round-robin": round_robin, "least-loaded": least_loaded, "session": session, "cache-aware": cache_aware,
    "prefix-scorer": prefix_scorer,
}  # fmt: skip
