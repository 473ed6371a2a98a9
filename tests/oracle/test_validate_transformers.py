"""Real transformers models of small configs, built with random weights and run: their caches and weights against the plan, byte by byte.

The configs are written here (sizes of no released model); what they must take is what transformers itself then allocates.
"""

from __future__ import annotations

import pytest

pytest.importorskip("transformers", reason="the test-only dependency transformers is not installed (extra: oracle)")

from kvplan.deployment import Deployment
from kvplan.errors import UnsupportedError
from kvplan.importers.hf_config import import_config
from kvplan.spec import parse_spec
from kvplan.validate.fewer import fewer, n_layers
from kvplan.validate.real import validate_model

pytestmark = pytest.mark.slow

_SMALL = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "torch_dtype": "float32",
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def config(architecture: str, model_type: str, **fields) -> dict:
    return {**_SMALL, "architectures": [architecture], "model_type": model_type, **fields}


CONFIGS = {
    "grouped queries": config("LlamaForCausalLM", "llama"),
    "tied": config("Qwen2ForCausalLM", "qwen2", tie_word_embeddings=True),
    "sliding and full": config(
        "Gemma2ForCausalLM", "gemma2", sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2, query_pre_attn_scalar=16
    ),
    "sliding with experts": config(
        "GptOssForCausalLM", "gpt_oss", sliding_window=16, num_local_experts=4, num_experts_per_tok=2,
        layer_types=["sliding_attention", "full_attention"] * 2, attention_bias=True,
    ),
    "latent": config(
        "DeepseekV3ForCausalLM", "deepseek_v3", q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
        num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=1, topk_group=1,
        moe_intermediate_size=32, first_k_dense_replace=1, head_dim=8, routed_scaling_factor=1.0, norm_topk_prob=True,
        rope_theta=10000.0, attention_bias=False, tie_word_embeddings=False, moe_layer_freq=1,
    ),
    "linear and full": config(
        "Qwen3NextForCausalLM", "qwen3_next", linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
        linear_value_head_dim=16, linear_conv_kernel_dim=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=32, decoder_sparse_step=1, norm_topk_prob=True, tie_word_embeddings=False,
        layer_types=["linear_attention"] * 3 + ["full_attention"], partial_rotary_factor=0.25, mlp_only_layers=[],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_cache_and_weights_are_what_the_plan_says(name):
    spec = parse_spec(import_config(CONFIGS[name], "config.json"), "config.json")
    found = validate_model(CONFIGS[name], Deployment(model=spec, context=50, batch=3))
    (case,) = found.cases
    rows = {row.name: row for row in case.rows}
    assert {row.name: (row.predicted_bytes, row.allocated_bytes) for row in case.rows if row.equal is False} == {}
    assert found.status == "equal"
    assert case.allocated_bytes == case.predicted_bytes > 0
    assert rows["weights"].equal
    behind = rows["storage behind the cache after prefill"].allocated_bytes
    assert behind is not None
    assert behind > 0


def test_a_window_keeps_the_whole_prompt_alive_until_the_first_decoded_token():
    """transformers cuts the window as a view: its storage stays that of the prompt."""
    found = validate_model(CONFIGS["sliding and full"], context=50, batch=1)
    rows = {row.name: row.allocated_bytes for row in found.cases[0].rows}
    assert rows["storage behind the cache after prefill"] == 4 * 2 * 46 * 2 * 16 * 4  # 4 layers, K and V, 46 tokens, 2 heads of 16 x f32
    assert rows["storage behind the cache after decoding"] < rows["storage behind the cache after prefill"] + 4 * 4 * 2 * 2 * 16 * 4


def test_fewer_layers_at_full_width():
    small = config("Gemma2ForCausalLM", "gemma2", num_hidden_layers=40, layer_types=["sliding_attention", "full_attention"] * 20)
    found = validate_model({**small, "sliding_window": 16, "query_pre_attn_scalar": 16}, context=40, batch=1, limit_bytes=1 << 20)
    (case,) = found.cases
    assert found.status == "equal"
    assert " of 40 layers, full width" in case.note


def test_a_model_too_large_is_refused_before_it_is_built():
    found = validate_model(CONFIGS["grouped queries"], context=40, batch=1, limit_bytes=1000)
    assert found.status == "refused"
    assert "refused before building" in found.cases[0].note


def test_a_class_that_transformers_lacks():
    with pytest.raises(UnsupportedError):
        validate_model(config("NoSuchForCausalLM", "llama"), context=40)


def test_fewer_keeps_one_of_every_kind():
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    small = fewer({"num_hidden_layers": 12, "layer_types": kinds * 3}, 1)
    assert (small["num_hidden_layers"], small["layer_types"]) == (2, ["linear_attention", "full_attention"])
    assert n_layers(fewer({"text_config": {"num_hidden_layers": 61, "first_k_dense_replace": 3}}, 1)) == 4
