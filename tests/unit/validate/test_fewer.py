"""Fewer layers of a config: one of every kind stays, and every key that speaks of layers still speaks of those that are left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.validate.fewer import fewer, n_layers
from tests.conftest import shared


@pytest.mark.parametrize(
    ("config", "n", "expected"),
    [
        ({"n_layer": 12, "n_embd": 64}, 2, {"n_layer": 2}),
        (
            {"num_hidden_layers": 6, "layer_types": ["sliding", "full"] * 3, "num_kv_shared_layers": 4, "eos_token_id": [1, 2, 3, 4, 5, 6]},
            1,
            {"num_hidden_layers": 4, "layer_types": ["sliding", "full"] * 2, "num_kv_shared_layers": 2, "eos_token_id": [1, 2, 3, 4, 5, 6]},
        ),
        ({"num_hidden_layers": 9, "cross_attention_layers": [3, 7]}, 2, {"num_hidden_layers": 4, "cross_attention_layers": [2, 3]}),
        (
            {"num_hidden_layers": 8, "hybrid_override_pattern": "M-M*M-M*", "hidden_act": "silusilu"},
            1,
            {"num_hidden_layers": 3, "hybrid_override_pattern": "M-*", "hidden_act": "silusilu"},
        ),
        ({"layers_block_type": ["mamba", "moe"] * 5}, 1, {"layers_block_type": ["mamba", "moe"]}),
        (
            {"num_hidden_layers": 5, "compress_ratios": [0, 4, 128, 4, 128, 0]},
            1,
            {"num_hidden_layers": 3, "compress_ratios": [0, 4, 128, 0]},
        ),
        ({"num_hidden_layers": 60, "first_k_dense_replace": 3}, 2, {"num_hidden_layers": 4, "first_k_dense_replace": 2}),
        ({"num_hidden_layers": 62, "first_k_dense_replace": 62}, 1, {"num_hidden_layers": 1, "first_k_dense_replace": 1}),
        (
            {"num_hidden_layers": 8, "linear_attn_config": {"kda_layers": [1, 2, 3, 5, 6, 7], "full_attn_layers": [4, 8]}},
            1,
            {"num_hidden_layers": 2, "linear_attn_config": {"kda_layers": [1], "full_attn_layers": [2]}},
        ),
        ({"num_layers": 6, "num_decoder_layers": 6}, 1, {"num_layers": 1, "num_decoder_layers": 1}),
    ],
)
def test_each_way_of_saying_which_layers_differ(config, n, expected):
    made = fewer(config, n)
    assert made == config | expected
    assert fewer({"text_config": config, "vision_config": {"depth": 3}}, n) == {"text_config": made, "vision_config": {"depth": 3}}


def test_encoder_and_decoder_shrink_together():
    made = fewer({"encoder": {"num_hidden_layers": 9}, "decoder": {"num_hidden_layers": 9}}, 2)
    assert made == {"encoder": {"num_hidden_layers": 2}, "decoder": {"num_hidden_layers": 2}}


def layers(config: dict) -> set:
    return set(lower(parse_spec(import_config(config, "config.json"), "config.json"), CacheFormats(*["bf16"] * 4)).layers)


def names() -> list[str]:
    return sorted(str(path) for folder in ("hf_configs", "hf_default_configs") for path in shared(f"data/{folder}").glob("*.json"))


def test_every_real_config_keeps_every_kind_of_layer_it_has():
    """The 132 configs beside the checkout: the smaller model has the same kinds of layers as the whole one, tensor by tensor."""
    seen = 0
    for path in names():
        config = json.loads(Path(path).read_text())
        try:
            whole = layers(config)
        except KvplanError:
            continue  # not one that can be read in the first place: the importer's tests say which
        small = fewer(config, 1)
        assert layers(small) == whole, path
        assert n_layers(small) <= max(8, n_layers(config) // 2), path
        seen += 1
    assert seen > 100
