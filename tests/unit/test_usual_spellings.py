"""Other spellings of an engine, lists in one text, and numbers without a unit: as the command line and the library take them."""

from __future__ import annotations

import pytest

import kvplan
from kvplan.cli import run
from kvplan.errors import KvplanError

LLAMA = "meta-llama/llama-3.1-8b"


@pytest.mark.parametrize(
    ("typed", "engine"),
    [("mlx", "mlx-lm"), ("llamacpp", "llama.cpp"), ("llama-cpp", "llama.cpp"), ("trtllm", "tensorrt-llm"), ("trt-llm", "tensorrt-llm"),
     ("TensorRT", "tensorrt-llm"), ("hf", "transformers"), ("exl3", "exllamav3"), ("vllm", "vllm")],
)  # fmt: skip
def test_an_engines_usual_spellings(typed: str, engine: str) -> None:
    assert kvplan.deployment(LLAMA, engine=typed).engine == engine


def test_models_with_commas_between_them_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "llama-3.1-8b,qwen3-8b", "--engine", "ideal", "--context", "8k"]) == 0
    assert "qwen/qwen3-8b" in capsys.readouterr().out.lower()


def test_a_text_of_a_sweep_is_a_list() -> None:
    asked = kvplan.sweep(LLAMA, {"context": "8k, 32k"}, engine="ideal")
    assert [columns["context"].tolist() for _, columns in kvplan.sweep_ranges(asked)] == [[8192, 32768]]


def test_a_number_of_bytes_that_lacks_its_unit_is_refused() -> None:
    with pytest.raises(KvplanError, match=r"40 what\? Write 40GiB"):
        kvplan.deployment(LLAMA, kv_memory="40")
    assert kvplan.deployment(LLAMA, kv_memory=40 << 30).kv_memory == 40 << 30  # a number of Python's is of bytes
