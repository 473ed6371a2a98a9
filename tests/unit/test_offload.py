"""Layers that stay in RAM where nobody said how many: what llama.cpp's --fit and Ollama do, as `estimate` answers it."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

import kvplan
from kvplan.planner.offload import in_ram
from kvplan.report.answer import next_numbers, sentence
from tests.conftest import planned

LARGE = {"model": "meta-llama/llama-3.1-70b", "weight_dtype": "q4_k_m", "device": "rtx-4090", "context": "8k"}


@pytest.fixture(scope="module", params=["llama.cpp", "ollama"])
def split(request: pytest.FixtureRequest) -> tuple[dict[str, str], kvplan.Plan]:
    question = {**LARGE, "engine": request.param}
    return question, kvplan.estimate(**question)


def test_a_model_larger_than_its_card_runs_split(split):
    _, plan = split
    on, of = plan.capacity.offloaded
    assert of == 80 + 1  # the output layer counted as one
    assert 0 < on < of
    assert (plan.fits, plan.starts, plan.outcome.split, plan.question["host_memory"]) == (False, False, True, (None, "kvplan"))
    held = sum(row["bytes"] for row in plan.rows() if row["kind"] == "weights")
    assert abs(held - plan.model.weight_bytes) < 100  # shares rounded
    layer = 8192 * 2 * 8 * 128 * 2  # of each of 80 layers; the output layer keeps none
    assert [row["bytes"] for row in plan.rows() if row["kind"] == "cache"] == [(on - 1) * layer, (of - on) * layer]
    assert sentence(plan).startswith(f"Split: 1 request of 8,192 tokens runs on 1 x RTX 4090, {on} of 81 layers on the GPU and ")
    assert plan.verdict.endswith("in RAM")
    assert {one.option for one in plan.advice} >= {"device"}
    Draft202012Validator(kvplan.schema("plan")).validate(plan.as_dict())


def test_host_memory_only_bounds_it(split):
    question, plan = split
    bounded = planned(**question, host_memory=in_ram(plan))
    assert (bounded.fits, bounded.outcome.split, bounded.capacity.offloaded) == (True, False, plan.capacity.offloaded)
    assert planned(**question, host_memory=in_ram(plan) - 1).fits is False


def test_explain_says_the_same(split):
    question, plan = split
    lines = {line.name: line.value for line in kvplan.explain(**question)}
    assert lines["RAM: total"] == in_ram(plan)


@pytest.mark.parametrize("chosen", [{"n_gpu_layers": 99}, {"engine_version": "b6990"}])
def test_who_says_how_many_layers_is_taken_at_their_word(chosen):
    """-ngl is never changed, and builds before #16653 have no --fit."""
    assert planned(**LARGE, **chosen, engine="llama.cpp").fits is False


def test_what_fits_whole_is_whole():
    plan = planned("meta-llama/llama-3.1-8b", engine="llama.cpp", device="rtx-4090", context="8k")
    assert plan.capacity.offloaded == (33, 33)
    assert sentence(plan).startswith("Yes: ")


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_limits_of_a_split_keep_it(engine):
    """2 x 8 KV heads x 128 x 2 B x 80 layers = 320 KiB a token: another request of 8,192 tokens is 2.5 GiB, and the card has 1 GiB left."""
    plan = kvplan.estimate(**LARGE, engine=engine)
    capacity = plan.capacity
    assert (capacity.max_batch, plan.outcome.split) == (1, True)
    assert dict(next_numbers(plan))["most requests of 8,192 tokens"] == "1 in this split"
    longest = kvplan.estimate(**{**LARGE, "context": capacity.max_context_at_batch}, engine=engine, advise=False)
    assert longest.capacity.offloaded == capacity.offloaded
