"""Replicas behind a router: each policy's choices worked out by its source's rules, and replicas that are what they are alone."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import pytest

import kvplan
from kvplan.errors import UnknownName
from kvplan.simulate import Arrivals, Lengths, Request, Shape, StepTime, generate, simulate, slots
from kvplan.simulate.routers import ROUTERS, Texts
from kvplan.simulate.users import Habits, Users

SHAPE = Shape(Lengths("lognormal", 60), Lengths("lognormal", 40), 2048, prefixes=6, prefix_tokens=200, turns=4, think_seconds=5.0)
POOL = slots(16_000, 16, 2048)
STEP = StepTime(overhead=0.01)


def at(waiting: int = 0, running: int = 0, used: float = 0.0) -> SimpleNamespace:
    """A replica as a router sees it."""
    return SimpleNamespace(waiting=[None] * waiting, running=dict.fromkeys(range(running)), manager=SimpleNamespace(used=used, size=1.0))


def ask(stream: int, tokens: int = 160, shared: int | None = None) -> Request:
    """A prompt whose first tokens are the stream's."""
    return Request(0.0, tokens, 1, ((stream, shared or tokens),))


def test_round_robin_replicas_are_those_that_take_turns():
    requests = list(generate(SHAPE, Arrivals(3.0), 90, 1))
    both = simulate(POOL, requests, replicas=2, router="round-robin", step_time=STEP)
    alone = [simulate(POOL, islice(requests, n, None, 2), step_time=STEP) for n in (0, 1)]
    assert both.hit_tokens == sum(one.hit_tokens for one in alone)
    assert both.requests == sum(one.requests for one in alone) == 90
    assert both.steps == sum(one.steps for one in alone)
    assert (both.routed.busiest, both.routed.idlest) == (1.0, 1.0)


def test_sessions_lose_nothing_of_conversations():
    """Enough room for all: a conversation finds its past wherever it stays, and takes it along nowhere else. Alone and without system
    prompts, two replicas find what one does."""
    requests = list(generate(SHAPE._replace(prefixes=0, prefix_tokens=0), Arrivals(0.5), 60, 1))
    found = {name: simulate(POOL, requests, replicas=2, router=name, step_time=STEP).hit_tokens for name in ("round-robin", "session")}
    assert found["session"] == simulate(POOL, requests, step_time=STEP).hit_tokens
    assert found["round-robin"] < 0.8 * found["session"]


def test_least_loaded_counts_requests_and_queues_at_full_caches():
    """10 running, against 5 running and 2 waiting at a full cache: 10 against 5 + 2 + 2 x 6 x 0.5 = 13; at a half full cache 7."""
    route = ROUTERS["least-loaded"](2, 16, 100)
    assert route(ask(1), [at(0, 10), at(2, 5, used=1.0)]) == 0
    assert route(ask(1), [at(0, 10), at(2, 5, used=0.5)]) == 1


def test_least_loaded_takes_turns_among_equals():
    route = ROUTERS["least-loaded"](3, 16, 100)
    assert [route(ask(1), [at(), at(), at()]) for _ in range(4)] == [0, 1, 2, 0]


def test_cache_aware_follows_a_match_above_its_threshold():
    """SGLang: above 0.3 of the prompt to the best match, else to the least loaded; both when loads differ by at most 64, or 1.5 times."""
    route = ROUTERS["cache-aware"](2, 16, 100)
    assert route(ask(1), [at(0, 3), at(0, 2)]) == 1  # nothing is known: the least loaded
    assert route(ask(1), [at(0, 3), at(0, 60)]) == 1  # 58 more than the other are not too many
    assert route(ask(1, 160, 48), [at(0, 3), at(0, 60)]) == 0  # 48 of 160 tokens are 0.3, not more
    assert route(ask(1, 160, 49), [at(0, 3), at(0, 60)]) == 1
    assert route(ask(1), [at(0, 3), at(0, 68)]) == 0  # 65 more, and more than 1.5 times as many
    assert route(ask(1), [at(0, 140), at(0, 205)]) == 0  # not 1.5 times as many, and by now both know it: the first


def test_prefix_scorer_weighs_a_match_against_a_queue():
    """llm-d: the share of blocks found, and 0.5 less for each 128 that wait. 10 blocks, all known: 1 + 0.25 against 0.5. 2 of 10 known and
    a queue of 128: 0.2 against 0.5."""
    route = ROUTERS["prefix-scorer"](2, 16, 100)
    first = route(ask(1), [at(), at()])
    busy = [at(64 if i == first else 0) for i in range(2)]
    assert route(ask(1), busy) == first
    full = [at(128 if i == first else 0) for i in range(2)]
    assert route(ask(1, 160, 32), full) == 1 - first


def test_prefix_scorer_forgets_what_is_more_than_a_replicas_blocks():
    route = ROUTERS["prefix-scorer"](2, 16, 10)
    first = route(ask(1), [at(1), at()])
    assert first == 1
    route(ask(2), [at(1), at()])  # ten other blocks at the same replica
    assert route(ask(1), [at(), at(1)]) == 0


def test_texts_forget_the_least_recently_used_leaf():
    texts = Texts(100)
    texts.add(Request(0.0, 60, 1, ((1, 40), (2, 60))), -1)
    texts.add(Request(0.0, 60, 1, ((1, 40), (3, 60))), -2)
    assert texts.match(((1, 40), (2, 60))) == 60
    texts.add(Request(0.0, 60, 1, ((1, 40), (4, 60))), -3)  # 40 + 3 x 20 = 100 are held
    texts.add(Request(0.0, 41, 1, ((1, 40), (5, 41))), -4)  # one too many: the oldest leaf goes
    assert [texts.match(((1, 40), (leaf, 60))) for leaf in (2, 3, 4)] == [40, 60, 60]


@pytest.mark.parametrize("router", ROUTERS)
def test_pages_are_counted_at_every_step_and_every_request_ends(router):
    users = Users(Habits(12, SHAPE, requests=60))
    found = simulate(slots(4000, 16, 2048), users, replicas=3, router=router, step_time=STEP, check=True)
    assert found.requests + found.rejected == 60
    again = simulate(slots(4000, 16, 2048), Users(Habits(12, SHAPE, requests=60)), replicas=3, router=router, step_time=STEP)
    assert again == found


def test_no_such_router():
    with pytest.raises(UnknownName, match="least-loaded"):
        simulate(POOL, [ask(1)], replicas=2, router="least-loded")


def test_routers_side_by_side(capsys):
    from kvplan.cli import run

    asked = [
        "--engine",
        "vllm",
        "--kv-memory",
        "1GiB",
        "--max-model-len",
        "2k",
        "--dp",
        "2",
        "--rate",
        "3",
        "--turns",
        "3",
        "--requests",
        "60",
    ]
    code = run(["simulate", "meta-llama/llama-3.1-8b", *asked, "--router", "round-robin,session"])
    out = capsys.readouterr().out
    assert code == 0
    header = next(line for line in out.splitlines() if "session" in line)
    assert header.split() == ["round-robin", "session"]
    assert "2; 100.0 %, 100.0 % of the mean" in out
    found = kvplan.simulate("meta-llama/llama-3.1-8b", engine="vllm", kv_memory="1GiB", max_model_len="2k", dp=2, rate=3.0, requests=60)
    assert found.policies[0].routed is None
