"""`per_layer_config`, by which transformers 5.24 saves layers that differ: what it writes of Gemma 4 26B-A4B, and other classes."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count

#: google/gemma-4-26B-A4B config.json, its text model alone.
TEXT: dict[str, Any] = {
    "model_type": "gemma4_text", "architectures": ["Gemma4ForCausalLM"], "hidden_size": 2816, "intermediate_size": 2112, "head_dim": 256,
    "num_attention_heads": 16, "num_key_value_heads": 8, "num_hidden_layers": 30, "attention_k_eq_v": True, "enable_moe_block": True,
    "moe_intermediate_size": 704, "num_experts": 128, "top_k_experts": 8, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5, "sliding_window": 1024, "max_position_embeddings": 262144,
    "tie_word_embeddings": True, "vocab_size": 262144, "dtype": "bfloat16",
}  # fmt: skip
RELEASED = {**TEXT, "global_head_dim": 512, "num_global_key_value_heads": 2}
#: The same as transformers 5.24.0 writes it (Gemma4TextConfig.from_dict(...).to_json_string()), numbers padded by it.
SAVED = {**TEXT, "per_layer_config": {f"{i:02d}": {"head_dim": 512, "num_key_value_heads": 2} for i in range(5, 30, 6)}}
#: Counted by transformers 5.24.0 on the meta device, of either file.
PARAMETERS = 25_233_141_760


def spec(config: dict[str, Any]) -> ModelSpec:
    return parse_spec(import_config(config, "x"), "x")


@pytest.mark.parametrize("config", [RELEASED, SAVED])
def test_gemma_4_saved_anew_is_the_released_one(config: dict[str, Any]) -> None:
    made = spec(config)
    assert count(lower(made, CacheFormats("bf16", "bf16", "bf16", "bf16"))).total == PARAMETERS
    full = [m for b in made.blocks.values() for m in b.mixers if m.kind != "sliding"]
    assert {(m.kv_heads, m.head_dim) for m in full} == {(2, 512)}  # type: ignore[union-attr]


def test_a_saved_file_without_a_layer_s_sizes_has_the_usual_ones() -> None:
    """transformers 5.24.0 takes 512 for full layers where the file has no per_layer_config at all."""
    made = spec({**TEXT, "per_layer_config": {}})
    full = [m for b in made.blocks.values() for m in b.mixers if m.kind != "sliding"]
    assert {(m.kv_heads, m.head_dim) for m in full} == {(8, 256)}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("stated", "said"),
    [({"3": {"sliding_window": 4}}, "differ in sliding_window"), ({"30": {}}, "30 layers"), ([], "an object"), ({"a": {}}, "30 layers")],
)
def test_what_differs_otherwise_is_refused(stated: Any, said: str) -> None:
    with pytest.raises(KvplanError, match=said):
        spec({**TEXT, "per_layer_config": stated})


def test_other_classes_with_layers_that_differ_are_refused() -> None:
    """Any class of transformers 5.24 may be saved so (configuration_utils.py); the layers of most are counted as one."""
    llama = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
             "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 128}  # fmt: skip
    assert spec({**llama, "per_layer_config": {}}).n_layers == 2
    with pytest.raises(KvplanError, match="differ in intermediate_size"):
        spec({**llama, "per_layer_config": {"1": {"intermediate_size": 64}}})
