"""Hit curves: small traces followed by hand, the block manager at every size, every eviction there is, and what the command says."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations

import pytest
from jsonschema import Draft202012Validator

import kvplan
from kvplan.errors import SpecError
from kvplan.simulate import Arrivals, Lengths, Request, Shape, generate, simulate, slots
from kvplan.simulate.bounds import first_in, next_uses, optimum
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.run import alone
from kvplan.simulate.stack import Chain, chain, stack

MODEL = "meta-llama/llama-3.1-8b"
BLOCK = 4
#: Three prompts of 9 tokens: two blocks that are shared within a stream, and a ninth token in a third block, which is never full.
A, B = (Request(0.0, 9, 1, ((stream, 8),)) for stream in (1, 2))


def by_hand(requests: list[Request]) -> tuple[list[Chain], list[int]]:
    chains = [chain(request, BLOCK) for request in requests]
    found = stack(chains)
    return chains, [found.found(size) for size in range(found.largest, 8)]


def test_a_prefix_comes_back_after_another():
    """A, B, A. Each holds 3 blocks and leaves 2 with content and an empty one. When A returns, the stack is B1 B2 A1 A2 from the top,
    of which a pool of C blocks has the first C - 1: A1 with 4 blocks, A2 as well with 5."""
    chains, found = by_hand([A, B, A])
    assert chains[0] == Chain(((1, 2),), 2, 2, 3, 9)
    assert found == [0, 1, 2, 2, 2]  # 3, 4, 5, 6, 7 blocks


def test_the_best_possible_and_first_in_first_out():
    """A, B, A, B with 4 blocks: B holds 3 of them, so that one of A's stays, and then one of B's: 2 hits whatever is evicted. With
    5 blocks, four for what is shared and one for ninth tokens, nothing ever is."""
    chains, found = by_hand([A, B, A, B])
    uses = next_uses(chains)
    assert uses == [[(2, 2)], [(3, 2)], [], []]
    assert found == [0, 2, 4, 4, 4]
    assert [optimum(chains, uses, size) for size in (3, 4, 5)] == [0, 2, 4]
    assert [first_in(chains, size) for size in (3, 4, 5)] == [0, 2, 4]


def test_what_was_found_again_is_not_younger_for_first_in_first_out():
    """A, B, A, C, A with 6 blocks: A's two and B's two and one empty. C's 3 blocks take the free one, the empty one, and one with content.
    Least recently used gives up B2, first in, first out A2, which came first: 2 + 2 hits against 2 + 1."""
    chains, _ = by_hand([A, B, A, Request(0.0, 9, 1, ((3, 8),)), A])
    assert stack(chains).found(6) == 4
    assert first_in(chains, 6) == 3


def test_an_answer_takes_room_and_a_next_turn_finds_it():
    """8 prompt tokens and 9 of answer, the last never stored: 16 stored, 4 full blocks. The next turn has 20 tokens and can find all 4."""
    first, second = Request(0.0, 8, 9, ((7, 8),), True), Request(1.0, 20, 1, ((7, 20),), True)
    assert chain(first, BLOCK) == Chain(((7, 4),), 1, 4, 4, 8)
    chains, found = by_hand([first, second])
    assert stack(chains).largest == 5
    assert found == [4, 4, 4]


def test_a_last_block_is_computed_again():
    """A prompt of two whole blocks, twice: the last token is always computed, so only the first block is found."""
    chains, found = by_hand([Request(0.0, 8, 1, ((1, 8),))] * 2)
    assert stack(chains).again == 1
    assert found == [1] * 6


def test_shared_content_must_name_its_beginning():
    with pytest.raises(SpecError, match="different beginnings"):
        stack(chain(Request(0.0, 9, 1, ((a, 4), (b, 8))), BLOCK) for a, b in ((1, 3), (2, 3)))


DRAWN = {
    "system prompts": Shape(Lengths("lognormal", 20), Lengths("lognormal", 30), 400, prefixes=5, prefix_tokens=70),
    "few-shot trees": Shape(Lengths("lognormal", 20), Lengths("lognormal", 30), 400, branch=3, depth=3, prefix_tokens=37),
    "conversations": Shape(Lengths("lognormal", 20), Lengths("lognormal", 30), 400, prefixes=3, prefix_tokens=50, turns=5),
}


@pytest.mark.parametrize("name", DRAWN)
def test_equals_the_block_manager_at_twenty_sizes(name):
    """The manager is the one that agrees with vLLM's own (tests/oracle), driven by the scheduler with one sequence at a time."""
    requests = list(generate(DRAWN[name], Arrivals(3.0), 60, 1))
    found = stack(chain(request, 16) for request in requests)
    sizes = [found.largest + (found.working_set + 2 - found.largest) * n // 19 for n in range(20)]
    real = [simulate(slots(size * 16, 16, 400), requests, max_num_seqs=1, share_prefixes=True) for size in sizes]
    assert not any(one.rejected for one in real)
    assert [found.found(size) * 16 for size in sizes] == [one.hit_tokens for one in real]
    assert real[0].hit_tokens < real[-1].hit_tokens
    assert {one.asked_tokens for one in real} == {found.asked_tokens}


@pytest.mark.parametrize("sort", ["blocks", "radix"])
def test_running_alone_is_the_scheduler_with_one_sequence(sort):
    requests = list(generate(DRAWN["conversations"], Arrivals(3.0), 60, 2))
    groups = (PageGroup("full", 4), PageGroup("window", 4, 24)) if sort == "blocks" else (PageGroup("full", 4),)
    for pages in (240, 400, 800):
        geometry = Geometry(groups, pages, 400, sort=sort)
        real = simulate(geometry, requests, max_num_seqs=1, share_prefixes=True)
        assert real.hit_tokens
        assert alone(geometry, requests, pages) == real.hit_rate


def best(chains: list[Chain], size: int) -> int:
    """Hits with the best choice of what to keep after each request, by trying all."""
    names = [[(stream, n) for stream, start, end in _runs(one) for n in range(start, end)] for one in chains]

    @cache
    def after(i: int, content: frozenset[tuple[int, int]]) -> int:
        if i == len(chains):
            return 0
        own, one = names[i], chains[i]
        hit = next((n for n, name in enumerate(own[: one.asked]) if name not in content), min(len(own), one.asked))
        others = content - set(own)
        keep = min(size - one.held, len(others))
        return hit + max(after(i + 1, frozenset(kept) | frozenset(own)) for kept in combinations(sorted(others), keep))

    return after(0, frozenset())


def _runs(one: Chain) -> Iterator[tuple[int, int, int]]:
    at = 0
    for stream, stop in one.runs:
        yield stream, at, stop
        at = stop


def test_no_choice_of_evictions_finds_more_than_the_optimum():
    rng = random.Random(1)
    for _ in range(20):
        drawn = [(rng.randrange(2), rng.randrange(2), rng.randrange(1, 9)) for _ in range(5)]
        requests = [
            Request(0.0, length, 1, tuple((stream, min(end, length)) for stream, end in ((a, 3), (10 + 2 * a + b, 7))))
            for a, b, length in drawn
        ]
        chains = [chain(request, 2) for request in requests]
        uses, found = next_uses(chains), stack(chains)
        for size in range(found.largest, found.working_set + 1):
            most = optimum(chains, uses, size)
            assert most == best(chains, size)
            assert found.found(size) <= most
            assert first_in(chains, size) <= most


ASKED = {"max_model_len": "4k", "requests": 40, "rate": 4.0, "prefixes": 3, "prefix_tokens": 160}
ARGS = ["--max-model-len", "4k", "--requests", "40", "--rate", "4", "--prefixes", "3", "--prefix-tokens", "160", "--hit-curve"]


@pytest.fixture
def ask(command):
    return partial(command, "simulate", MODEL, *ARGS)


def test_json_is_the_librarys_answer_and_obeys_the_schema(ask):
    code, out, err = ask("--engine", "vllm", "--kv-memory", "2GiB", "--format", "json")
    found = kvplan.hit_curve(MODEL, engine="vllm", kv_memory="2GiB", **ASKED)
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(found.as_dict()))
    Draft202012Validator(kvplan.schema("hit-curve")).validate(json.loads(out))
    # 2 GiB of 2 MiB blocks, of which one is the null block
    assert (found.pool.pages, found.pool.tokens, found.pool.bytes) == (1023, 1023 * 16, 1023 << 21)
    assert found.at(1023) == found.pool.found
    # 160 tokens are ten whole blocks, which all but the first request of each prompt finds
    assert round(found.most * found.asked_tokens) == (40 - 3) * 160
    assert found.batched <= found.most
    assert all(point.found <= point.optimum for point in found.points)


