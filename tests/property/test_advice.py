"""Advice is evaluated: each change alone makes the plan fit, and a number changed one step less does not. Across engines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvplan
from kvplan import api
from kvplan.errors import KvplanError
from kvplan.planner.changes import edge
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from tests.conftest import examples, one_block

MIXERS = st.sampled_from([
    {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64},
    {"kind": "mla", "heads": 8, "kv_lora_rank": 512, "qk_nope_head_dim": 32, "qk_rope_head_dim": 64, "v_head_dim": 32},
    {"kind": "mamba2", "heads": 8, "head_dim": 16, "groups": 1, "d_state": 32, "d_conv": 4},
    {"kind": "sliding", "heads": 8, "kv_heads": 4, "head_dim": 64, "window": 512},
])  # fmt: skip
ENGINES = st.sampled_from(["ideal", "vllm", "sglang", "llama.cpp", "tensorrt-llm", "transformers"])
#: Names whose advised value is next to one that does not fit: one step towards what was asked.
STEPS: dict[str, Any] = {"context": 1, "batch": 1, "max_model_len": 1, "max_num_seqs": 1, "max_num_batched_tokens": 1, "kv_memory": 1,
                         "n_gpu_layers": 1, "memory_fraction": 0.01}  # fmt: skip
#: The same for sizes that are tried in an order: the one tried before.
ORDERS = {"tp": [1, 2, 4, 8, 16], "pp": list(range(1, 17))}


def answer(spec: Any, question: dict[str, Any]) -> Plan | None:
    try:
        return evaluate(api.deployment(spec, **question))
    except KvplanError:
        return None


def check(spec: Any, question: dict[str, Any]) -> Plan | None:
    """The plan whose changes were each applied on its own; None where it is refused."""
    try:
        plan = kvplan.estimate(spec, **question)
    except KvplanError:
        return None
    assert plan.fits or not plan.waste
    for one in plan.advice:
        value = {k: v for k, _, v in [one.value.partition("=")]} if one.option == "engine_option" else one.value
        changed = question | {one.option: value} | dict(one.also)
        after = answer(spec, changed)
        assert after is not None, one
        assert after.fits, one
        assert (after.margin_bytes or 0) == one.margin_bytes, one
        before = None if "room to spare" in one.change else _one_step_less(plan, one)
        if before is not None:
            less = answer(spec, question | {one.option: before} | dict.fromkeys(one.also, before))
            assert less is None or not less.fits, (one, before)
    return plan


def test_a_number_at_the_edge_is_followed_by_a_rounder_one_that_leaves_room():
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", engine="ideal", device="24GiB", context="64k", batch=2)
    edge_, safe = [one for one in plan.advice if one.option == "context"]
    # weights 8,030,261,248 x 2 B; 131,072 B a token and sequence
    free = (24 << 30) - 16_060_522_496
    assert edge_.value == free // (2 * 131_072)
    assert safe.value == (free - (24 << 30) * 2 // 100) // (2 * 131_072 * 1024) * 1024
    assert safe.margin_bytes == free - safe.value * 2 * 131_072


def test_two_changes_where_no_single_one_is_enough():
    """70.55 billion parameters: 141 GB, 71 GB or 36 GB of weights; 40 GB of cache at 128k, on a device of 60 GiB whose count is fixed."""
    question = {"engine": "vllm", "device": "60GiB", "n_devices": 1, "context": "128k", "calibration": "none"}
    plan = kvplan.estimate("meta-llama/llama-3.1-70b", **question)
    assert plan.fits is False
    found = [one for one in plan.advice if one.option != "device"]
    for one in found:
        assert len(one.also) == 1
        halves = {one.option: one.value}, dict(one.also)
        for half in halves:
            alone = answer("meta-llama/llama-3.1-70b", question | half)
            assert alone is None or not alone.fits, half
        both = answer("meta-llama/llama-3.1-70b", question | halves[0] | halves[1])
        assert both.fits
        assert both.margin_bytes == one.margin_bytes
    # 36 GB of 4-bit weights and 20 GB of cache in 8 bits are over 0.92 x 60 GiB with what vLLM holds beside them; in 80 GiB they are not
    roomier = kvplan.estimate("meta-llama/llama-3.1-70b", **question | {"device": "80GiB"}).advice[0]
    assert (roomier.option, roomier.value, roomier.also) == ("weight_dtype", "int4_g128", {"kv_dtype": "fp8"})
    (shorter,) = [one for one in found if "context" in one.also]
    room = (60 << 30) // 50  # 2 %
    longer = answer("meta-llama/llama-3.1-70b", question | {shorter.option: shorter.value, "context": shorter.also["context"] + 1024})
    assert shorter.also["context"] % 1024 == 0
    assert shorter.margin_bytes >= room
    assert not longer.fits or longer.margin_bytes < room


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.23"), ("vllm", "0.8.5")])
def test_a_fraction_that_leaves_no_room_for_graphs_is_advised_lower(engine, version):
    """Graphs are captured beside the fraction (vLLM before 0.20, SGLang): at 0.995 of a 24 GB card none has room for them."""
    question = {"engine": engine, "engine_version": version, "device": "rtx-4090", "context": "8k", "memory_fraction": 0.995}
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", **question)
    assert plan.starts is False
    nearest, safe = [one for one in plan.advice if one.option == "memory_fraction"]
    for one in (nearest, safe):
        after = kvplan.estimate("meta-llama/llama-3.1-8b", **question | {"memory_fraction": one.value})
        assert after.fits
        assert after.margin_bytes == one.margin_bytes
    assert safe.value < nearest.value
    assert safe.certainty != "too close to call"
    assert after.outcome.survives
    tighter = kvplan.estimate("meta-llama/llama-3.1-8b", **question | {"memory_fraction": round(nearest.value + 0.01, 2)})
    assert not tighter.fits


def _one_step_less(plan: Plan, one: Any) -> Any:
    if "to its own" in one.change:  # the engine's default, beside the least that is enough
        return None
    asked = plan.question[one.option][0] if one.option in plan.question else None
    if one.option in ORDERS:
        sizes = ORDERS[one.option]
        before = sizes[sizes.index(one.value) - 1] if one.value in sizes[1:] else None
        return before if before is not None and before >= asked else None
    if one.option not in STEPS:
        return None
    step = STEPS[one.option]
    return round(one.value + (step if asked > one.value else -step), 2)


@examples(50)
@given(ENGINES, MIXERS, st.integers(1, 8), st.integers(1, 60_000), st.integers(1, 40), st.integers(1 << 24, 1 << 31))
def test_each_change_alone_makes_it_fit_and_one_step_less_does_not(engine, mixer, n_layers, context, batch, memory):
    question = {"engine": engine, "context": context, "batch": batch, "device": f"{memory}B"}
    check(one_block(mixer, n_layers), question)


@examples(25)
@given(ENGINES, MIXERS, st.integers(1, 8), st.integers(1, 60_000), st.integers(1, 40), st.integers(1, 1 << 28))
def test_given_cache_memory_and_a_chosen_length(engine, mixer, n_layers, context, batch, memory):
    check(one_block(mixer, n_layers), {"engine": engine, "context": context, "batch": batch, "kv_memory": memory})
    check(one_block(mixer, n_layers), {"engine": engine, "max_model_len": context, "batch": batch, "kv_memory": memory})
    check(one_block(mixer, n_layers), {"engine": engine, "max_model_len": context, "context": context, "batch": batch, "kv_memory": memory})


CASES = [
    ({"engine": "vllm", "device": "l4", "context": "32k", "batch": 8}, {"context", "tp", "pp", "device"}),
    ({"engine": "vllm", "device": "h100", "context": "32k", "batch": 15}, {"kv_dtype", "weight_dtype", "context", "batch"}),
    ({"engine": "vllm", "device": "h100", "context": "8k", "batch": 8, "memory_fraction": 0.2}, {"memory_fraction"}),
    ({"engine": "vllm", "device": "h100", "context": "8k", "batch": 2, "reserve": "10GiB"}, {"memory_fraction"}),
    ({"engine": "vllm", "device": "h100", "context": "1k", "batch": 20, "max_num_seqs": 8}, {"max_num_seqs", "batch"}),
    ({"engine": "vllm", "device": "h100", "context": "8k", "max_model_len": "4k"}, {"max_model_len", "context"}),
    ({"engine": "vllm", "device": "h100", "context": "8k", "kv_dtype": "q8_0"}, {"kv_dtype"}),
    ({"engine": "vllm", "device": "h100", "context": "8k", "tp": 3}, {"tp"}),
    ({"engine": "vllm", "kv_memory": "1GiB", "context": "12k"}, {"kv_memory", "kv_dtype", "context"}),
    # a split: no layer count puts it on the GPU
    ({"engine": "llama.cpp", "device": "rtx-4090", "context": "60k", "batch": 2}, {"kv_dtype", "context", "batch"}),
    ({"engine": "sglang", "device": "h100", "context": "32k", "batch": 20}, {"kv_dtype", "context", "batch"}),
    ({"engine": "tensorrt-llm", "device": "h100", "context": "32k", "batch": 20}, {"kv_dtype", "context", "batch"}),
    ({"engine": "transformers", "device": "rtx-4090", "context": "32k", "batch": 4}, {"context", "batch", "device"}),
    ({"engine": "exllamav3", "device": "rtx-4090", "context": "32k", "batch": 4}, {"engine_option", "context", "batch"}),
]  # fmt: skip


def test_every_kind_of_change_is_found_for_the_engines_that_have_it():
    for question, expected in CASES:
        plan = check("meta-llama/llama-3.1-8b", question)
        assert plan.fits is False, question
        assert expected <= {one.option for one in plan.advice}, (question, plan.advice)


def test_windows_and_pages():
    question = {"engine": "vllm", "kv_memory": "295MiB", "context": 4100, "batch": 10, "block_size": 256}
    plan = kvplan.estimate(one_block({"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64}, 7), **question)
    assert plan.fits is False
    (pages,) = [one for one in plan.advice if one.option == "block_size"]
    # 7 layers x 4 heads x 64 x 2 (K, V) x 2 B a token
    assert (295 << 20) // (7 * 4 * 64 * 4 * 256) < 10 * 17 + 1  # 17 pages of 256 each, and the null block
    assert pages.value == 128
    assert pages.margin_bytes == ((295 << 20) // (7 * 4 * 64 * 4 * 128) - 1 - 10 * 33) * 7 * 4 * 64 * 4 * 128


def test_an_edge_is_an_edge_whatever_the_guess():
    plan = kvplan.estimate(one_block(None), context=1)
    for bad, good in ((100, 1), (1, 100)):
        for limit in range(min(bad, good), max(bad, good) + 1):
            for guess in (None, 1, 37, limit, limit + 1, 100, 500):

                def tried(n, limit=limit, bad=bad, good=good):
                    return plan if (n <= limit if bad > good else n >= limit) and n != bad else None

                found = edge(bad, good, tried, guess)
                if tried(good) is None:
                    assert found is None
                else:
                    assert tried(found[0]) is not None
                    assert tried(found[0] + (1 if bad > good else -1)) is None


WASTE = [
    ({"engine": "vllm", "device": "h100", "context": "8k", "batch": 2, "tp": 4}, {"tp", "memory_fraction", "batch", "max_num_seqs"}),
    ({"engine": "llama.cpp", "device": "h100", "context": "8k", "batch": 2, "max_model_len": "64k"}, {"max_model_len", "batch"}),
    ({"engine": "vllm", "device": "h100", "context": 100, "batch": 60, "block_size": 128}, {"block_size"}),
    ({"engine": "ideal", "device": "h100", "context": "8k", "batch": 2}, {"batch"}),
]  # fmt: skip


def test_what_is_wasted_can_be_saved():
    for question, expected in WASTE:
        plan = kvplan.estimate("meta-llama/llama-3.1-8b", **question)
        assert plan.fits is True
        assert expected <= {one.option for one in plan.waste}, (question, plan.waste)
        for one in plan.waste:
            assert one.bytes > 0
            if one.option is None:
                assert one.change is None
                continue
            after = answer("meta-llama/llama-3.1-8b", question | {one.option: one.value})
            assert after.fits, one
            assert after.margin_bytes == one.margin_bytes


def test_waste_by_hand():
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", engine="vllm", kv_memory="4GiB", context=1000, batch=3)
    by_what = {one.what: one for one in plan.waste}
    page = 16 * 131_072  # tokens x bytes of a token
    blocks = (4 << 30) // page
    free = (blocks - 1 - 3 * 63) * page  # 63 pages hold 1,000 tokens; one block is the null block
    assert by_what["cache memory beyond batch x context"].bytes == free
    assert by_what["cache memory beyond batch x context"].value == (blocks - 1) // 63
    assert by_what["pages, padding and shares of pools beside the exact tensors"].bytes == blocks * page - free - 3 * 1000 * 131_072


def test_a_length_beyond_the_models_own_is_no_smallest_change() -> None:
    """200k of a model of 131,072: the engine would let itself be told, and the model was not trained for it."""
    plan = api.estimate("meta-llama/llama-3.1-8b", engine="vllm", device="h100-80gb", context="200k")
    assert plan.advice[0].option == "context"
    assert any(one.value == "allow_long_max_model_len=true" for one in plan.advice)


def test_more_cards_of_an_engine_that_places_layers_are_more_of_them() -> None:
    plan = api.estimate("qwen/qwen3-8b", engine="ollama", device="rtx-3070", weight_dtype="q4_k_m", context=16384)
    assert plan.outcome.split
    more = next(one for one in plan.advice if str(one.value).startswith("2x"))
    assert more.option == "device"
    assert api.estimate("qwen/qwen3-8b", engine="ollama", device=more.value, weight_dtype="q4_k_m", context=16384).fits


def test_the_longest_context_of_a_split_is_the_last_that_keeps_it() -> None:
    """A token is 2 x 36 layers x 8 KV heads x 128 x 2 B = 144 KiB, of which 29 of 37 parts are on the card: of 1 GiB that llama.cpp leaves
    free there a context takes nothing, and a longer one moves a layer to RAM."""
    question: dict[str, Any] = {"engine": "llama.cpp", "device": "rtx-4060", "weight_dtype": "q4_k_m", "advise": False}
    plan = api.estimate("qwen/qwen3-8b", context="24k", **question)
    assert plan.outcome.split
    assert plan.capacity is not None
    longest = plan.capacity.max_context_at_batch
    assert longest is not None
    on = [api.estimate("qwen/qwen3-8b", context=n, **question).capacity for n in (longest, longest + 1)]
    assert [one.offloaded for one in on if one] == [plan.capacity.offloaded, (28, 37)]
