"""Aria where the file leaves its table of queries out: 256 of them, as configuration_aria.py of transformers 5.24 fills it in."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf_config import import_config
from kvplan.spec import parse_spec

TEXT = {"model_type": "aria_text", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 1,
        "num_attention_heads": 32, "num_key_value_heads": 32, "moe_num_experts": 8, "moe_num_shared_experts": 2}  # fmt: skip
VISION = {"model_type": "idefics3_vision", "hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 1,
          "num_attention_heads": 16, "num_channels": 3, "image_size": 224, "patch_size": 32}  # fmt: skip
ARIA: dict[str, Any] = {
    "architectures": ["AriaForConditionalGeneration"],
    "model_type": "aria",
    "text_config": TEXT,
    "vision_config": VISION,
}


def towers(config: dict[str, Any]) -> int:
    return sum(tower["parameters"] for tower in parse_spec(import_config(config, "x"), "x").plain()["towers"])


def test_queries_left_out_are_those_of_the_class() -> None:
    assert towers(ARIA) == towers({**ARIA, "projector_patch_to_query_dict": {"1225": 128, "4900": 256}})
    assert towers(ARIA) - towers({**ARIA, "projector_patch_to_query_dict": {"1225": 128}}) == 128 * 1152
