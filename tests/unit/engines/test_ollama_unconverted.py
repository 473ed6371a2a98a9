"""Models that nothing makes a file of: llama.cpp's convert_hf_to_gguf.py registers no class of Whisper, BART or Phi-4-multimodal."""

from __future__ import annotations

import pytest

import kvplan


@pytest.mark.parametrize("engine", ["llama.cpp", "ollama"])
@pytest.mark.parametrize(
    ("model", "close"),
    [
        ("openai/whisper-large-v3", True), ("facebook/bart-large", True), ("microsoft/phi-4-multimodal", True),
        ("qwen/qwen3-0.6b", False), ("qwen/qwen3-8b", False),
    ],
)  # fmt: skip
def test_a_model_without_a_file_is_too_close_to_call(engine: str, model: str, close: bool) -> None:
    plan = kvplan.estimate(model, engine=engine, device="h200")
    assert (plan.certainty == "too close to call") is close
