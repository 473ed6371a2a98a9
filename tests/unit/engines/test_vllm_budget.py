"""The budget's physics against figures that vLLM printed, and against arithmetic written out here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan import api
from kvplan.engines.vllm.captures import capture_sizes
from kvplan.errors import SpecError
from kvplan.ledger import Entry
from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB
from tests.conftest import planned


def entries(model: str, rank: int = 0, **question: object) -> dict[str, Entry]:
    plan = planned(model, engine="vllm", device="h100-80gb", memory_fraction=0.95, **question)
    return {e.name: e for e in plan.ledgers[rank].entries}


def weights(lines: dict[str, Entry]) -> float:
    return sum(e.bytes for name, e in lines.items() if name.startswith("weights")) / GIB


# vLLM 0.15 to 0.19 on an H100, llm-d-incubation/llm-d-planner#205: weights, activation peak as logged
LOGGED = [
    ("Qwen/Qwen3-14B", {"engine_version": "0.15.0"}, 27.52, 5.64),
    ("Qwen/Qwen3-14B", {"engine_version": "0.17.0"}, 27.52, 2.23),
    ("Qwen/Qwen3-8B", {"engine_version": "0.19.0"}, 15.27, 2.21),
    ("google/gemma-2-27b-it", {"engine_version": "0.19.0"}, 50.72, 3.66),  # 256,000 entries
    ("codellama/CodeLlama-7b-hf", {"engine_version": "0.19.0"}, 12.56, 0.77),  # the layers are the larger
    ("ibm-granite/granite-3.3-8b-instruct", {"engine_version": "0.19.0"}, 15.25, 0.85),
    ("meta-llama/Llama-3.1-8B", {"engine_version": "0.19.0", "tp": 4}, 3.77, 1.89),
    ("meta-llama/Llama-3.1-8B", {"engine_version": "0.19.0", "dtype": "f32", "weight_dtype": "f32"}, 29.98, 2.21),
    ("meta-llama/Llama-3.1-8B", {"engine_version": "0.19.0", "pp": 4}, 4.26, 1.05),
]


@pytest.mark.parametrize(("model", "flags", "logged_weights", "logged_peak"), LOGGED)
def test_lines_that_vllm_logged(model: str, flags: dict[str, object], logged_weights: float, logged_peak: float) -> None:
    lines = entries(model, max_model_len=8192, **flags)
    assert weights(lines) == pytest.approx(logged_weights, abs=0.02)
    assert lines["activations"].bytes / GIB == pytest.approx(logged_peak, rel=0.02, abs=0.03)


def test_a_pipeline_stage_hands_on_two_hidden_states_and_the_last_one_samples() -> None:
    lines = entries("meta-llama/Llama-3.1-8B", rank=1, max_model_len=8192, engine_version="0.19.0", pp=2)
    assert lines["activations"].bytes / GIB == pytest.approx(2.01, abs=0.01)


#: hidden size and width of gpt-oss's experts (2880 both) as each card's kernels want them (mxfp4.py and oracle/mxfp4.py of vLLM)
PADDED = [
    ("a100-80gb", "0.11.0", {}, 3072, 2944),  # Marlin: hidden of 256, width of 128
    ("h100-80gb", "0.27.1", {}, 2880, 2880),  # Triton: width of 64; a log of 0.27.1 has 61.1 GiB, a padded one would have 66
    ("h100-80gb", "0.27.1", {"lora": "16x1"}, 3072, 2944),  # Marlin under adapters
    ("b200", "0.24.0", {}, 3072, 3072),  # FlashInfer: 256 both, the width of 128 from 0.27 on
    ("b200", "0.27.1", {}, 3072, 2944),
    ("mi300x", "0.22.0", {}, 3072, 3072),  # ROCm from 0.20 on; a log of 0.22.1 on gfx1151 has 68.7 GiB
    ("arc-pro-b70", "0.28.0", {}, 2944, 2944),
]


@pytest.mark.parametrize(("device", "version", "more", "hidden", "width"), PADDED)
def test_experts_in_mxfp4_are_padded_as_the_cards_kernels_want(
    device: str, version: str, more: dict[str, str], hidden: int, width: int
) -> None:
    plan = planned("openai/gpt-oss-120b", engine="vllm", engine_version=version, device=device, max_model_len=8192, tp=1, **more)
    line = next(e for e in plan.ledgers[0].entries if e.name == "weights: experts")
    padded = 36 * 128 * 3 * hidden * width * 17 // 32  # 4.25 bits a weight with its scale; biases are kept apart
    assert padded <= line.bytes <= padded * 1.01


def test_no_images_no_tower() -> None:
    question = {"max_model_len": 8192, "engine_version": "0.19.0"}
    assert "weights: tower" in entries("google/gemma-3-12b-it", **question)
    text_only = entries("google/gemma-3-12b-it", multimodal="off", **question)
    assert "weights: tower" not in text_only


def test_a_tower_is_split_over_ranks() -> None:
    lines = entries("mistralai/Mistral-Small-3.1-24B-Instruct-2503", max_model_len=8192, tp=2)
    # 403,305,472 + 35,652,608 parameters of tower and projector in bf16, over two ranks
    assert lines["weights: tower"].bytes == 403305472 + 35652608


def test_lora_slots() -> None:
    # 32 layers; per adapted matrix rank x (out + in): q and o 4096 + 4096, k and v 1024 + 4096, gate and up 14336 + 4096, down the same
    per_layer = 2 * (4096 + 4096) + 2 * (1024 + 4096) + 3 * (14336 + 4096)
    assert entries("meta-llama/Llama-3.1-8B", max_model_len=8192, lora="16x4")["LoRA slots"].bytes == 2 * 4 * 16 * 32 * per_layer
    with pytest.raises(SpecError):
        entries("meta-llama/Llama-3.1-8B", max_model_len=8192, lora="many")


def test_capture_sizes() -> None:
    # 1, 2, 4, 8 .. 248 by 8 (31), 256 .. 512 by 16 (17)
    assert capture_sizes(1024, 8192, 0, 512) == 3 + 31 + 17
    assert capture_sizes(16, 8192, 0, 512) == 7  # 1, 2, 4, 8, 16, 24, 32
    assert capture_sizes(2, 8192, 0, 512) == 3  # 1, 2, 4


def test_graphs_are_charged_from_0_20_on_unless_eager() -> None:
    old = entries("Qwen/Qwen3-8B", max_model_len=8192, engine_version="0.19")
    new = entries("Qwen/Qwen3-8B", max_model_len=8192, engine_version="0.20")
    eager = entries("Qwen/Qwen3-8B", max_model_len=8192, engine_version="0.20", enforce_eager=True)
    assert "CUDA graphs" not in old
    assert new["CUDA graphs"].low < new["CUDA graphs"].bytes < new["CUDA graphs"].high
    assert "CUDA graphs" not in eager


def test_communication_buffers_by_link_and_release() -> None:
    def outside(device: str, version: str, tp: int) -> int:
        plan = planned("meta-llama/Llama-3.1-8B", engine="vllm", device=device, engine_version=version, tp=tp, max_model_len=8192)
        return next(e.bytes for e in plan.ledgers[0].entries if e.name == "outside torch")

    assert outside("h100-80gb", "0.19", 2) > GIB  # NVSwitch
    assert outside("a100-80gb", "0.19", 2) < GIB // 2
    assert outside("l40s", "0.19", 2) < GIB // 2
    assert outside("a100-80gb", "0.7", 2) > GIB // 2  # NCCL's start was charged


def test_without_calibration_only_shapes_are_charged_and_it_says_so() -> None:
    plan = planned("Qwen/Qwen3-8B", engine="vllm", device="h100-80gb", max_model_len=8192, calibration="none")
    names = {e.name for e in plan.ledgers[0].entries}
    assert "activations" not in names
    assert plan.capacity is not None
    assert any("calibration" in warning for warning in plan.capacity.warnings)


def test_the_interval_holds_the_estimate_and_follows_the_kind() -> None:
    plain = planned("Qwen/Qwen3-8B", engine="vllm", device="h100-80gb", max_model_len=8192).capacity
    towers = planned("google/gemma-3-12b-it", engine="vllm", device="h100-80gb", max_model_len=8192).capacity
    assert plain is not None
    assert towers is not None
    assert plain.kv_bytes_low < plain.kv_bytes < plain.kv_bytes_high
    assert towers.kv_bytes_high - towers.kv_bytes_low > plain.kv_bytes_high - plain.kv_bytes_low


def test_constants_are_values_of_the_question() -> None:
    d = api.deployment("Qwen/Qwen3-8B", engine="vllm", device="h100-80gb", max_model_len=8192)
    assert d.constants is not None
    doubled = tuple(c._replace(value=2 * c.value) if c.name == "outside_torch" else c for c in d.constants.values)
    more = evaluate(replace(d, constants=d.constants._replace(values=doubled)))
    assert evaluate(d).capacity.kv_bytes > more.capacity.kv_bytes  # type: ignore[union-attr]


def test_unified_memory_says_so() -> None:
    capacity = planned("Qwen/Qwen3-8B", engine="vllm", device="gb10", max_model_len=8192).capacity
    assert capacity is not None
    assert any("shares its memory" in warning for warning in capacity.warnings)


@pytest.mark.parametrize(("fraction", "sure"), [(0.9, "too close to call"), (0.95, "likely")])
def test_a_context_that_may_be_smaller(fraction: float, sure: str) -> None:
    # 4.75 GiB: 0.9 leaves 486 MiB to a context of 500 (300 to 700), 0.95 leaves 243: 257 too little, 1.28 times what it may be less
    plan = planned("google/gemma-3-1b-it", engine="vllm", engine_version="0.10.1.1", device="4.75GiB", memory_fraction=fraction)
    assert str(plan.outcome.reason).startswith("Free memory on device")
    assert (plan.starts, plan.certainty) == (False, sure)


@pytest.mark.parametrize(("reserve", "sure"), [("1.0GiB", "too close to call"), ("1.5GiB", "likely"), ("2.5GiB", "certain")])
def test_what_others_hold_may_be_vllms_own_context(reserve: str, sure: str) -> None:
    """23.52 GiB at 0.95 asks for 22.35 and leaves 1.17 to a context of 0.49 and the others: 0.32, 0.82 and 1.82 too little.

    Up to 0.68 of it may be the context's twice over: 0.2 that it may be less, and 0.49 of a number read beside it.
    """
    plan = planned(
        "Qwen/Qwen3-8B", engine="vllm", engine_version="0.28.0", device="rtx-4090", memory_fraction=0.95, max_model_len=8192,
        reserve=reserve,
    )  # fmt: skip
    assert str(plan.outcome.reason).startswith("Free memory on device")
    assert plan.certainty == sure


def test_what_is_said_to_be_held_of_shared_memory_is_not_counted_twice() -> None:
    """Two DGX Sparks with 8.1 GiB held started Qwen3.6-35B-A3B at 0.92, 111.95 of 121.69 (microscaler/cylon-local-infra)."""
    asked = {"engine": "vllm", "engine_version": "0.17.1", "device": "gb10", "memory_fraction": 0.9, "context": 8192}
    with_reserve, without = (planned("Qwen/Qwen3-8B", **asked | more) for more in ({"reserve": "8GiB"}, {}))
    lines = [{entry.name for entry in plan.ledgers[0].outside} for plan in (with_reserve, without)]
    assert "RAM of the system and the server" in lines[1] - lines[0]
    assert "held by others" in lines[0] - lines[1]


@pytest.mark.parametrize(
    ("device", "fraction", "reserve", "sure"),
    [
        ("rtx-pro-6000-blackwell", 0.99, None, False),  # of 94.97 GiB 93.94 were free (jasl/vllm-ds4-sm120-harness): 94.02 are refused
        ("rtx-pro-6000-blackwell", 0.985, None, False),
        ("rtx-pro-6000-blackwell", 0.985, "0", True),
        ("rtx-pro-6000-blackwell", 0.9, None, True),
        ("h100-80gb", 0.98, None, True),  # no display
    ],
)
def test_a_desktop_may_hold_what_a_fraction_asks_for(device: str, fraction: float, reserve: str | None, sure: bool) -> None:
    question = {"engine": "vllm", "engine_version": "0.20", "device": device, "memory_fraction": fraction, "max_model_len": 8192}
    plan = planned("qwen/qwen3-8b", **question, reserve=reserve, enforce_eager=True)
    assert plan.starts
    assert (plan.outcome.start_certainty != "too close to call") is sure
