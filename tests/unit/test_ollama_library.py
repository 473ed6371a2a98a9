"""A loose name put to Ollama is the file that its library has. Types and sizes: MarkWard0110/ollama-models, ollama_models.json."""

from __future__ import annotations

import re

import pytest

import kvplan
from kvplan.cli import run
from kvplan.errors import KvplanError

TAGS = [
    ("qwen3 8b", "qwen3:8b", "q4_k_m", 5.2), ("qwen2.5 coder 32b", "qwen2.5-coder:32b", "q4_k_m", 20),
    ("llama3 70b", "llama3:70b", "q4_0", 40), ("deepseek r1", "deepseek-r1:latest", "q4_k_m", 5.2),
    ("deepseek r1 70b", "deepseek-r1:70b", "q4_k_m", 43), ("deepseek r1 32b", "deepseek-r1:32b", "q4_k_m", 20),
    ("deepseek r1 8b", "deepseek-r1:8b", "q4_k_m", 5.2), ("qwen3 30b", "qwen3:30b", "q4_k_m", 19),
    ("gemma3 27b", "gemma3:27b", "q4_k_m", 17), ("gemma3 27b q4", "gemma3:27b", "q4_k_m", 17), ("qwen3", "qwen3:latest", "q4_k_m", 5.2),
    ("Llama-3.1-8B-Instruct", "llama3.1:8b", "q4_k_m", 4.9), ("qwen3 8b q8", "qwen3:8b-q8_0", "q8_0", 8.9),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "tag", "stored", "gb"), TAGS)
def test_a_loose_name_is_the_tag_of_the_library(typed: str, tag: str, stored: str, gb: float) -> None:
    plan = kvplan.estimate(typed, engine="ollama", context="4k")
    assert (plan.model.id, plan.asked("weight_dtype")) == (tag.lower(), stored)
    assert plan.model.weight_bytes == pytest.approx(gb * 1e9, rel=0.05)
    said = any(note.startswith(f"{typed} is taken as {tag}, a file in {stored} of Ollama's library") for note in plan.model.notes)
    assert said == (f"{typed}:latest" != tag)


def test_other_engines_take_the_release() -> None:
    for engine in ("vllm", "llama.cpp", "ideal"):
        assert kvplan.estimate("qwen3 8b", engine=engine, context="4k").model.id == "qwen/qwen3-8b"


def test_a_hub_id_is_as_released_and_the_first_lines_say_what_ollama_has(capsys: pytest.CaptureFixture[str]) -> None:
    run(["estimate", "Qwen/Qwen3-8B", "--engine", "ollama", "--context", "4k"])
    said = " ".join(capsys.readouterr().out.split())
    assert "15.3 GiB of weights in bf16, as released; `ollama run qwen3:8b` is q4_k_m" in said
    for others in (["--engine", "llama.cpp"], ["--engine", "ollama", "--weight-dtype", "q8_0"]):
        run(["estimate", "Qwen/Qwen3-8B", "--context", "4k", *others])
        assert "ollama run" not in capsys.readouterr().out


def test_a_size_that_a_distill_has_names_that() -> None:
    """huggingface.co/deepseek-ai: R1 in 70B is DeepSeek-R1-Distill-Llama-70B, in 32B the one of Qwen."""
    for size, release in (("70b", "DeepSeek-R1-Distill-Llama-70B"), ("32b", "DeepSeek-R1-Distill-Qwen-32B")):
        with pytest.raises(KvplanError, match=re.escape(f"did you mean deepseek-ai/{release}?")):
            kvplan.model(f"deepseek r1 {size}")


@pytest.mark.parametrize(
    ("engine", "bits", "told"),
    [("llama.cpp", "q4", "q4_k_m"), ("llama.cpp", "q8", "q8_0"), ("ideal", "q5", "q5_k_m"), ("llama.cpp", "q6", "q6_k"),
     ("llama.cpp", "q3", "q3_k_m"), ("vllm", "q4", "int4"), ("sglang", "q8", "int8")],
)  # fmt: skip
def test_a_suggested_format_parses(engine: str, bits: str, told: str) -> None:
    with pytest.raises(KvplanError, match=f"--weight-dtype {told}$"):
        kvplan.estimate(f"gemma3 27b {bits}", engine=engine)
    assert kvplan.estimate("gemma3-27b", engine=engine, weight_dtype=told, context="4k", device="h100").starts
    with pytest.raises(KvplanError, match="did you mean q4_k_m or"):
        kvplan.estimate("gemma3-27b", weight_dtype="q4")
