"""What releases have no class for: models (vLLM models/registry.py), methods of quantisation (layers/quantization/__init__.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kvplan

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 512, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
BNB = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def _plan(tmp_path: Path, quantization: dict[str, object], engine: str, version: str | None) -> kvplan.Plan:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"quantization_config": quantization}))
    return kvplan.estimate(tmp_path, device="h100-80gb", engine=engine, engine_version=version, max_model_len=4096)


@pytest.mark.parametrize(
    ("method", "last", "first_without"),
    [
        ({"quant_method": "eetq"}, None, "0.14"),
        ({"quant_method": "quanto", "weights": "int8"}, None, "0.33"),
        (BNB, "0.27.1", "0.28"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "0.14.1", "0.15"),
        ({"quant_method": "aqlm", "nbits_per_codebook": 16, "num_codebooks": 1, "in_group_size": 8}, "0.10.1", "0.10.2"),
    ],
)  # fmt: skip
def test_a_method_without_a_class_is_no_start(tmp_path: Path, method: dict[str, object], last: str | None, first_without: str) -> None:
    plan = _plan(tmp_path, method, "vllm", first_without)
    assert (plan.starts, plan.fits) == (False, False)
    assert f"Unknown quantization method: {method['quant_method']}" in plan.verdict
    if last:
        assert "Unknown quantization method" not in _plan(tmp_path, method, "vllm", last).verdict


@pytest.mark.parametrize(
    "method",
    [
        {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True},  # taken over by inc
        {"quant_method": "compressed_tensors", "format": "float-quantized", "config_groups": {}},  # spelt so by some tools
        {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}},  # ModelOpt's of old name none
    ],
)  # fmt: skip
def test_a_method_by_another_name_is_loaded(tmp_path: Path, method: dict[str, object]) -> None:
    assert "Unknown quantization method" not in _plan(tmp_path, method, "vllm", None).verdict


@pytest.mark.parametrize("method", ["hqq", "eetq", "quanto", "torchao", "inc"])
def test_sglang_loads_the_methods_that_it_lists(tmp_path: Path, method: str) -> None:
    """layers/quantization/__init__.py of 0.4.9, 0.5.4, 0.5.12 and 0.5.23: none of these; bitsandbytes in all."""
    assert "Unknown quantization method" in _plan(tmp_path, {"quant_method": method, "bits": 4, "group_size": 128}, "sglang", None).verdict
    assert "Unknown quantization method" not in _plan(tmp_path, BNB, "sglang", None).verdict


def test_gguf_needs_a_plugin_from_0_24_on() -> None:
    """QuantizationMethods has gguf to 0.23; vllm-gguf-plugin registers it (its entry point in vllm.general_plugins)."""
    ask = {"device": "h100-80gb", "weight_dtype": "q4_k_m", "context": "8k"}
    assert kvplan.estimate("meta-llama/llama-3.1-8b", engine_version="0.23.0", **ask).certainty == "likely"
    newer = kvplan.estimate("meta-llama/llama-3.1-8b", engine_version="0.24.0", **ask)
    assert newer.certainty == "too close to call"
    assert any("vllm-gguf-plugin" in note for note in newer.model.notes)


def test_a_method_of_older_releases_is_too_close_to_call_where_none_is_said(tmp_path: Path) -> None:
    plan = _plan(tmp_path, BNB, "vllm", None)
    assert (plan.starts, plan.certainty) == (True, "too close to call")


@pytest.mark.parametrize(
    ("model", "starts", "certainty"),
    [
        ("eleutherai/gpt-neo-1.3b", False, "likely"),  # its attention in transformers 5.23 takes no other
        ("mosaicml/mpt-7b", False, "likely"),  # in the registry to 0.28
        ("google-t5/t5-small", True, "too close to call"),
        ("facebook/bart-large", True, "too close to call"),  # by a plugin of its own alone
        ("openai/whisper-large-v3", True, "certain"),
    ],
)  # fmt: skip
def test_a_class_that_no_registry_lists(model: str, starts: bool, certainty: str) -> None:
    plan = kvplan.estimate(model, device="h200", engine_version="0.33")
    assert (plan.starts, plan.certainty) == (starts, certainty)
