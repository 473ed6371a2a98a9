"""A request that a setting keeps out is not short of memory: the answer names the setting, and what is left stays what is left."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.report.answer import sentence
from tests.conftest import planned

MODEL = "meta-llama/llama-3.1-8b"  # a token takes 131,072 B: 100 x 4,096 of them 50 GiB of an H200's 139.8, with 15 GiB of weights
EVERY = ("ideal", "vllm", "sglang", "tensorrt-llm", "lmdeploy", "llama.cpp", "ollama", "transformers", "exllamav3")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "lmdeploy"])
def test_fewer_slots_than_sequences(engine: str) -> None:
    plan = kvplan.estimate(MODEL, engine=engine, device="h200", context=4096, batch=100, max_num_seqs=16)
    assert (plan.starts, plan.fits) == (True, False)
    assert plan.margin_bytes is not None
    assert plan.margin_bytes > 0
    assert "lacks" not in sentence(plan)
    assert "16" in str(plan.outcome.reason)
    assert plan.capacity is not None
    assert plan.capacity.max_batch == 16
    (more, *_) = plan.advice
    assert (more.option, more.value) == ("max_num_seqs", 100)


@pytest.mark.parametrize("engine", EVERY)
def test_a_request_longer_than_the_longest_that_is_admitted(engine: str) -> None:
    plan = kvplan.estimate(MODEL, engine=engine, device="h200", context=4096, max_model_len=2048)
    assert plan.fits is False
    assert sentence(plan).startswith("No: 1 request of 4,096 tokens does not fit: ")
    assert plan.margin_bytes is not None
    assert plan.margin_bytes > 0
    assert next((one.option, one.value) for one in plan.advice) == ("max_model_len", 4096)
    assert kvplan.estimate(MODEL, engine=engine, device="h200", context=2048, max_model_len=2048).fits


def test_both_a_slot_and_memory_are_missing() -> None:
    """24 GiB: the missing memory is said, as it is where the slots would do."""
    plan = planned(MODEL, engine="sglang", device="24GiB", context=4096, batch=100, max_num_seqs=16)
    assert plan.fits is False
    assert plan.margin_bytes is not None
    assert plan.margin_bytes < 0
    assert "lacks" in sentence(plan)


def test_sweep_says_the_same() -> None:
    job = kvplan.sweep(MODEL, {"context": [2048, 4096]}, engine="ideal", device="h200", max_model_len=2048)
    assert [columns["fits"].tolist() for _, columns in kvplan.sweep_ranges(job)] == [[True, False]]
