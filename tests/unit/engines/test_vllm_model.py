"""What vLLM makes of a model where its config alone does not say it: numbers by hand, rules as config/model.py has them by release."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.planner.plan import Plan
from tests.conftest import planned

GIB = 1 << 30


def ask(model: str, release: str = "0.32", **more: Any) -> Plan:
    return planned(model, engine="vllm", engine_version=release, **{"kv_memory": 8 * GIB, **more})


@pytest.mark.parametrize(("release", "length"), [("0.11", 131_072), ("0.11.1", 4096), ("0.32", 4096)])
def test_a_longrope_model_is_served_at_the_length_before_it(release: str, length: int) -> None:
    """Since 0.11.1 _get_and_verify_max_len defaults to original_max_position_embeddings; Phi-4-mini's is 4,096 of 131,072."""
    plan = ask("microsoft/phi-4-mini", release, kv_memory=40 * GIB)
    assert plan.question["max_model_len"] == (length, "model")
    longer = ask("microsoft/phi-4-mini", release, kv_memory=40 * GIB, max_model_len=131_072)
    assert longer.starts is True


def test_more_than_the_model_is_refused() -> None:
    assert ask("microsoft/phi-4-mini", max_model_len=131_073).starts is False


@pytest.mark.parametrize(("release", "length"), [("0.29", 131_072), ("0.30", 32_768)])
def test_a_yarn_factor_is_multiplied_up_to_0_29(release: str, length: int) -> None:
    """Qwen2.5's model card adds a factor of 4 to 32,768 positions; from 0.30 on positions are taken as stated."""
    spec = kvplan.model("qwen/qwen2.5-7b").changed(max_context=131_072, stated_context=32_768)
    plan = kvplan.estimate(spec, engine="vllm", engine_version=release, kv_memory=8 * GIB)
    assert plan.question["max_model_len"][0] == length
    assert kvplan.estimate(spec, engine="vllm", engine_version=release, kv_memory=8 * GIB, max_model_len=131_072).starts is (
        length > 32_768
    )


def test_a_stated_window_slides_every_layer() -> None:
    """CacheConfig.sliding_window: 2048 tokens of a batch and the window before them, less one, in blocks of 16, and one block more."""
    spec = kvplan.model("qwen/qwen3-8b").changed(cache_window=1024)
    plan = planned(spec, engine="vllm", engine_version="0.20", kv_memory=8 * GIB, max_num_batched_tokens=2048, max_model_len=32_768)
    assert plan.capacity is not None
    (group,) = plan.capacity.groups
    assert (group.kind, group.layers) == ("sliding_window", 36)
    assert plan.capacity.request_bytes == (-(-(1024 - 1 + 2048) // 16) + 1) * 36 * 16 * 2 * 8 * 128 * 2
    assert planned(spec, engine="sglang", kv_memory=8 * GIB).capacity is not None  # whose classes have no window here


def test_an_encoder_is_weights_and_a_batch_of_whole_prompts() -> None:
    """bge-m3 on 24 GB: no pool, so what is left is the share of the device less what is loaded and computed."""
    plan = ask("BAAI/bge-m3", kv_memory=None, device="l4")
    ledger = plan.ledgers[0]
    assert (plan.starts, plan.fits, plan.certainty) == (True, True, "likely")  # few public starts of such
    assert plan.question["max_num_batched_tokens"] == (8192, "engine default")
    assert plan.question["dtype"][0] == "f16"
    assert ledger.limit_bytes is not None
    assert plan.margin_bytes == ledger.limit_bytes - ledger.total_bytes
    assert ledger.cache_bytes == 0
    assert any("pooling runner" in note for note in plan.model.notes)


def test_an_embedder_that_sees_both_ways_keeps_nothing() -> None:
    """gte-Qwen2-7B's config says is_causal false: Qwen2's layers are an encoder's then (models/qwen2.py)."""
    plan = ask("Alibaba-NLP/gte-Qwen2-7B-instruct", kv_memory=None, device="l4")
    assert plan.ledgers[0].cache_bytes == 0
    assert any("sees all others" in note for note in plan.model.notes)


def test_a_batch_holds_the_largest_image_where_its_tokens_see_one_another() -> None:
    """Gemma 4 31B: 32 frames of 78 tokens are more than the 2,048 of a server on 24 GB; a text server needs no more."""
    spec = kvplan.model("google/gemma-4-31b")
    for release, more, tokens in (("0.21", {}, 2048), ("0.22", {}, 2496), ("0.22", {"multimodal": "off"}, 2048)):
        plan = planned(spec, engine="vllm", engine_version=release, device="rtx-4090", kv_memory=4 * GIB, max_model_len=4096, **more)
        assert plan.question["max_num_batched_tokens"][0] == tokens, (release, more)
