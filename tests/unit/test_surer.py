"""What an answer hangs on that is too close to call, and what settles it."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.manifests import Source
from kvplan.report.answer import sentence
from tests.conftest import planned


def test_a_device_that_is_full_at_warm_up_is_said_with_the_fraction_that_leaves_room() -> None:
    """0.92 of a GB10's 121.69 GiB is 111.95, and what the system holds of the rest differs by 16 GiB."""
    plan = api.estimate("Qwen/Qwen3-8B", engine="vllm", engine_version="0.33", device="gb10")
    assert plan.certainty == "too close to call"
    assert "In doubt: at warm-up GPU 0 holds " in sentence(plan)
    first = plan.advice[0]
    assert first.option == "memory_fraction"
    asked = api.estimate("Qwen/Qwen3-8B", engine="vllm", engine_version="0.33", device="gb10", memory_fraction=first.value)
    assert (asked.fits, asked.certainty) == (True, first.certainty)
    assert first.certainty != "too close to call"
    assert asked.margin_bytes == first.margin_bytes


@pytest.mark.parametrize("change", range(2))
def test_every_change_was_evaluated(change: int) -> None:
    """Gemma 3 27B in 4 bits on a card that its weights nearly fill: a pool of 8k that may be too small."""
    question = {"engine": "vllm", "device": "rtx-4090", "weight_dtype": "int4_g128", "context": 8192}
    plan = api.estimate("google/gemma-3-27b-it", **question)
    assert (plan.fits, plan.certainty) == (True, "too close to call")
    assert "the cache may get" in sentence(plan)
    one = plan.advice[change]
    after = api.estimate("google/gemma-3-27b-it", **question | {one.option: one.value})
    assert after.fits
    assert after.certainty == one.certainty != "too close to call"


def test_nothing_settles_what_no_interval_says() -> None:
    """MiniCPM-V 2.6 under V0: what its images take is not modelled, which no smaller number changes."""
    plan = api.estimate("openbmb/MiniCPM-V-2_6", engine="vllm", engine_version="0.6.2", device="rtx-3090", max_model_len=2048)
    assert plan.certainty == "too close to call"
    assert plan.advice == ()
    assert sentence(plan).endswith("In doubt: what V0's profile run takes for the images of MiniCPMV is not modelled.")


def test_a_plan_that_is_sure_has_no_advice() -> None:
    assert api.estimate("meta-llama/llama-3.1-8b", engine="vllm", device="h100-80gb", context=8192).advice == ()


def test_the_least_fraction_that_is_certain_comes_before_a_smaller_cache() -> None:
    """Of 62 requests of 32,768 tokens a rank of four holds 62 GiB (131,072 B a token): a hundredth more is some doubt less."""
    question = {"engine": "vllm", "engine_version": "0.33", "device": "h100-80gb", "context": 32768, "batch": 62, "tp": 4}
    first = api.estimate("meta-llama/llama-3.1-8b", **question).advice[0]
    assert (first.option, first.certainty) == ("memory_fraction", "certain")
    below = api.estimate("meta-llama/llama-3.1-8b", **question | {"memory_fraction": round(first.value - 0.01, 2)})
    assert below.certainty != "certain"


@pytest.mark.parametrize(("device", "close"), [("mi210", True), ("mi300x", False), ("a100-80gb", False)])
def test_fp8_where_no_kernel_unpacks_it(device: str, close: bool) -> None:
    """On MI210 and MI250 both public starts ended in the profile run (vllm-project/vllm 16394, 10663); on Ampere Marlin unpacks it."""
    plan = planned("qwen/qwen3-32b", engine="vllm", device=device, tp=2, weight_dtype="fp8", context=8192)
    assert plan.fits
    assert (plan.certainty == "too close to call") is close
    assert ("In doubt: FP8 has no kernel on gfx90a" in sentence(plan)) is close


def test_a_checkpoint_that_the_engine_does_not_load_is_said_in_the_first_sentence() -> None:
    """llama.cpp loads GGUF files; an AWQ checkpoint's sizes are counted for want of others, and who reads one line must know."""
    plan = planned("Qwen/Qwen3-8B-AWQ", engine="llama.cpp", device="rtx-3090", context=8192)
    assert plan.certainty == "too close to call"
    assert sentence(plan).endswith(" In doubt: counted are weights that llama.cpp does not load.")


def test_check_says_what_too_close_hangs_on() -> None:
    serve = Source("serve.sh", "vllm serve meta-llama/Llama-3.2-1B-Instruct --gpu-memory-utilization 0.95 --max-model-len 4096")
    (verdict,) = api.check([serve], device="t4", engine_version="0.11.2")
    (said,) = [finding.message for finding in verdict.findings if finding.rule == "too-close-to-call"]
    assert "; in doubt: " in said
    assert " GPU 0 holds " in said
