"""llama.cpp's buffers of towers and of logits, beside what builds printed."""

from __future__ import annotations

import pytest

from tests.conftest import planned


def test_no_tower_without_images() -> None:
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "context": 4096}
    on, off = (planned("qwen/qwen2.5-vl-7b", multimodal=say, **asked) for say in ("on", "off"))
    assert "weights: tower" in {e.name for e in on.ledgers[0].entries} - {e.name for e in off.ledgers[0].entries}


@pytest.mark.parametrize(
    ("model", "flash", "printed"),
    [
        ("google/gemma-3-27b", "auto", 984_853_952 - 857_739_104),
        ("google/gemma-3-27b", "off", 2_044_702_144 - 857_739_104),
        ("qwen/qwen2-vl-7b", "auto", 1_635_673_088 - 1_355_645_792),
        ("qwen/qwen2-vl-7b", "off", 6_177_252_352 - 1_355_645_792),
    ],
)
def test_a_tower_has_a_buffer_of_its_own(model: str, flash: str, printed: int) -> None:
    """b11312's mtmd_get_memory_usage of towers with these sizes, less the bytes of their files."""
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "weight_dtype": "q4_k_m", "context": 4096, "multimodal": "on"}
    plan = planned(model, engine_option={"flash_attn": flash}, **asked)
    line = next(e for e in plan.ledgers[0].entries if e.name == "tower buffer")
    assert line.low <= printed <= line.high
    assert abs(line.bytes - printed) < printed // 10


@pytest.mark.parametrize(("version", "mib"), [("b3500", 258.5), ("b9159", 258.5), ("b11312", None)])
def test_logits_of_every_token_were_reserved_before_23861(version: str, mib: float | None) -> None:
    """ollama/ollama#6257 logs 258.50 MiB of Llama 3 8B: 512 x (128,256 + 4,096) in f32. Since then one row of logits a sequence."""
    plan = planned(
        "meta-llama/llama-3.1-8b", engine="llama.cpp", engine_version=version, device="rtx-4090", context=8192,
        weight_dtype="q4_k_m", engine_option={"flash_attn": "on"},
    )  # fmt: skip
    buffer = next(entry for entry in plan.ledgers[0].entries if entry.name == "compute buffer")
    assert (buffer.bytes == mib * 2**20) if mib else buffer.bytes < 200 * 2**20


@pytest.mark.parametrize(
    ("model", "version", "context", "options", "printed"),
    [
        ("Qwen/Qwen3.5-35B-A3B", "b8700", 262144, {"flash_attn": "on", "n_outputs_max": "1"}, 804.0),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "b9010", 131072, {"flash_attn": "on"}, 423.76),
        ("Qwen/Qwen3-32B", "b10970", 123392, {"flash_attn": "on"}, 306.0),
        ("microsoft/Phi-3.5-mini-instruct", "b3613", 131072, {"flash_attn": "off"}, 8484.0),
        ("meta-llama/Llama-3.3-70B-Instruct", "b5002", 15360, {"flash_attn": "off"}, 2014.0),
    ],
)
def test_masks_and_scores_are_counted(model: str, version: str, context: int, options: dict[str, str], printed: float) -> None:
    """Compute buffers that public logs of a card show, in MiB (tests/threads, `logged`): within a tenth, and most of that without a width.

    Until #23764 (b9410) masks of 32 bits lay beside those of 16 that flash attention reads: 768 of b8700's 804 MiB.
    """
    plan = planned(
        model, engine="llama.cpp", engine_version=version, device="80GiB", context=context, weight_dtype="q4_k_m",
        multimodal="off", engine_option=options,
    )  # fmt: skip
    buffer = next(entry for entry in plan.ledgers[0].entries if entry.name == "compute buffer")
    assert abs(buffer.bytes / 2**20 - printed) < printed / 10
    assert buffer.low - buffer.bytes // 20 <= printed * 2**20 <= buffer.high + buffer.bytes // 20


@pytest.mark.parametrize(("context", "target", "draft"), [(1024, 133.02, 123.02), (32768, 164.02, 130.02), (262144, 388.02, 324.02)])
def test_a_draft_head_has_masks_of_its_own(context: int, target: float, draft: float) -> None:
    """MiB that b11312 (llama-cpp-python 0.3.36) printed on a CPU for the two contexts of a Qwen3.5 27B whose weights are a hole."""
    plan = planned(
        "qwen/qwen3.5-27b", engine="llama.cpp", engine_version="b11312", device="rtx-5090", weight_dtype="q4_0", speculative="mtp:2",
        multimodal="off", context=context,
    )  # fmt: skip
    for name, printed in (("compute buffer", target), ("compute buffer of drafts", draft)):
        line = next(entry for entry in plan.ledgers[0].entries if entry.name == name)
        assert line.low <= printed * 2**20 <= line.high
        assert line.high - line.low < 110 * 2**20


def test_a_tower_nobody_spoke_of_is_in_the_high_end_alone() -> None:
    """llama-server -m FILE loads none."""
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "context": 4096, "weight_dtype": "q4_k_m"}
    unsaid, on = (planned("google/gemma-3-27b", **asked, **more).ledgers[0].entries for more in ({}, {"multimodal": "on"}))
    for name in ("weights: tower", "tower buffer"):
        perhaps, sure = (next(e for e in lines if e.name == name) for lines in (unsaid, on))
        assert perhaps.low == perhaps.bytes == 0
        assert perhaps.high == sure.high > 0


@pytest.mark.parametrize(
    ("device", "desktop"), [("9718MiB", False), ("22.7GiB", False), ("24GiB", True), ("24GB", True), ("8188MiB", True)]
)
def test_what_was_found_free_has_no_desktop_in_it(device: str, desktop: bool) -> None:
    plan = planned("meta-llama/llama-3.2-1b", engine="llama.cpp", device=device, context=4096)
    assert desktop == any(entry.name.startswith("a desktop") for entry in plan.ledgers[0].entries)
