"""Files that leave out what their own code makes of other keys; counts by hand, shapes from the code that each names."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import _of_type, import_config
from kvplan.spec import parse_spec
from tests.conftest import planned

#: The first config.json of tiiuae/falcon-40b-instruct (transformers 4.26), as public repositories hold it.
FALCON = {
    "alibi": False, "apply_residual_connection_post_layernorm": False, "architectures": ["RWForCausalLM"], "bias": False,
    "hidden_size": 8192, "model_type": "RefinedWeb", "n_head": 128, "n_head_kv": 8, "n_layer": 60, "parallel_attn": True,
    "torch_dtype": "bfloat16", "vocab_size": 65024,
}  # fmt: skip
#: configs/mamba2_1B.json of fla-org/flame: no num_heads.
MAMBA2 = {
    "conv_kernel": 4, "expand": 2, "head_dim": 64, "hidden_size": 2048, "model_type": "mamba2", "n_groups": 1, "num_hidden_layers": 48,
    "state_size": 128, "tie_word_embeddings": False, "use_bias": False, "use_conv_bias": True, "vocab_size": 32000,
}  # fmt: skip


def asked(config: dict[str, Any]) -> Any:
    return planned(parse_spec(import_config(config, "left out"), "left out"), engine="ideal", context=100, batch=1).as_dict()


def test_refined_web_of_40b_groups_its_heads() -> None:
    """modelling_RW.py of the 40B: queries beside K and V of 8 heads of 64, two norms side by side, an embedding that is the head."""
    layer = 8192 * (8192 + 2 * 8 * 64) + 8192 * 8192 + 2 * 4 * 8192 * 8192 + 2 * 2 * 8192
    plan = asked(FALCON)
    assert plan["model"]["parameters"] == 60 * layer + 65_024 * 8192 + 2 * 8192
    assert plan["cache"]["total_bytes"] == 60 * 2 * 8 * 64 * 2 * 100


def test_heads_of_mamba_2_fill_its_inner_size() -> None:
    """fla models/mamba2/configuration_mamba2.py: num_heads = expand * hidden_size / head_dim; 64 heads of 64, 128 states."""
    inner, heads = 4096, 64
    mixer = 2048 * (2 * inner + 2 * 128 + heads) + (inner + 2 * 128) * (4 + 1) + 3 * heads + inner + inner * 2048
    plan = asked(MAMBA2)
    assert plan["model"]["parameters"] == 48 * (mixer + 2048) + 2 * 32_000 * 2048 + 2048
    with pytest.raises(KvplanError, match=r"hidden_size \* expand \(4096\) must equal num_heads \* head_dim \(8192\)"):
        asked({**MAMBA2, "num_heads": 128})


def test_apertus_1_5_says_fewer_words_than_it_reads() -> None:
    """transformers 5.24.0 models/apertus1p5: output_vocab_size rows in the head; three layers of the class's own sizes, on the meta device
    2,183,164,678 parameters and 7,372,800 bytes of 150 tokens."""
    config = {
        "architectures": ["Apertus1p5TextForCausalLM"], "model_type": "apertus1p5_text", "vocab_size": 266_752,
        "output_vocab_size": 131_072,
        "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 3, "num_attention_heads": 32, "num_key_value_heads": 32,
        "max_position_embeddings": 65_536, "tie_word_embeddings": False, "dtype": "bfloat16",
    }  # fmt: skip
    layer = 4 * 4096 * 4096 + 2 * 4096 * 14_336 + 2 * 128 + 2 * 4096 + 2
    assert 266_752 * 4096 + 131_072 * 4096 + 3 * layer + 4096 == 2_183_164_678
    assert (asked(config)["model"]["parameters"], asked(config)["cache"]["total_bytes"]) == (2_183_164_678, 7_372_800 * 100 // 150)
    whole = {"architectures": ["Apertus1p5ForConditionalGeneration"], "model_type": "apertus1p5", "text_config": config}
    plan = asked(whole)
    assert plan["cache"]["total_bytes"] == 7_372_800 * 100 // 150
    assert any("tokenizers of images and of sound are not counted" in note for note in plan["model"]["notes"])


def test_hunyuan_v4_with_images() -> None:
    """transformers 5.24.0 models/hy_v4_vl: HYV4's decoder beside HunYuan-VL's tower with a plainer merger; four layers of the class's own
    sizes have 33,251,855,701 parameters on the meta device and keep 768,000 bytes of 150 tokens."""
    text = {"model_type": "hy_v4_vl_text", "num_hidden_layers": 4}
    vision = {
        "model_type": "hy_v4_vl_vision", "hidden_size": 1536, "intermediate_size": 6144, "num_attention_heads": 16, "num_channels": 3,
        "num_hidden_layers": 40, "out_hidden_size": 6144, "patch_size": 16, "spatial_merge_size": 2, "max_image_size": 2048,
    }  # fmt: skip
    config = {"architectures": ["HYV4VLForConditionalGeneration"], "model_type": "hy_v4_vl", "dtype": "bfloat16"}
    plan = asked({**config, "text_config": text, "vision_config": vision})
    assert plan["model"]["parameters"] == 33_251_855_701
    held = planned(
        parse_spec(import_config({**config, "text_config": text, "vision_config": vision}, "hy"), "hy"), engine="transformers", context=150
    )
    assert sum(e.bytes for e in held.ledgers[0].entries if e.name.startswith("cache")) == 768_000


@pytest.mark.parametrize(
    ("config", "counted"),
    [
        (
            {
                "model_type": "sarvam_moe", "n_routed_experts": 128, "n_shared_experts": 1, "moe_intermediate_size": 1024,
                "intermediate_size": 8192, "num_key_value_heads": 4, "head_dim": 64, "num_experts_per_tok": 6,
            },
            5_602_570_624,
        ),
        (
            {
                "model_type": "sarvam_mla", "n_routed_experts": 128, "n_shared_experts": 1, "moe_intermediate_size": 2048,
                "intermediate_size": 16_384, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                "v_head_dim": 128, "num_key_value_heads": 64, "num_experts_per_tok": 8,
            },
            9_126_573_568,
        ),
    ],
    ids=["sarvam_moe", "sarvam_mla"],
)  # fmt: skip
def test_sarvams_files_as_transformers_saves_them(config: dict[str, Any], counted: int) -> None:
    """transformers 5.24.0 models/sarvam_moe, sarvam_mla: experts under GLM's and DeepSeek's names, where the releases' own files say
    num_experts and num_shared_experts; three layers on the meta device (Glm4MoeForCausalLM, DeepseekV3ForCausalLM)."""
    rest = {"hidden_size": 4096, "num_hidden_layers": 3, "num_attention_heads": 64, "first_k_dense_replace": 1, "vocab_size": 262_144}
    found = asked({**config, **rest})["model"]["parameters"]
    released = {"num_experts": config["n_routed_experts"], "num_shared_experts": 1}
    older = {key: value for key, value in config.items() if key not in ("n_routed_experts", "n_shared_experts")}
    assert found == counted
    assert asked({**older, **released, **rest})["model"]["parameters"] == counted


@pytest.mark.parametrize(
    ("model_type", "named"),
    [("llama", "LlamaForCausalLM"), ("mpt", "MptForCausalLM"), ("deepseek_v3", "DeepseekV3ForCausalLM"),
     ("nemotron_h", "NemotronHForCausalLM"), ("stablelm", "StableLmForCausalLM")],
)  # fmt: skip
def test_a_config_without_a_class_is_of_the_one_that_transformers_has_for_its_type(model_type: str, named: str) -> None:
    """transformers 5.24 models/auto/modeling_auto.py MODEL_FOR_CAUSAL_LM_MAPPING_NAMES."""
    assert _of_type(model_type) == named


_SMALL = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 1000,
}
GEMMA3 = {**_SMALL, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 26, "sliding_window": 512}
GPT_OSS = {**_SMALL, "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 8,
           "num_experts_per_tok": 2, "sliding_window": 128}  # fmt: skip
QWEN3_NEXT = {**_SMALL, "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 48}


@pytest.mark.parametrize(
    ("config", "said", "stating"),
    [
        (GEMMA3, 'layer_types = "5 sliding_attention, 1 full_attention, in turn over 26 layers (sliding_window_pattern = 6)"',
         {"sliding_window_pattern": 6}),
        (GPT_OSS, 'layer_types = "1 sliding_attention, 1 full_attention, in turn over 24 layers"',
         {"layer_types": ["sliding_attention", "full_attention"] * 12}),
        (QWEN3_NEXT, 'layer_types = "3 linear_attention, 1 full_attention, in turn over 48 layers (full_attention_interval = 4)"',
         {"full_attention_interval": 4}),
        ({**_SMALL, "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "num_hidden_layers": 8},
         'layer_types = "full_attention in all 8 layers"', {"full_attn_idxs": [2, 5]}),
        ({**GEMMA3, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"},
         'layer_types = "1 sliding_attention, 1 full_attention, in turn over 26 layers"',
         {"layer_types": ["sliding_attention", "full_attention"] * 13}),
    ],
)  # fmt: skip
def test_a_pattern_that_the_class_chooses_is_named(config: dict[str, Any], said: str, stating: dict[str, Any]) -> None:
    """transformers 5.24.0 models/{gemma3,gpt_oss,qwen3_next,lfm2,gemma2}/configuration_*.py, __post_init__: the layer_types that it makes
    of a file without; the keys of a file that says them are no assumption."""
    notes = import_config(config, "left out")["notes"]
    assert any(said.replace('"', '\\"') in note or said in note for note in notes), notes
    assert not any("layer_types" in note for note in import_config({**config, **stating}, "left out").get("notes", []))
