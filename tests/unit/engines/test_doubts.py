"""How sure a start is called, and what a compute type does to plain weights. Expected: counts of parameters by hand, makers' papers."""

from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from tests.conftest import planned

LLAMA = 8_030_261_248  # parameters of meta-llama/Llama-3.1-8B, on its model page
FEW = {"sglang", "tensorrt-llm", "lmdeploy", "transformers"}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "transformers"])
def test_a_compute_type_asked_for_is_the_plain_weights_too(engine):
    plan = planned("meta-llama/llama-3.1-8b", engine=engine, device="b200", context=2048, dtype="float32")
    assert plan.model.weight_bytes == 4 * LLAMA
    assert any("the dtype asked for" in note for note in plan.model.notes)
    half = planned("meta-llama/llama-3.1-8b", engine=engine, device="b200", context=2048, dtype="half")
    assert half.model.weight_bytes == 2 * LLAMA


@pytest.mark.parametrize("engine", ["vllm", *sorted(FEW)])
def test_a_start_is_certain_only_where_logs_are_behind_it(engine):
    plan = planned("meta-llama/llama-3.1-8b", engine=engine, device="b200", context=2048)
    assert plan.outcome.start_certainty == ("likely" if engine in FEW else "certain")
    assert any("likely at most" in note for note in plan.model.notes) == (engine in FEW)


@pytest.mark.parametrize(
    ("model", "device", "why"),
    [
        ("openai/gpt-oss-20b", "h100", "mxfp is converted"),  # FP4 cores from Blackwell on
        ("openai/gpt-oss-20b", "b200", ""),
        ("qwen/qwen3-30b-a3b-fp8", "a100-80gb", "fp8 is converted"),  # FP8 cores from Ada on
        ("qwen/qwen3-30b-a3b-fp8", "h100", ""),
    ],
)
def test_a_format_that_the_device_does_not_compute_in_is_said(model, device, why):
    name, weights = model.removesuffix("-fp8"), "fp8" if model.endswith("-fp8") else None
    plan = planned(name, weight_dtype=weights, engine="vllm", device=device, context=2048, memory_fraction=0.7)
    said = [note for note in plan.model.notes if "likely at most" in note]
    assert [why in note for note in said] == ([True] if why else [])


@pytest.mark.parametrize(
    ("device", "tp", "sure"),
    [
        ("h100", 1, "too close to call"),  # 61.9 GiB of experts on 79: vllm issues 27508 and 33155 ran out
        ("h100", 2, "likely"),  # half of them, and 38 GiB beside: InferenceX has it up
        ("b200", 1, "certain"),  # computes in FP4
    ],
)
def test_weights_that_are_converted_want_room_for_a_second_copy(device, tp, sure):
    asked = {"engine": "vllm", "engine_version": "0.21.0", "context": 8192, "memory_fraction": 0.9 if device == "h100" else 0.8}
    plan = planned("openai/gpt-oss-120b", device=device, tp=tp, **asked)
    assert plan.starts
    assert plan.outcome.start_certainty == sure
    assert any("without room for a second copy" in note for note in plan.model.notes) == (sure == "too close to call")


def test_a_start_of_what_is_not_plain_is_certain_with_room_beside_its_fraction():
    """docs/limits.md: of starts called certain before anybody looked, with less than 8 % of the device left, those of plain models held."""
    usual = {"engine": "vllm", "engine_version": "0.21.0", "device": "h100", "context": 8192}
    packed = [planned("openai/gpt-oss-20b", **usual, memory_fraction=share) for share in (0.93, 0.7)]
    assert [any("less than 8% of the device" in note for note in plan.model.notes) for plan in packed] == [True, False]
    plain = planned("meta-llama/llama-3.1-8b", **usual, memory_fraction=0.93)
    assert plain.outcome.start_certainty == "certain"


def test_what_nobody_sized_of_sleep_mode_and_adapters_is_said():
    """vllm#43951 and vllm#34877: experts ran out of memory as they were laid out in sleep mode's pools; vllm#29049: adapters on an H100."""
    usual = {"engine": "vllm", "engine_version": "0.21.0", "device": "b200", "context": 2048, "memory_fraction": 0.8}
    asleep = planned("qwen/qwen3-30b-a3b", **usual, engine_option={"enable_sleep_mode": "true"})
    assert asleep.starts
    assert asleep.outcome.start_certainty == "too close to call"
    assert planned("qwen/qwen3-30b-a3b", **usual).outcome.start_certainty == "certain"
    adapted = planned("meta-llama/llama-3.1-8b", engine="vllm", engine_version="0.11.1", device="h100", lora="16x2")
    assert adapted.starts
    assert adapted.outcome.start_certainty == "likely"


