"""Options that looked as if no memory hung on them: what vLLM's own source makes of each, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.planner.plan import Plan
from tests.conftest import planned

GIB = 1 << 30


def ask(model: str, version: str = "0.33", device: str = "h100", **question: Any) -> Plan:
    options = question.pop("options", {})
    return planned(
        model, engine="vllm", engine_version=version, device=device, context=1024, max_model_len=8192, engine_option=options,
        **question,
    )  # fmt: skip


def check(words: str, tmp_path: Path, before: str = "", device: str = "h100") -> kvplan.Verdict:
    script = tmp_path / "run.sh"
    script.write_text(f"{before}vllm serve {words}\n")
    return kvplan.check(script, device=device)[0]


def rules(verdict: kvplan.Verdict) -> set[str]:
    return {finding.rule for finding in verdict.findings if finding.severity != "note"}


@pytest.mark.parametrize(
    ("version", "tokens", "options", "starts"),
    [
        ("0.19", 2048, {}, True),  # before its config was read as a prefix model's
        ("0.20", 2048, {}, False),
        ("0.33", 2495, {}, False),
        ("0.33", 2496, {}, True),  # 32 frames of 70 tokens and 8 around each (models/gemma4_mm.py get_mm_max_tokens_per_item)
        ("0.33", 2048, {"limit_mm_per_prompt": '{"video": 0}'}, True),  # 280 tokens of an image
    ],
)
def test_an_image_that_sees_itself_goes_in_whole(version: str, tokens: int, options: dict[str, str], starts: bool) -> None:
    """platforms/cuda.py forces --disable-chunked-mm-input, v1/core/encoder_cache_manager.py refuses."""
    plan = ask("google/gemma-4-31b", version, tp=2, max_num_batched_tokens=tokens, options=options)
    assert plan.starts is starts
    assert starts or f"max_tokens_per_mm_item (2496) is larger than max_num_batched_tokens ({tokens})" in plan.verdict
    assert ask("google/gemma-4-e4b", version, max_num_batched_tokens=2048).starts  # whose images are read like text


def test_items_are_whole_where_that_is_asked_for() -> None:
    """Qwen3-VL: 16 Mi pixels in squares of 32 are 16,384 tokens."""
    whole = {"disable_chunked_mm_input": "true"}
    assert ask("qwen/qwen3-vl-8b", max_num_batched_tokens=8192).starts
    assert not ask("qwen/qwen3-vl-8b", max_num_batched_tokens=8192, options=whole).starts
    assert ask("qwen/qwen3-vl-8b", max_num_batched_tokens=16384, options=whole).starts
    assert ask("qwen/qwen3-vl-8b", max_num_batched_tokens=8192, multimodal="off", options=whole).starts


def test_every_rank_may_hold_all_of_a_tower() -> None:
    """--mm-encoder-tp-mode data: Qwen3-VL's 576,388,336 parameters in 16 bits on each of two ranks; Gemma 3's class can not."""

    def tower(model: str, version: str, mode: str) -> int:
        entries = ask(model, version, tp=2, options={"mm_encoder_tp_mode": mode}).ledgers[0].entries
        return sum(e.bytes for e in entries if e.name == "weights: tower")

    assert tower("qwen/qwen3-vl-8b", "0.33", "data") == 2 * 576_388_336
    assert tower("qwen/qwen3-vl-8b", "0.33", "weights") == 576_388_336
    assert tower("google/gemma-3-27b", "0.33", "data") == tower("google/gemma-3-27b", "0.33", "weights")


def test_sleep_mode_stops_beside_growing_segments() -> None:
    both = {"enable_sleep_mode": "true", "allocator": "expandable_segments:True"}
    assert not ask("qwen/qwen3-8b", "0.15", options=both).starts
    assert ask("qwen/qwen3-8b", "0.22", options=both).starts
    assert ask("qwen/qwen3-8b", "0.15", options={"enable_sleep_mode": "true"}).starts


def test_host_memory_that_options_bound() -> None:
    """4 GiB of the API server and 4 of the engine; 8 x 2 before 0.10.1; a copy of what both ranks loaded."""

    def held(version: str = "0.33", **question: Any) -> dict[str, int]:
        return {risk.name: risk.high for risk in ask("qwen/qwen3-vl-8b", version, **question).outcome.host_risks}

    assert held() == {"processed images": 8 * GIB}
    assert held("0.9.2") == {"processed images": 16 * GIB}
    assert held(options={"mm_processor_cache_gb": "0"}) == {}
    assert held(options={"mm_processor_cache_gb": "2", "api_server_count": "4"}) == {"processed images": 10 * GIB}
    assert held(multimodal="off") == {}
    asleep = held(tp=2, options={"enable_sleep_mode": "true"})["weights asleep"]
    assert 2 * 8_767_123_696 <= asleep < 1.05 * 2 * 8_767_123_696  # its parameters in 16 bits, and what is copied on both ranks
    # one matrix's factors: 16 x (inputs + outputs) x 2 bytes; q, k, v, o and gate, up, down of 36 layers of Qwen3-8B's shape
    one = 36 * 16 * 2 * ((4096 + 4096) * 2 + (4096 + 1024) * 2 + (4096 + 12288) * 3)
    assert held(lora="16x2", options={"max_cpu_loras": "5"})["adapters in host memory"] == 5 * one
    assert held(lora="16x2", tp=2)["adapters in host memory"] == 2 * 2 * one


def test_sums_over_ranks_without_a_kernel_of_their_own() -> None:
    """Two PCIe cards: NCCL's kernels are captured where custom_all_reduce.py is turned off, as they are on four."""

    def captured(**options: str) -> bool:
        entries = ask("qwen/qwen3-8b", "0.15", "l4", tp=2, options=options).ledgers[0].outside
        return any(e.name == "NCCL in graphs" for e in entries)

    assert not captured()
    assert captured(disable_custom_all_reduce="true")


