"""Requests that an encoder reads at once (tools/server/server-context.cpp can_split, as in llama-cpp-python 0.3.36); cards and builds."""

from __future__ import annotations

import pytest

import kvplan

ENCODER = "baai/bge-m3"
TOO_LARGE = "input (8192 tokens) is too large to process. increase the physical batch size (current batch size: 512)"


def test_a_batch_of_512_is_the_longest_that_a_server_takes() -> None:
    plan = kvplan.estimate(ENCODER, engine="llama.cpp", device="rtx-4060", max_model_len=8192, context=8192)
    assert plan.starts
    assert not plan.fits
    assert TOO_LARGE in plan.verdict


def test_larger_batches_take_it_and_cost_memory() -> None:
    large = {"n_ubatch": 8192}
    plan = kvplan.estimate(
        ENCODER, engine="llama.cpp", device="rtx-4060", max_model_len=8192, context=8192, max_num_batched_tokens=8192, engine_option=large
    )
    small = kvplan.estimate(ENCODER, engine="llama.cpp", device="rtx-4060", max_model_len=512, context=512)
    assert plan.fits
    assert plan.ledgers[0].total_bytes > small.ledgers[0].total_bytes


def test_what_nobody_set_is_set_and_said() -> None:
    plan = kvplan.estimate(ENCODER, engine="llama.cpp", device="rtx-4060", context=8192)
    assert plan.fits
    assert any("-b 8192 -ub 8192" in note for note in plan.model.notes)


def test_a_decoder_reads_it_in_parts() -> None:
    """Qwen3-Embedding pools the last token: the prompt may be split."""
    assert kvplan.estimate("qwen/qwen3-embedding-0.6b", engine="llama.cpp", device="rtx-4060", context=8192, max_model_len=8192).fits


@pytest.mark.parametrize(("main_gpu", "starts"), [(1, True), (3, False)])
def test_the_card_that_alone_is_used_has_to_be_there(main_gpu: int, starts: bool) -> None:
    """src/llama.cpp: `invalid value for main_gpu: 3 (available devices: 2)`."""
    options = {"split_mode": "none", "main_gpu": main_gpu}
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", engine="llama.cpp", device="2xrtx-3090", context=8192, engine_option=options)
    assert plan.starts is starts


@pytest.mark.parametrize(("build", "certainty"), [("b99999", "likely"), ("b1500", "likely"), ("b11312", "certain")])
def test_builds_that_nobody_read_are_not_certain(build: str, certainty: str) -> None:
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", engine="llama.cpp", engine_version=build, device="rtx-4090", context=8192)
    assert plan.certainty == certainty


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
def test_no_server_calls_the_encoder_of_t5(engine: str) -> None:
    """llama_encode is called by warm-up (common/common.cpp) and by no file of tools/server."""
    assert kvplan.estimate("google-t5/t5-small", engine=engine, device="rtx-4060").certainty == "too close to call"
