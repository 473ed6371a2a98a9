"""quantization_config as older tools and hand edits leave it: what can be read is counted, what can not is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import planned

#: A Llama of two layers: q and o 1024 x 1024, k and v 256 x 1024, three feed-forward matrices of 2816 x 1024.
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 32_000, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu", "rope_theta": 1e4,
}  # fmt: skip
DOWN = 2816 * 1024
LAYER = 2 * 1024 * 1024 + 2 * 256 * 1024 + 3 * DOWN
BESIDE = 2 * (2 * 32_000 * 1024 + 5 * 1024)  # embedding, head and norms, 16 bits
NVFP4 = (DOWN // 2) + (DOWN // 16)  # a byte for every 16 values beside their 4 bits


def matrices(path: Path, block: dict[str, Any]) -> tuple[int, tuple[str, ...]]:
    """Bytes of the layers' matrices, and the notes."""
    (path / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": block}))
    plan = planned(str(path / "config.json"), context=1024)
    return plan.model.weight_bytes - BESIDE, plan.model.notes


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        # vllm model_executor/layers/quantization/modelopt.py reads quant_algo inside `quantization` too
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}, 2 * LAYER * 9 // 16),
        # one matrix in 8 bits with a scale of 4 bytes, one in NVFP4, all others in 16
        (
            {"quant_method": "modelopt", "quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
                "model.layers.0.mlp.down_proj": {"quant_algo": "FP8"}, "model.layers.1.mlp.down_proj": {"quant_algo": "NVFP4"}}}},
            2 * 2 * (LAYER - DOWN) + DOWN + 4 + NVFP4,
        ),
        # AutoAWQ before it wrote quant_method: 4 bits, 16 of a scale and 4 of a zero for 128; no MLX, whose embedding is packed too
        ({"bits": 4, "group_size": 128, "zero_point": True, "version": "GEMM"}, 2 * LAYER // 2 + 2 * LAYER // 128 * 5 // 2),
        # a prefix with its dot (transformers should_convert_module: re.match)
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["model.layers.0."]},
            2 * LAYER + LAYER + 4 * LAYER // (128 * 128),
        ),
    ],
)  # fmt: skip
def test_what_can_be_read_is_counted(tmp_path: Path, block: dict[str, Any], expected: int) -> None:
    assert matrices(tmp_path, block)[0] == expected


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"quant_method": "modelopt"}, "modelopt names no algorithm"),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}}, "pack-quantized and no groups"),
        (
            {"quant_method": "compressed-tensors", "format": "dense", "sparsity_config": {"format": "sparse-24-bitmask"}},
            "stored sparse (sparse-24-bitmask)",
        ),
        ({"quant_method": "bitsandbytes", "bnb_4bit_quant_type": "nf4"}, "neither 4 nor 8 bits"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": "int4"}}, "config_groups is no mapping of groups"),
    ],
)
def test_what_can_not_be_read_is_said(tmp_path: Path, block: dict[str, Any], said: str) -> None:
    size, notes = matrices(tmp_path, block)
    assert size == 2 * 2 * LAYER
    assert any(said in note and "16 bits" in note for note in notes)


def test_a_block_about_the_cache_alone_says_nothing_of_weights(tmp_path: Path) -> None:
    _, notes = matrices(tmp_path, {"quant_method": "modelopt", "quant_algo": None, "kv_cache_quant_algo": "FP8"})
    assert not any("16 bits" in note for note in notes)