@pytest.mark.parametrize(
    ("words", "before", "rule"),
    [
        ("Qwen/Qwen3-8B", "VLLM_ALLREDUCE_USE_SYMM_MEM=1 ", "not-modelled-either"),
        ("Qwen/Qwen3-8B --model-impl transformers", "", "not-modelled-either"),
        ("Qwen/Qwen3-8B --load-format fastsafetensors", "", "not-modelled-either"),
        ('Qwen/Qwen3-VL-8B-Instruct --mm-processor-kwargs \'{"device": "cuda"}\'', "", "not-modelled-more"),
        ('Qwen/Qwen3-VL-8B-Instruct --limit-mm-per-prompt \'{"image": {"count": 1, "width": 512}}\'', "", "not-modelled-less"),
        ("Qwen/Qwen3-8B --enable-lora --max-loras 4 --max-cpu-loras 2", "", "bad-value"),
    ],
)
def test_what_moves_memory_is_said(words: str, before: str, rule: str, tmp_path: Path) -> None:
    assert rule in rules(check(words, tmp_path, before))


@pytest.mark.parametrize(
    ("words", "before"),
    [
        ("Qwen/Qwen3-8B --no-enable-eplb --model-impl auto --load-format auto --max-cpu-loras 2", ""),
        ('Qwen/Qwen3-VL-8B-Instruct --mm-processor-device cpu --mm-processor-kwargs \'{"device": "cpu"}\'', ""),
        ("Qwen/Qwen3-8B", "VLLM_ALL2ALL_BACKEND=deepep_low_latency VLLM_LOGGING_LEVEL=DEBUG PYTORCH_ALLOC_CONF=expandable_segments:True "),
    ],
)
def test_what_moves_none_is_not(words: str, before: str, tmp_path: Path) -> None:
    assert not {rule for rule in rules(check(words, tmp_path, before)) if rule.startswith(("not-modelled", "unknown-"))}


def test_modules_that_adapters_may_have_are_read_of_a_command(tmp_path: Path) -> None:
    """Slots of q_proj alone are less than those of every linear (config/lora.py target_modules)."""
    words = "Qwen/Qwen3-8B --enable-lora --max-loras 4"
    every, one = (check(f"{words}{more}", tmp_path).plan for more in ("", " --lora-target-modules q_proj"))
    assert every is not None
    assert one is not None
    held = [sum(entry.bytes for entry in plan.ledgers[0].entries if "LoRA" in entry.name) for plan in (every, one)]
    assert held[0] > held[1] > 0
    assert one.asked("engine_option")["lora_target_modules"] == "q_proj"
