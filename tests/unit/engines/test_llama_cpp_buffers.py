"""llama.cpp's buffers of towers and of logits, beside what builds printed."""

from __future__ import annotations

import pytest

from kvplan import api


def test_no_tower_without_images() -> None:
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "context": 4096}
    on, off = (api.estimate("qwen/qwen2.5-vl-7b", multimodal=say, **asked) for say in ("on", "off"))
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
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "weight_dtype": "q4_k_m", "context": 4096, "multimodal": "on", "advise": False}
    plan = api.estimate(model, engine_option={"flash_attn": flash}, **asked)
    line = next(e for e in plan.ledgers[0].entries if e.name == "tower buffer")
    assert line.low <= printed <= line.high
    assert abs(line.bytes - printed) < printed // 10


@pytest.mark.parametrize(("version", "mib"), [("b3500", 258.5), ("b9159", 258.5), ("b11312", None)])
def test_logits_of_every_token_were_reserved_before_23861(version: str, mib: float | None) -> None:
    """ollama/ollama#6257 logs 258.50 MiB of Llama 3 8B: 512 x (128,256 + 4,096) in f32. Since then one row of logits a sequence."""
    plan = api.estimate(
        "meta-llama/llama-3.1-8b", engine="llama.cpp", engine_version=version, device="rtx-4090", context=8192, weight_dtype="q4_k_m",
        advise=False, engine_option={"flash_attn": "on"},
    )  # fmt: skip
    buffer = next(entry for entry in plan.ledgers[0].entries if entry.name == "compute buffer")
    assert (buffer.bytes == mib * 2**20) if mib else buffer.bytes < 200 * 2**20
