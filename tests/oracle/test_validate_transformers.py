"""Real transformers models of small configs, built with random weights and run: their caches and weights against the plan, byte by byte.

The configs are written here (sizes of no released model); what they must take is what transformers itself then allocates.
"""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

pytest.importorskip("transformers", reason="the test-only dependency transformers is not installed (extra: oracle)")

from kvplan.deployment import Deployment
from kvplan.errors import UnsupportedError
from kvplan.importers.hf_config import import_config
from kvplan.spec import parse_spec
from kvplan.validate.fewer import fewer, n_layers
from kvplan.validate.real import validate_model
from tests.conftest import shared

_SMALL = {
    "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "torch_dtype": "float32",
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_process")


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


NARROW = {
    "vocab_size": 512, "vocab_size_per_layer_input": 512, "intermediate_size": 256, "intermediate_size_mlp": 256,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64, "n_inner": 256, "ffn_dim": 256, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "d_ff": 256,
    "ffn_hidden_size": 256, "num_experts": 8, "n_routed_experts": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "num_experts_per_token": 2, "n_group": 1, "topk_group": 1,
}  # fmt: skip


def narrow(config: dict) -> dict:
    """A config with a small vocabulary and small feed-forward parts: what its caches are made from stays as released."""
    made = {}
    for key, value in config.items():
        if isinstance(value, dict):
            made[key] = narrow(value)
        elif key in NARROW and isinstance(value, int) and value:
            made[key] = min(value, NARROW[key])
        elif key in NARROW and isinstance(value, list):
            made[key] = [min(one, NARROW[key]) for one in value]
        elif key.endswith("_token_id") and value is not None:
            made[key] = 1
        else:
            made[key] = value
    return made


#: released configs, and classes' own: one for each way a cache is kept
REAL = {
    "grouped": "hf_configs/Qwen--Qwen2.5-0.5B-Instruct.json",
    "sliding and full": "hf_configs/openai--gpt-oss-20b.json",
    "latent": "hf_configs/deepseek-ai--DeepSeek-V3.json",
    "latent with an indexer": "hf_configs/deepseek-ai--DeepSeek-V3.2.json",
    "latent and KDA": "hf_default_configs/transformers-default--kimi_linear.json",
    "gated delta net and full": "hf_configs/Qwen--Qwen3-Next-80B-A3B-Instruct.json",
    "Mamba-1 alone": "hf_default_configs/transformers-default--falcon_mamba.json",
    "Mamba-1 and attention": "hf_default_configs/transformers-default--jamba.json",
    "Mamba-2 and attention": "hf_configs/nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json",
    "RG-LRU, kept by the modules": "hf_default_configs/transformers-default--recurrent_gemma.json",
    "RWKV": "hf_default_configs/transformers-default--rwkv.json",
    "encoder and decoder": "hf_configs/google-t5--t5-small.json",
    "encoder of sound": "hf_configs/openai--whisper-large-v3.json",
    "cross-attention to images": "hf_configs/meta-llama--Llama-3.2-11B-Vision-Instruct.json",
    "nothing kept": "hf_configs/google-bert--bert-base-uncased.json",
    "a model type of the checkpoint's own": "hf_configs/moonshotai--Kimi-K2-Instruct.json",
}


@pytest.mark.parametrize("name", REAL)
def test_real_configs_take_what_the_plan_says(name):
    """Full attention width, one layer or a few of every kind."""
    config = narrow(json.loads(shared(f"data/{REAL[name]}").read_text()))
    if name == "encoder of sound":
        config["dtype"] = "float32"  # its convolutions take minutes in 16 bits on a CPU
    (case,) = validate_model(fewer(config, 1), context=30, batch=2).cases
    assert {row.name: (row.predicted_bytes, row.allocated_bytes) for row in case.rows if row.equal is False} == {}
    assert (case.status, case.note) == ("equal", "")


@pytest.mark.parametrize(
    ("name", "apart"),
    [
        ("hf_configs/google--gemma-4-E2B-it.json", "weights"),  # the towers' clipping bounds, two bytes each, are not in the plan
        (
            "hf_configs/meta-llama--Llama-4-Scout-17B-16E-Instruct.json",
            None,
        ),  # no vision_config: the class's own is counted
    ],
)
def test_real_configs_whose_caches_alone_are_equal(name, apart):
    if "Llama-4" in name and version("transformers") == "5.24.0":
        pytest.skip("Llama4ForConditionalGeneration.forward of 5.24.0 reads an output that its text model has not")
    config = narrow(json.loads(shared(f"data/{name}").read_text()))
    (case,) = validate_model(fewer(config, 1), context=30, batch=2).cases
    assert [row.name for row in case.rows if row.equal is False] == ([apart] if apart else [])
    assert case.allocated_bytes == case.predicted_bytes > 0


def test_a_model_that_does_not_run_says_why():
    with pytest.raises(UnsupportedError, match=r"transformers [0-9.]+ does not run this LlamaForCausalLM: KeyError: 'no such activation'"):
        validate_model(config("LlamaForCausalLM", "llama", hidden_act="no such activation"), context=40)


def test_fewer_keeps_one_of_every_kind():
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    small = fewer({"num_hidden_layers": 12, "layer_types": kinds * 3}, 1)
    assert (small["num_hidden_layers"], small["layer_types"]) == (2, ["linear_attention", "full_attention"])
    assert n_layers(fewer({"text_config": {"num_hidden_layers": 61, "first_k_dense_replace": 3}}, 1)) == 2
