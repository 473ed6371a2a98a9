"""Lara 4 Mini from a file with its sizes alone: windows, order of layers and all else as transformers 5.24 has them by default."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count

SIZES: dict[str, Any] = {
    "architectures": ["LaraMiniForCausalLM"], "model_type": "lara_mini", "vocab_size": 151936, "hidden_size": 1024,
    "num_hidden_layers": 34, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 8, "linear_num_value_heads": 16,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts_per_tok": 4, "num_experts": 128,
}  # fmt: skip


def test_parameters_and_layers_are_those_of_the_class() -> None:
    """7,281,684,672: transformers 5.24.0 on the meta device; 14 linear, 13 sliding, 7 full layers, as its configuration lists them."""
    lowered = lower(parse_spec(import_config(SIZES, "x"), "x"), CacheFormats("bf16", "bf16", "bf16", "bf16"))
    assert count(lowered).total == 7_281_684_672
    kept = [cache for layer in lowered.layers for cache in layer.caches]
    assert Counter(cache.kind for cache in kept) == {"gated_delta_net": 14, "sliding": 13, "gqa": 7}
    assert {tensor.keep.tokens for cache in kept if cache.kind == "sliding" for tensor in cache.tensors} == {512}


def test_another_layer_is_refused() -> None:
    with pytest.raises(KvplanError, match="is not a layer"):
        import_config({**SIZES, "layer_types": ["chunked_attention"] * 34}, "x")
