"""A quantisation that is not modelled: its bytes have a bound, and nobody says that the engine loads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import SpecError
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
    assert (plan.starts, plan.certainty) == (False, "likely")
    assert (plan.outcome.reason or "").startswith("Unknown quantization method: zzz")
    doubted = planned(str(config), engine="tensorrt-llm", device="h100", context="4k")
    assert (doubted.fits, doubted.certainty) == (True, "too close to call")
    assert any("is not modelled is not known" in note for note in doubted.model.notes)
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


@pytest.mark.parametrize(
    ("engine", "weights", "method"),
    [
        ("vllm", "fp8", "awq"), ("vllm", "nvfp4", "gptq"), ("vllm", "int4", "mxfp4"), ("vllm", "w8a8", "modelopt"),
        ("sglang", "fp8", "w8a8_int8"), ("sglang", "nvfp4", "awq"), ("sglang", "bf16", "w8a8_int8"),
    ],
)  # fmt: skip
def test_weights_and_a_method_that_loads_no_such_are_two_checkpoints(engine: str, weights: str, method: str) -> None:
    """Each method's own get_name and layers (layers/quantization/*.py): one family of formats, or none that is plain."""
    with pytest.raises(SpecError, match="keep one"):
        planned("qwen/qwen3-8b", engine=engine, device="h100", weight_dtype=weights, engine_option={"quantization": method})


@pytest.mark.parametrize(("weights", "method"), [("fp8", "modelopt_fp4"), ("int4", "auto-round"), ("nvfp4", "modelopt")])
def test_families_that_one_method_reads_are_one_checkpoint(weights: str, method: str) -> None:
    """ModelOpt's configs say FP8 beside NVFP4, AutoRound packs as AWQ and GPTQ do."""
    plan = planned("qwen/qwen3-8b", engine="sglang", device="h100", weight_dtype=weights, engine_option={"quantization": method})
    assert plan.asked("weight_dtype") == weights


@pytest.mark.parametrize(("model", "starts"), [("intel/qwen3-8b-int4-autoround", True), ("qwen/qwen3-30b-a3b-gptq-int4", False)])
def test_autoround_names_itself_where_it_packs_as_gptq(model: str, *, starts: bool) -> None:
    """Its uploads' quant_method is auto-round, with packing_format auto_round:auto_gptq; a GPTQ upload's is gptq (_verify_quantization)."""
    assert planned(model, engine="vllm", device="h200", engine_option={"quantization": "auto-round"}).starts is starts
