"""Laws of TensorRT-LLM's answers under both cache managers, and its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.engines.tensorrt_llm.plan import ENGINE
from kvplan.planner.evaluate import evaluate
from kvplan.spec import ModelSpec
from kvplan.units import GIB
from tests.conftest import one_block, planned

GQA: dict[str, Any] = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
SLIDING: dict[str, Any] = {**GQA, "kind": "sliding", "window": 1024}
DELTA: dict[str, Any] = {
    "kind": "gated_delta_net", "d_conv": 4, "key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128,
}  # fmt: skip


def model(*pattern: str, repeat: int = 1, **fields: Any) -> ModelSpec:
    mixers = {"full": GQA, "swa": SLIDING, "delta": DELTA}
    blocks = {name: {"mixers": [mixers[name]]} for name in dict.fromkeys(pattern)}
    return one_block(None, len(pattern) * repeat, layers=[{"pattern": list(pattern), "repeat": repeat}], blocks=blocks, **fields)


MODELS = {
    "full": model("full", repeat=32),
    "windowed": model("swa", "swa", "swa", "full", repeat=8),
    "hybrid": model("delta", "delta", "delta", "full", repeat=8),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("v2", ["true", "false"])
@pytest.mark.parametrize("windows", [None, "1024,1024,1024,1048576"])
def test_the_longest_context_fits_and_one_more_does_not(name: str, v2: str, windows: str | None) -> None:
    options = [("use_kv_cache_manager_v2", v2)]
    if windows and name == "windowed":
        options.append(("max_attention_window", windows))
    asked = Deployment(
        model=MODELS[name], engine="tensorrt-llm", kv_memory=12 * GIB, context=1000, batch=3, max_num_seqs=64, max_num_batched_tokens=2048,
        max_model_len=1 << 20,
        engine_option=tuple(options),
    )  # fmt: skip
    found = evaluate(asked).capacity
    assert found is not None
    assert found.max_context_at_batch is not None
    assert found.max_batch is not None
    assert evaluate(replace(asked, context=found.max_context_at_batch)).fits is True
    assert evaluate(replace(asked, context=found.max_context_at_batch + 1)).fits is False
    assert evaluate(replace(asked, batch=found.max_batch)).fits is True
    assert evaluate(replace(asked, batch=found.max_batch + 1)).fits is False


def test_a_request_longer_than_it_is_set_to_admit() -> None:
    for engine in ("tensorrt-llm", "sglang"):
        plan = evaluate(Deployment(model=MODELS["full"], engine=engine, kv_memory=12 * GIB, context=5000, max_model_len=4096))
        assert plan.fits is False
        assert "not 5,000" in (plan.outcome.reason or "")


@pytest.mark.parametrize(
    ("architecture", "version", "v2"),
    [
        ("LlamaForCausalLM", "1.3.0", True), ("LlamaForCausalLM", "1.2.0", False), ("Qwen3ForCausalLM", "1.3.0", False),
        ("Qwen3NextForCausalLM", "1.3.0", True), ("GptOssForCausalLM", "1.0.0", False),
    ],
)  # fmt: skip
def test_which_manager(architecture: str, version: str, v2: bool) -> None:
    """max_tokens tells them apart: V2 raises it by 1 / 0.95."""
    asked = Deployment(
        model=model("full", architecture=architecture), engine="tensorrt-llm", kv_memory=GIB, context=100, engine_version=version,
        engine_option=(("max_tokens", "3200"),),
    )  # fmt: skip
    found = evaluate(asked).capacity
    assert found is not None
    assert found.blocks == (int(3200 / 0.95) // 32 if v2 else 100)


def test_defaults() -> None:
    question = ENGINE.settle(Deployment(model=MODELS["full"])).question
    assert (question.max_num_seqs, question.max_num_batched_tokens, question.block_size, question.memory_fraction) == (2048, 8192, 32, 0.9)
    assert question.engine_version == "1.4.0"
    later = ENGINE.settle(Deployment(model=MODELS["full"], engine_version="1.5.0rc2"))
    assert "nearest known" in later.notes[0]


def test_a_model_that_keeps_nothing() -> None:
    found = evaluate(Deployment(model=one_block(None, 2), engine="tensorrt-llm", kv_memory=GIB, context=512, batch=8))
    assert found.fits is True
    assert found.capacity is not None
    assert (found.capacity.kv_bytes, found.capacity.tokens) == (0, None)


def test_stages_under_v2_agree_on_the_fewest_tokens() -> None:
    asked = Deployment(
        model=one_block(GQA, 33), engine="tensorrt-llm", kv_memory=10 * GIB, context=512, pp=2,
        engine_option=(("use_kv_cache_manager_v2", "true"),),
    )  # fmt: skip
    plan = evaluate(asked)
    assert plan.capacity is not None
    blocks = 10 * GIB // (17 * 4096) // 32
    assert plan.capacity.blocks == blocks
    assert abs(plan.ledgers[1].cache_bytes - blocks * 32 * 16 * 4096) <= 2 * 32 * 16 * 4096


def test_int8_is_its_own_weight_only_format() -> None:
    """QuantAlgo.W8A16: Llama-2-7B's layers at a byte a value, 6,476,005,376 of them, and a scale per row; elsewhere bitsandbytes'."""
    plan = planned("meta-llama/llama-2-7b", engine="tensorrt-llm", engine_version="0.9.0", weight_dtype="int8", device="rtx-3090")
    assert plan.starts
    held = sum(entry.bytes for entry in plan.ledgers[0].entries if entry.name in ("weights: attention", "weights: mlp"))
    assert held == pytest.approx(6_476_005_376, rel=0.002)


def test_a_start_whose_engine_is_built_first_is_too_close_to_call() -> None:
    """Four of six public starts ran out of memory in trtllm-build (TensorRT-LLM issues 67, 352, 1543, 2043)."""
    asked = {"engine": "tensorrt-llm", "engine_version": "0.9.0", "weight_dtype": "int8", "device": "rtx-3090"}
    here = planned("meta-llama/llama-2-7b", **asked).as_dict()
    assert (here["starts"], here["start_certainty"], here["certainty"]) == (True, "too close to call", "too close to call")
    assert any("built=elsewhere" in note for note in here["model"]["notes"])
    made = planned("meta-llama/llama-2-7b", **asked, engine_option={"built": "elsewhere"}).as_dict()
    profiled = planned("meta-llama/llama-2-7b", **asked, engine_option={"backend": "pytorch"}).as_dict()
    assert made["start_certainty"] == profiled["start_certainty"] == "likely"
