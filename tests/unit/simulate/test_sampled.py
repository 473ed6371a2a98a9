"""Samples by hash: what is kept, what stays shared, and what a tree finds on them beside the whole."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.planner import hits as planned
from kvplan.simulate import Arrivals, Lengths, Request, Shape, generate, sampled
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.run import alone
from kvplan.simulate.sampled import Sample, rate_for, shrunk
from kvplan.simulate.stack import chain, stack

SHAPE = Shape(Lengths("lognormal", 160), Lengths("lognormal", 300), 4096, prefixes=8, prefix_tokens=300, turns=4)
TREE = Geometry((PageGroup("full", 1),), 0, 4096, sort="radix")


def test_all_is_kept_at_one_in_one():
    """Pages of a token: a request's prompt, answer and shared content stay what they are."""
    requests = list(generate(SHAPE, Arrivals(2.0), 30, 1))
    assert list(Sample(1, 1).requests(requests)) == [
        request._replace(content=tuple((s, n + request.output - 1 if s > 100 else n) for s, n in request.content)) for request in requests
    ]


def test_a_page_is_kept_in_every_request_that_holds_it():
    """Two prompts with 160 shared pages and rests of their own: what is kept of the shared ones is the same, about one in four."""
    sample = Sample(16, 4)
    pair = [Request(0.0, 3200, 1, ((7, 2560), (rest, 3200))) for rest in (8, 9)]
    one, two = sample.requests(pair)
    assert one.content[0] == two.content[0]
    assert one.content[0][1] == sample.keep(7, 0, 160).sum()
    assert 25 < one.content[0][1] < 55  # 160 / 4, a deviation of 5.5
    assert one.content[1][0] != two.content[1][0]
    assert (sample.asked, sample.kept) == (2 * 199, one.prompt + two.prompt - 2)


def test_one_page_in_n_is_kept():
    assert Sample(16, 8).keep(12345, 0, 80_000).mean() == pytest.approx(1 / 8, abs=0.004)  # deviation 0.0012


def test_a_tree_finds_on_a_sample_what_it_finds_on_the_whole():
    requests = list(generate(SHAPE, Arrivals(2.0), 150, 2))
    whole = stack(chain(request, 1) for request in requests)
    sample = Sample(1, 8)
    thin = list(sample.requests(requests))
    for part in (3, 1):
        pages = whole.working_set // part
        truth = alone(TREE, requests, pages)
        hits = alone(shrunk(TREE, 8), thin, pages // 8) * sum(request.prompt for request in thin)
        assert sample.share(hits) * sample.asked / whole.asked_tokens == pytest.approx(truth, abs=0.02)


def test_few_pages_and_small_windows_are_not_sampled():
    window = Geometry((PageGroup("full", 16), PageGroup("window", 16, 4096)), 100, 4096)
    assert rate_for(1_000_000, TREE) == 1
    assert rate_for(5_200_000, TREE) == 16  # 325,000 are left, and 162,500 would be too few
    assert rate_for(1 << 30, window) == 4  # 256 pages of window, of which 64 are left


def test_the_curve_says_that_it_is_sampled_and_how_far_off(monkeypatch):
    monkeypatch.setattr(sampled, "MANY", 20_000)
    monkeypatch.setattr(sampled, "ENOUGH", 10_000)
    asked = {"engine": "sglang", "max_model_len": "4k", "requests": 60, "rate": 2.0, "turns": 3, "prefixes": 3, "prefix_tokens": 200}
    found = kvplan.hit_curve("meta-llama/llama-3.1-8b", **asked)
    assert (found.method, found.one_in) == ("samples", planned.rate_for(found.stack.references, TREE))
    assert found.one_in > 1
    assert "by hash (SHARDS)" in found.notes[-1]
    assert len(found.points) > planned.RUNS