def test_the_table_and_rows_say_where_the_own_pool_is(ask):
    _, out, _ = ask("--engine", "vllm", "--kv-memory", "2GiB")
    assert "your pool of 1,023 pages: " in out
    assert sum(line.endswith("your pool") for line in out.splitlines()) == 1
    _, out, _ = ask("--engine", "vllm", "--no-bounds", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["own_pool"] for row in rows} == {"False"}
    assert {row["fifo"] for row in rows} == {""}
    assert [float(row["found"]) for row in rows] == sorted(float(row["found"]) for row in rows)


def test_a_radix_tree_is_run_at_each_size(ask):
    code, out, _ = ask("--engine", "sglang", "--kv-memory", "2GiB", "--requests", "20", "--format", "json")
    found = json.loads(out)
    assert (code, found["method"], found["page_tokens"]) == (0, "runs", 1)
    assert "no stack algorithm" in " ".join(found["notes"])
    assert found["most"] * found["asked_tokens"] == pytest.approx(17 * 160)  # token by token: again all but the first of each
    assert found["points"][0]["optimum"] is None


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (["--engine", "llama.cpp"], "shares no prefixes"), (["--beams", "2"], "beams"), (["--size-for", "p99"], "size_for"),
        (["--policy", "contiguous-max"], "policy"), (["--plot", "p.svg"], "plot"), (["--swap-seconds", "1"], "swap_seconds"),
        (["--engine", "vllm", "--engine-option", "enable_prefix_caching=false"], "shares no prefixes"),
    ],
)  # fmt: skip
def test_what_is_no_hit_curve_is_one_error(extra, said, refused):
    assert said in refused("simulate", MODEL, *ARGS, *extra)


def test_bounds_belong_to_the_curve(refused):
    assert "--hit-curve" in refused("simulate", MODEL, "--kv-memory", "2GiB", "--no-bounds")


def test_html_is_one_page_with_the_curve_drawn(ask):
    """A line each for what is found and its two bounds, from the left end of the axis, and never falling."""
    _, out, _ = ask("--engine", "vllm", "--kv-memory", "2GiB", "--format", "html")
    assert out.startswith("<!doctype html>")
    assert (out.count("<svg"), out.count("<!doctype"), out.count("<polyline")) == (1, 1, 3)
    points = out.partition('class="curve" points="')[2].partition('"')[0].split()
    found = kvplan.hit_curve(MODEL, engine="vllm", kv_memory="2GiB", **ASKED)
    assert len(points) == len(found.points)
    assert points[0].startswith("70.0,")
    heights = [float(point.partition(",")[2]) for point in points]
    assert heights == sorted(heights, reverse=True)  # upwards is less
    assert "your pool: 42.9 %" in out
    _, out, _ = ask("--engine", "vllm", "--no-bounds", "--format", "html")
    assert out.count("<polyline") == 1
    assert "best possible" not in out