def test_a_release_before_any_log_is_likely_at_most():
    plan = planned("meta-llama/llama-2-7b", engine="vllm", engine_version="0.2.7", device="h100", context=2048)
    assert plan.outcome.start_certainty != "certain"


def test_minimax_m2_is_stored_in_fp8():
    plan = planned("MiniMaxAI/MiniMax-M2", engine="vllm", device="mi300x", tp=2)
    held = sum(entry.bytes for entry in plan.ledgers[0].entries if entry.kind == "weights")
    assert abs(held / 1e9 - 109) < 10  # GB a card, logged in vllm-project/recipes issue 273
    assert plan.starts


def test_a_model_of_which_parts_are_not_counted_is_at_most_likely() -> None:
    """MiMo-V2.5 reads images and sound; its towers have no formula here."""
    plan = planned("xiaomimimo/mimo-v2.5", engine="vllm", device="b300", tp=2, context=8192)
    assert (plan.starts, plan.certainty) == (True, "likely")
    assert any("parts of MiMo-V2.5 are not counted" in note for note in plan.model.notes)
    whole = planned("xiaomimimo/mimo-v2-flash", engine="vllm", device="b300", tp=2, context=8192)
    assert (whole.starts, whole.certainty) == (True, "certain")


@pytest.mark.parametrize(("model", "sure"), [("meta-llama/llama-3.1-70b", "likely"), ("deepseek-ai/deepseek-v3", "certain")])
def test_a_refusal_of_llama_cpp_is_certain_where_all_that_there_is_would_not_do(model: str, sure: str) -> None:
    """A card of 24 GiB lacks 16 GiB of the 40 that 70 billion parameters take in Q4_K_M, and more than 300 of DeepSeek-V3's."""
    plan = planned(model, engine="llama.cpp", device="p40", weight_dtype="q4_k_m", context=4096, n_gpu_layers=99)
    assert (plan.starts, plan.certainty) == (False, sure)


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ({}, True),
        ({"no_mmap": True}, False),
        ({"mlock": True}, False),
        ({"mmap": True}, True),
        ({"load_mode": "dio"}, False),
        ({"LLAMA_ARG_MMAP": "0"}, False),
    ],
)
def test_weights_that_ram_has_no_room_for_stay_in_their_file(options: dict[str, bool], starts: bool) -> None:
    """60 of 80 layers of 39.6 GiB beside a card, in 16 GiB: llama.cpp maps the file, unless it is told to read it (--load-mode)."""
    asked = {"engine": "llama.cpp", "device": "rtx-3090", "weight_dtype": "q4_k_m", "context": 8192, "n_gpu_layers": 20}
    plan = planned("meta-llama/llama-3.1-70b", host_memory="16GiB", engine_option=options, **asked)
    assert (plan.fits, plan.starts) == (False, starts)
    assert ("it starts all the same" in str(plan)) is starts


@pytest.mark.parametrize(
    ("device", "ranks", "sure"),
    [
        ("l40s", {"tp": 2}, "certain"),
        ("l40s", {"tp": 4}, "likely"),
        ("l40s", {"tp": 2, "pp": 2}, "likely"),
        ("l40s", {"tp": 2, "dp": 2}, "certain"),
        ("h100", {"tp": 4}, "certain"),
        ("h100", {"tp": 8}, "likely"),
        ("h100", {"tp": 8, "pp": 2}, "likely"),
    ],
)
def test_no_start_over_many_ranks_is_certain(device: str, ranks: dict[str, int], sure: str) -> None:
    """Of public starts over four and more cards, or more than a board of modules, 5 of 12 failed that were certain before it was known."""
    plan = planned("meta-llama/llama-3.1-8b", engine="vllm", device=device, context=8192, **ranks)
    assert (plan.starts, plan.outcome.start_certainty) == (True, sure)


def test_compute_types():
    """vLLM's, SGLang's and LMDeploy's `--dtype auto` is none; FP8 is a format of weights and caches, in which nothing is computed here."""
    left, auto = (planned("meta-llama/llama-3.1-8b", dtype=dtype, context=2048).as_dict() for dtype in (None, "auto"))
    assert auto == left
    with pytest.raises(SpecError, match="--weight-dtype fp8, for the cache --kv-dtype fp8"):
        planned("meta-llama/llama-3.1-8b", dtype="fp8", context=2048)
