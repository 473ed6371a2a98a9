"""Pools read from engines' plans, and the laws on them: identical requests reach what is promised, nothing needs more than promised."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.errors import UnsupportedError
from kvplan.simulate import Geometry, PageGroup, Request, StepTime, from_plan, simulate
from tests.conftest import planned

STEP = StepTime(overhead=0.01)
LLAMA, GEMMA, GPT_OSS, DEEPSEEK = "meta-llama/llama-3.1-8b", "google/gemma-3-27b", "openai/gpt-oss-20b", "deepseek-ai/deepseek-v3"
POOLS = [
    *[
        (engine, model)
        for engine in ("vllm", "sglang", "llama.cpp", "ollama", "tensorrt-llm")
        for model in (LLAMA, GEMMA, GPT_OSS, DEEPSEEK)
    ],
    *[(engine, model) for engine in ("ideal", "exllamav3") for model in (LLAMA, DEEPSEEK)],
]


def plan(model: str, engine: str, **more):
    memory = {} if engine in ("llama.cpp", "ollama") else {"kv_memory": "24GiB" if engine == "tensorrt-llm" else "6GiB"}
    return planned(model, engine=engine, max_model_len="4k", **memory, **more)


def windowed(pool: Geometry) -> bool:
    return any(group.kind in ("window", "chunk") for one in (pool, *pool.beside) for group in one.groups)


def promise(found, engine: str) -> int:
    """Whole requests; vLLM counts its null block as a page that one could have."""
    promised = found.capacity.max_concurrency
    return int(promised) - (engine == "vllm" and promised == int(promised))


@pytest.mark.parametrize(("engine", "model"), POOLS)
def test_identical_longest_requests_run_as_promised(engine, model):
    """Requests that are the longest when they start, more than can run. A prompt that is computed at once holds its windows whole until
    its next step, so that models with windows reach less than the promise, which counts them at their largest; never more."""
    found = plan(model, engine)
    pool = from_plan(found)
    n = 4 * promise(found, engine) + 4
    made = [Request(0.0, pool.max_model_len - 1, 1)] * n
    limits = {"max_num_seqs": n, "max_num_batched_tokens": pool.max_model_len * n}
    result = simulate(found, made, step_time=STEP, share_prefixes=False, **limits)
    if windowed(pool):
        assert 1 <= result.running.most <= promise(found, engine) + 1
    else:
        assert result.running.most == promise(found, engine)
    assert result.preemptions == 0


@pytest.mark.parametrize(("engine", "model"), POOLS)
def test_as_many_as_promised_grow_to_their_longest_undisturbed(engine, model):
    """The planner's worst case is one: as many requests as it promises, from one token to the longest, and none loses its pages."""
    found = plan(model, engine)
    made = [Request(0.0, 1, from_plan(found).max_model_len - 1)] * max(promise(found, engine), 1)
    result = simulate(found, made, step_time=STEP, share_prefixes=False)
    assert (result.requests, result.preemptions, result.rejected) == (len(made), 0, 0)
    assert result.running.most == len(made)


def test_several_windows_of_one_model_keep_their_own_width():
    from kvplan.files import parse_yaml
    from kvplan.spec import parse_spec

    text = """
id: test/two-windows
name: two windows
source: written for a test
max_context: 32768
vocab_size: 1000
hidden_size: 256
n_layers: 12
layers:
  - {pattern: [2*near, 2*far, 2*all], repeat: 2}
blocks:
  near: {mixers: [{kind: sliding, heads: 4, kv_heads: 4, head_dim: 64, window: 128}]}
  far: {mixers: [{kind: sliding, heads: 4, kv_heads: 4, head_dim: 64, window: 1024}]}
  all: {mixers: [{kind: gqa, heads: 4, kv_heads: 4, head_dim: 64}]}
"""
    spec = parse_spec(parse_yaml(text, "test"), "test")
    pool = from_plan(kvplan.estimate(spec, engine="vllm", kv_memory="1GiB", max_model_len="8k"))
    assert {(group.kind, group.span) for group in pool.groups} == {("window", 128), ("window", 1024), ("full", 0)}
    result = simulate(pool, [Request(0.0, 4000, 50)] * 30, step_time=STEP, check=True)
    assert result.requests == 30


def test_sglang_keeps_windows_in_a_pool_of_their_own():
    """gpt-oss: as many bytes a token in full as in window layers, window pool 0.8 of the full one (its default ratio).

    A window of 128 tokens is one of 127 before the token itself (sglang 0.5.23 models/gpt_oss.py get_attention_sliding_window_size).
    """
    pool = from_plan(plan("openai/gpt-oss-20b", "sglang"))
    (window,) = pool.beside
    assert (pool.sort, pool.groups[0].kind) == ("radix", "full")
    assert (window.groups[0].kind, window.groups[0].span) == ("window", 127)
    assert window.pages == pytest.approx(0.8 * pool.pages, rel=0.01)
    result = simulate(pool, [Request(0.0, 3000, 500)] * 40, step_time=STEP, check=True)
    assert result.requests == 40
    assert 0 < result.beside[0].most <= window.pages


def test_a_tiny_pool_beside_holds_requests_back():
    window = Geometry((PageGroup("window", 1, 8),), 30, 64)
    pool = Geometry((PageGroup("full", 1),), 10_000, 64, beside=(window,))
    result = simulate(pool, [Request(0.0, 20, 20)] * 12, step_time=STEP, max_num_seqs=12, max_num_batched_tokens=16, check=True)
    assert result.requests == 12
    assert result.kept_waiting > 0
    assert result.beside[0].most <= 30


def test_state_slots_are_seats():
    found = plan("qwen/qwen3-next-80b-a3b", "sglang")
    slots = next(group for group in found.capacity.groups if group.role == "state")
    result = simulate(found, [Request(0.0, 50, 20)] * 200, step_time=STEP)
    assert from_plan(found).seats == slots.streams
    assert result.running.most == min(slots.streams, 200)


def test_states_of_vllm_take_pages_and_share_no_prefixes():
    found = kvplan.simulate("qwen/qwen3-next-80b-a3b", engine="vllm", kv_memory="4GiB", max_model_len="8k", requests=20, rate=2.0, turns=3)
    assert found.policies[0].hit_tokens == 0
    assert any("states" in note for note in found.notes)
    with pytest.raises(UnsupportedError):
        kvplan.simulate("qwen/qwen3-next-80b-a3b", engine="vllm", kv_memory="4GiB", max_model_len="8k", requests=20, share_prefixes=True)


def test_llama_cpp_slots_and_windows():
    """Four slots, a stream each of a quarter of the context; window cells are there for every slot and refuse nobody."""
    found = plan("openai/gpt-oss-20b", "llama.cpp", max_num_seqs=4)
    result = simulate(found, [Request(0.0, 400, 100)] * 9, step_time=STEP, check=True)
    assert from_plan(found).streams == 4
    assert (result.running.most, result.requests) == (4, 9)


@pytest.mark.parametrize(
    ("model", "engine", "more"),
    [
        (LLAMA, "mlx-lm", {}), (LLAMA, "transformers", {}), (GEMMA, "ideal", {}),
    ],
)  # fmt: skip
def test_what_has_no_pool_is_refused_with_a_reason(model, engine, more):
    with pytest.raises(UnsupportedError, match="simulate: "):
        from_plan(plan(model, engine, **more))
