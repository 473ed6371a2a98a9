"""Nemotron Puzzle, whose layers say their own sizes; ChatGLM-6B, the first of its family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import SpecError
from tests.conftest import planned

#: As nvidia/NVIDIA-Nemotron-Labs-3-Puzzle-75B-A9B says it, four layers of 88.
PUZZLE: dict[str, Any] = {
    "model_type": "nemotron_h_puzzle", "architectures": ["NemotronHPuzzleForCausalLM"], "hidden_size": 4096, "num_hidden_layers": None,
    "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 21504, "n_routed_experts": 512,
    "n_shared_experts": 1, "moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376, "vocab_size": 131072,
    "layers_block_type": ["mamba", "moe", "attention", "moe"], "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 96,
    "n_groups": 8, "conv_kernel": 4, "max_position_embeddings": 262144, "torch_dtype": "bfloat16", "use_conv_bias": True,
    "block_configs": [
        {"block_type": "mamba"}, {"block_type": "moe", "moe_intermediate_size": 1280, "num_experts_per_tok": 4},
        {"block_type": "attention"}, {"block_type": "moe", "moe_intermediate_size": 2688, "num_experts_per_tok": 22},
    ],
}  # fmt: skip
CHATGLM = {
    "architectures": ["ChatGLMModel"], "hidden_size": 4096, "inner_hidden_size": 16384, "max_sequence_length": 2048,
    "model_type": "chatglm", "num_attention_heads": 32, "num_layers": 28, "position_encoding_2d": True, "torch_dtype": "float16",
    "vocab_size": 130528,
}  # fmt: skip


def asked(config: dict[str, Any], folder: Path, engine: str = "ideal") -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return planned(str(path), engine=engine, context=2048)


def test_each_layer_of_experts_has_its_own_width(tmp_path: Path) -> None:
    """Ungated experts over the latent: two matrices of latent x width each."""
    whole, alike = asked(PUZZLE, tmp_path), dict(PUZZLE)
    alike["block_configs"] = [
        {**own, "moe_intermediate_size": 1280} if own["block_type"] == "moe" else own for own in PUZZLE["block_configs"]
    ]
    assert whole.model.parameters - asked(alike, tmp_path).model.parameters == 512 * 2 * 1024 * (2688 - 1280)
    state = 128 * 64 * 96 * 4 + (128 * 64 + 2 * 8 * 96) * 3 * 2
    assert whole.cache.bytes_per_sequence == 2048 * 2 * 2 * 128 * 2 + state


@pytest.mark.parametrize(
    ("block", "why"),
    [({"block_type": "mamba", "window": 5}, "window of a single layer"), ({"block_type": "moe"}, "contradicts"), ({}, "block_type")],
)
def test_what_a_layer_says_and_is_not_read_is_refused(block: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=why):
        asked({**PUZZLE, "block_configs": [block, *PUZZLE["block_configs"][1:]]}, tmp_path)


def test_chatglm_6b_is_read_as_its_own_code_builds_it(tmp_path: Path) -> None:
    """6,173,286,400 parameters (PEFT's logs of it: 6,176,956,416 with 3,670,016 of an adapter); K and V of 32 heads of 128."""
    plan = asked(CHATGLM, tmp_path)
    assert plan.model.parameters == 6_176_956_416 - 3_670_016
    assert plan.cache.bytes_per_token == 28 * 2 * 32 * 128 * 2
