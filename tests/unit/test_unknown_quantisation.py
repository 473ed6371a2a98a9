"""A quantisation that is not modelled: its bytes have a bound, and nobody says that the engine loads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import planned

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


def test_no_start_of_it_is_certain(tmp_path: Path) -> None:
    """vLLM's config/model.py _verify_quantization refuses methods that it has no class for."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA | {"quantization_config": {"quant_method": "zzz"}}))
    plan = planned(str(config), engine="vllm", device="h100", context="4k")
    assert (plan.fits, plan.certainty) == (True, "too close to call")
    assert any("is not modelled is not known" in note for note in plan.model.notes)
    assert planned(str(config), engine="ideal", device="h100", context="4k").certainty == "certain"
    config.write_text(json.dumps(LLAMA))
    assert planned(str(config), engine="vllm", device="h100", context="4k").certainty == "certain"


@pytest.mark.parametrize(
    ("engine", "model", "device", "such"),
    [
        ("llama.cpp", "Qwen/Qwen3-8B-AWQ", "l4", "q4_k_m"),  # src/llama-model-loader.cpp reads GGUF alone
        ("ollama", "Qwen/Qwen3-8B-FP8", "l4", "q4_k_m"),
        ("tensorrt-llm", "llama3.1:8b-instruct-q4_K_M", "h100", "int4_g128"),  # Ollama's tag, a GGUF file
        ("exllamav3", "openai/gpt-oss-20b", "h100", "exl3_4bpw"),
    ],
)
def test_no_start_with_weights_that_the_engine_does_not_load_is_called_one(engine: str, model: str, device: str, such: str) -> None:
    plan = planned(model, engine=engine, device=device, context="4k")
    assert (plan.fits, plan.certainty) == (True, "too close to call")
    assert any(note.endswith(f"name the format of your files with weight_dtype, such as {such}") for note in plan.model.notes)
    named = planned(model, engine=engine, device=device, context="4k", weight_dtype=such)
    assert named.certainty in ("certain", "likely")
