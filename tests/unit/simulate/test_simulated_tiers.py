"""Tiers below the pool while requests run: hits of each followed by hand, and the command."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

import kvplan
from kvplan.cli import run
from kvplan.simulate import Arrivals, Request, StepTime, generate, named, simulate, slots
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.tiers import TierSize

STEP = StepTime(overhead=0.01)
MODEL = "meta-llama/llama-3.1-8b"
ASKED = ["simulate", MODEL, "--engine", "vllm", "--engine-version", "0.32", "--kv-memory", "1GiB", "--max-model-len", "4k", "--turns", "4",
         "--rate", "2", "--requests", "80"]  # fmt: skip


def texts(*streams: int) -> list[Request]:
    """Prompts of 33 tokens that share everything with others of the same number, a second apart; answers of one token."""
    return [Request(float(n), 33, 1, ((stream, 33),)) for n, stream in enumerate(streams)]


def found(requests: list[Request], pages: int, *sizes: TierSize) -> list[int]:
    """Tokens found in the pool, and back from each tier."""
    result = simulate(slots(16 * pages, 16, 64), requests, step_time=STEP, share_prefixes=True, tiers=sizes)
    back = [tier.hit_tokens for tier in result.tiers]
    return [result.hit_tokens - sum(back), *back]


def test_what_left_the_pool_comes_back() -> None:
    """A pool of three pages holds one prompt: two full pages of 16 tokens come back, all 32 tokens but the one that is computed."""
    assert found(texts(1, 2, 1), 3) == [0]
    assert found(texts(1, 2, 1), 3, TierSize("cpu", "x", 16, 4)) == [0, 32]
    assert found(texts(1, 2, 1), 3, TierSize("cpu", "x", 16, 3)) == [0, 16]  # the last page of 1 went first, as LRU by the end of a request
    assert found(texts(1, 2, 1), 6, TierSize("cpu", "x", 16, 4)) == [32, 0]  # the pool still has it


def test_each_tier_gives_what_those_above_it_have_not() -> None:
    """RAM for two pages, a disk for six: the last prompt is in RAM, those before it on the disk."""
    sizes = TierSize("cpu", "x", 16, 2), TierSize("disk", "x", 16, 6)
    assert found(texts(1, 2, 2), 3, *sizes) == [32, 0, 0]
    assert found(texts(1, 2, 3, 1), 3, *sizes) == [0, 0, 32]
    assert found(texts(1, 2, 3, 4, 1), 3, *sizes) == [0, 0, 0]


def test_pieces_are_whole() -> None:
    """Chunks of 32 tokens: one of a prompt of 33; one of 48 leaves the rest; two prompts' chunks in a tier of one."""
    assert found(texts(1, 2, 1), 3, TierSize("cpu", "x", 32, 2)) == [0, 32]
    assert found(texts(1, 2, 1), 3, TierSize("cpu", "x", 48, 2)) == [0, 0]
    assert found(texts(1, 2, 1), 3, TierSize("cpu", "x", 32, 1)) == [0, 0]


def test_a_request_larger_than_the_tier_writes_nothing() -> None:
    assert found(texts(1, 2, 1), 3, TierSize("cpu", "x", 16, 1)) == [0, 0]


@pytest.mark.parametrize("sort", ["blocks", "radix"])
def test_a_tier_of_any_size_finds_what_an_endless_pool_finds(sort: str) -> None:
    """One request after another, conversations of four turns: the tokens that a pool for all finds, wherever they are."""
    made = list(generate(named("sharegpt")._replace(turns=4, prefixes=4, prefix_tokens=100, max_tokens=3000), Arrivals(0.5), 120, 2))
    small, large = (Geometry((PageGroup("full", 16),), pages, 4096, sort=sort) for pages in (300, 100_000))  # type: ignore[arg-type]
    whole = simulate(large, made, step_time=STEP, max_num_seqs=1, share_prefixes=True)
    tier = simulate(small, made, step_time=STEP, max_num_seqs=1, share_prefixes=True, tiers=[TierSize("cpu", "x", 16, 100_000)], check=True)
    assert tier.hit_tokens == whole.hit_tokens
    assert 0 < tier.tiers[0].hit_tokens < whole.hit_tokens


def test_the_plans_tiers_are_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    """8 GiB are 4,096 blocks of 2 MiB: 65,536 tokens."""
    asked = {"engine": "vllm", "engine_version": "0.32", "kv_memory": "1GiB", "max_model_len": "4k", "turns": 4, "rate": 2, "requests": 80}
    on = kvplan.simulate(MODEL, **asked, engine_option={"kv_offloading_size": "8"}).policies[0]
    off = kvplan.simulate(MODEL, **asked).policies[0]
    (tier,) = on.tiers
    assert (tier.place, tier.tokens, off.tiers) == ("cpu", 65_536, ())
    assert on.hit_rate > off.hit_rate
    option = ["--engine-option", "kv_offloading_size=8"]
    assert run([*ASKED, *option, "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    Draft202012Validator(kvplan.schema("simulation")).validate(shown)
    assert shown["policies"][0]["tiers"][0] == {**tier._asdict()}
    assert run([*ASKED, *option]) == 0
    assert f"RAM {tier.hit_tokens:,}" in capsys.readouterr().out
    assert run([*ASKED, *option, "--format", "csv"]) == 0
    assert f",{tier.hit_tokens}," in capsys.readouterr().out


def test_tiers_below_windows_are_left_out_and_said() -> None:
    found = kvplan.simulate("openai/gpt-oss-20b", engine="vllm", engine_version="0.32", kv_memory="4GiB", max_model_len="4k", turns=2,
                            rate=2, requests=20, engine_option={"kv_offloading_size": "8"})  # fmt: skip
    assert found.policies[0].tiers == ()
    assert any("left out" in note for note in found.notes)
