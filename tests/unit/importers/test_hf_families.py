"""Families whose class transformers does not have, or whose released configs say more than its defaults: counts by hand arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import SpecError, UnsupportedError
from kvplan.importers.hf_config import import_config
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import planned

H, V = 1024, 1000
BASE: dict[str, Any] = {
    "hidden_size": H, "intermediate_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
    "vocab_size": V, "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
ENDS = 2 * V * H + H  # embedding, head, final norm
GATED = 3 * H * 4096


def read(config: dict[str, Any]) -> ModelSpec:
    return parse_spec(import_config(config, "c.json"), "c.json")


def spec(architecture: str, **more: Any) -> ModelSpec:
    return read({**BASE, "architectures": [architecture], **more})


def total(made: ModelSpec) -> int:
    return count(lower(made, CacheFormats("bf16", "bf16", "bf16", "bf16"))).total


def kept(made: ModelSpec, tokens: int = 1000) -> int:
    return planned(made, context=tokens, dtype="bf16").cache.bytes_per_sequence


#: moonshotai/Kimi-K3 config.json, what shapes depend on.
_K3_FULL = [*range(4, 93, 4), 93]
K3: dict[str, Any] = {
    "architectures": ["KimiK3ForConditionalGeneration"], "dtype": "bfloat16", "model_type": "kimi_k3", "tie_word_embeddings": False,
    "text_config": {
        "architectures": ["KimiLinearForCausalLM"], "attn_res_block_size": 12, "first_k_dense_replace": 1, "hidden_size": 7168,
        "intermediate_size": 33792, "kv_lora_rank": 512, "latent_moe_use_norm": True, "mla_use_output_gate": True,
        "linear_attn_config": {"full_attn_layers": _K3_FULL, "kda_layers": [i for i in range(1, 94) if i not in _K3_FULL], "head_dim": 128,
                               "num_heads": 96, "short_conv_kernel_size": 4, "use_full_rank_gate": True},
        "max_position_embeddings": 1048576, "model_type": "kimi_linear", "moe_intermediate_size": 3072, "moe_layer_freq": 1,
        "num_attention_heads": 96, "num_experts": 896, "num_experts_per_token": 16, "num_hidden_layers": 93, "num_key_value_heads": 96,
        "num_shared_experts": 2, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "routed_expert_hidden_size": 3584, "vocab_size": 163840,
        "quantization_config": {
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
            "config_groups": {"group_0": {"format": "mxfp4-pack-quantized", "targets": ["Linear"], "weights": {
                "group_size": 32, "num_bits": 4, "scale_dtype": "torch.uint8", "strategy": "group", "symmetric": True, "type": "float"}}},
            "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", "re:.*lm_head.*",
                       "re:.*vision_tower.*", "re:.*mm_projector.*"]},
    },
    "vision_config": {
        "attn_bias": False, "init_pos_emb_height": 64, "init_pos_emb_width": 64, "linear_bias": False, "merge_kernel_size": [2, 2],
        "mm_projector_type": "patchmergerv2", "norm_type": "rmsnorm", "patch_embed_proj_bias": False, "patch_size": 14,
        "qkv_hidden_size": 1536, "vt_hidden_size": 1024, "vt_intermediate_size": 4096, "vt_num_attention_heads": 12,
        "vt_num_hidden_layers": 27},
}  # fmt: skip


def test_kimi_k3_is_the_sum_of_the_tensors_in_its_files() -> None:
    """Names and shapes of the 497,220 tensors in the 96 released files, which are 1453.66 GiB; packed experts counted unpacked."""
    h, w = 7168, 12288
    delta = 96 + 96 * h + w + 128 * h + 128 * w + 3 * 4 * w + 3 * w * h + 128
    latent = 512 + 576 * h + 24576 * 512 + 1536 + 1536 * h + 18432 * 1536
    experts = 896 * 3 * 3072 * 3584 + 896 * h + 2 * 3584 * h + 3584 + 3 * 6144 * h
    every = 2 * w * h + 6 * h  # output and gate projections; four norms and two residual vectors
    text = 2 * 163840 * h + 69 * delta + 24 * latent + 92 * experts + 3 * 33792 * h + 93 * every + 3 * h
    tower = 27 * (2 * 4096 * 1024 + 2 * 1024 + 1536 * 1024 + 4608 * 1024) + 1024 + 64 * 64 * 1024 + 1024 * 3 * 14 * 14
    made = read(K3)
    assert total(made) == text + tower + 4096 * 4096 + 4096 * h + h
    assert planned(made, context=1024).model.weight_bytes / 2**30 == pytest.approx(1453.66, abs=0.03)


def test_kimi_k3_keeps_24_latents_and_69_states() -> None:
    state = 96 * 128 * 128 * 4 + 3 * 96 * 128 * 3 * 2  # f32 state, three columns of q, k and v in bf16
    assert kept(read(K3)) == 24 * 576 * 2 * 1000 + 69 * state


def test_step3_has_one_wide_kv_head_and_factorised_queries() -> None:
    made = spec("Step3TextForCausalLM", num_attention_groups=1, head_dim=256, share_q_dim=128, moe_num_experts=4, moe_top_k=2,
                moe_intermediate_size=64, share_expert_dim=32, moe_layers_enum="2,3")  # fmt: skip
    attention = 128 * H + 128 + 8 * 256 * 128 + 2 * 256 * H + 8 * 256 * H
    experts = 4 * 3 * H * 64 + 4 * H + 3 * H * 32
    assert total(made) == ENDS + 4 * (attention + 2 * H) + 2 * GATED + 2 * experts
    assert kept(made) == 4 * 2 * 256 * 2 * 1000


STEP3P5: dict[str, Any] = {
    "num_attention_groups": 2, "head_dim": 128, "sliding_window": 64, "moe_num_experts": 4, "moe_top_k": 2, "moe_intermediate_size": 64,
    "share_expert_dim": 32, "moe_layers_enum": "1,2,3", "num_nextn_predict_layers": 1, "use_head_wise_attn_gate": True,
    "layer_types": ["full_attention", *["sliding_attention"] * 4],
}  # fmt: skip


def test_step3p5_slides_with_heads_of_its_own() -> None:
    other = {"attention_type": "sliding_attention", "num_attention_heads": 12, "num_attention_groups": 2, "head_dim": 128}
    made = spec("Step3p5ForCausalLM", **STEP3P5, attention_other_setting=other)
    full, slides = ((2 * n * 128 + 2 * 2 * 128 + n) * H + 2 * 128 for n in (8, 12))
    experts = 4 * 3 * H * 64 + 4 * H + 4 + 3 * H * 32  # the score correction is a buffer of 4
    assert total(made) == ENDS + full + 3 * slides + 4 * 2 * H + GATED + 3 * (experts - 4)
    assert kept(made) == 2 * 2 * 128 * 2 * (1000 + 3 * 64)
    with pytest.raises(SpecError, match="attention_other_setting: missing"):
        spec("Step3p5ForCausalLM", **STEP3P5)


def test_ling_2_5_mixes_lightning_and_latent_attention() -> None:
    """bailing_moe_linear.py of vLLM 0.32: a rest shorter than a group is full, so layers 3 and 4 of four with groups of three are."""
    made = spec("BailingMoeV2_5ForCausalLM", layer_group_size=3, head_dim=128, use_qk_norm=True, num_experts=4, num_experts_per_tok=2,
                moe_intermediate_size=64, num_shared_experts=1, first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=None,
                qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, attention_bias=False)  # fmt: skip
    lightning = 5 * 1024 * H + 1024 + 2 * 128
    latent = 8 * 192 * H + 576 * H + 512 + 8 * 256 * 512 + 8 * 128 * H
    experts = 4 * 3 * H * 64 + 4 * H + 3 * H * 64
    assert total(made) == ENDS + 2 * lightning + 2 * latent + 4 * 2 * H + GATED + 3 * experts
    assert kept(made) == 2 * 576 * 2 * 1000 + 2 * 8 * 128 * 128 * 4


def test_telechat_2_has_biases_on_what_leaves_a_half_layer() -> None:
    config = {"architectures": ["TeleChat2ForCausalLM"], "model_type": "telechat", "hidden_size": H, "ffn_hidden_size": 4096,
              "n_layer": 4, "n_head": 8, "num_key_value_heads": 2, "vocab_size": V, "seq_length": 8192}  # fmt: skip
    attention = 2 * H * H + 2 * 256 * H + H
    assert total(read(config)) == ENDS + 4 * (attention + GATED + H + 2 * H)


@pytest.mark.parametrize("off", [{"use_mla": False}, {"qk_nope_head_dim": 0, "qk_rope_head_dim": 0}])
def test_deepseek_v2_without_latent_attention(off: dict[str, Any]) -> None:
    """DeepSeek-OCR's language model."""
    made = spec("DeepseekV2ForCausalLM", **off, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=64,
                first_k_dense_replace=1, moe_layer_freq=1, kv_lora_rank=None)  # fmt: skip
    experts = 4 * 3 * H * 64 + 4 * H + 3 * H * 128
    assert total(made) == ENDS + 4 * (2 * H * H + 2 * 256 * H + 2 * H) + GATED + 3 * experts
    assert kept(made) == 4 * 2 * 2 * 128 * 2 * 1000


@pytest.mark.parametrize(("version", "biases", "qk_norms"), [(2.5, 0, 0), ("2.6", 1024 + 512, 0), (4.5, 0, 2 * 128)])
def test_minicpmv_takes_the_text_model_of_its_version(version: object, biases: int, qk_norms: int) -> None:
    made = spec("MiniCPMV", version=version, query_num=64, vision_config={"model_type": "siglip"}, head_dim=128)
    assert total(made) == ENDS + 4 * (2 * H * H + 2 * 256 * H + biases + qk_norms + GATED + 2 * H)
    assert made.uncounted
    with pytest.raises(UnsupportedError, match="version"):
        spec("MiniCPMV", version="9.9")


def test_encoders_by_what_their_class_has_on_top() -> None:
    """BAAI/bge-m3 is an XLMRobertaModel, its reranker a classifier with one label; neither has the masked-language head."""
    shape = {"max_position_embeddings": 514, "type_vocab_size": 1, "num_key_value_heads": None}
    layer = 4 * H * H + 4 * H + 2 * H * 4096 + 4096 + H + 4 * H
    front = V * H + 514 * H + H + 2 * H
    dense = H * H + H
    bare = spec("XLMRobertaModel", **shape)
    assert total(bare) == front + 4 * layer + dense
    ranks = spec("XLMRobertaForSequenceClassification", **shape, id2label={"0": "LABEL_0"})
    assert total(ranks) == front + 4 * layer + dense + H + 1
    assert kept(bare) == 0


VISION = {"depth": 2, "hidden_size": 64, "in_chans": 3, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": H, "patch_size": 14,
          "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip


def test_a_text_part_that_repeats_the_wrappers_class_is_a_text_model() -> None:
    """allenai/olmOCR-2-7B-1025: text_config.architectures is the wrapper's own name; the flat settings are there once more."""
    text = {**BASE, "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl_text"}
    shape = {**BASE, "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "vision_config": VISION}
    nested, flat = read({**shape, "text_config": text}), read(shape)
    assert total(nested) == total(flat)
    assert not nested.uncounted


@pytest.mark.parametrize(
    ("architecture", "more", "word"),
    [
        ("LlamaForCausalLM", {"visual": {"width": 1664}}, "visual"),
        ("LlamaForCausalLM", {"mm_vision_tower": "openai/clip-vit-large-patch14-336"}, "mm_vision_tower"),
        ("LlamaForCausalLM", {"num_nextn_predict_layers": 1}, "num_nextn_predict_layers"),
    ],
)
def test_what_the_class_does_not_build_is_said(architecture: str, more: dict[str, Any], word: str) -> None:
    made = spec(architecture, **more)
    assert any(word in note and "counted" in note for note in (*made.notes, *made.uncounted))


@pytest.mark.parametrize(
    ("architecture", "more", "words"),
    [
        ("PanguUltraMoEForCausalLM", {"param_sink_number": 128}, "param_sink_number"),
        ("MiniMaxM3SparseForCausalLM", {"layer_types": ["full_attention"] * 3, "head_dim": 128}, "has 3 entries for 4 layers"),
        ("Step3p5ForCausalLM", {"layer_types": ["full_attention"] * 6}, "has 6 entries for 4 layers and 0 draft modules"),
        ("Step3TextForCausalLM", {"num_attention_groups": 1, "head_dim": 256, "share_q_dim": 128, "moe_num_experts": 4, "moe_top_k": 2,
                                  "moe_intermediate_size": 64, "share_expert_dim": 32, "moe_layers_enum": "2,9"}, "beyond the 4"),
        ("DogeForCausalLM", {"is_moe": True}, "is_moe"),
    ],
)  # fmt: skip
def test_refusals_name_the_key(architecture: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        spec(architecture, **more)


def test_grok_2_has_narrow_experts_beside_a_dense_network_and_an_untied_head() -> None:
    """sglang 0.5.23 models/grok.py; the release (269.5 B) writes no tie_word_embeddings."""
    config = {key: value for key, value in BASE.items() if key != "tie_word_embeddings"}
    made = read({**config, "architectures": ["Grok1ForCausalLM"], "moe_intermediate_size": 64, "residual_moe": True,
                 "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 128})  # fmt: skip
    experts = 4 * 3 * H * 64 + 4 * H
    assert total(made) == ENDS + 4 * (2 * H * H + 2 * 256 * H + 4 * H + GATED + experts)


def test_hunyuan_large_shares_keys_and_values_between_pairs_of_layers() -> None:
    """tencent/Tencent-Hunyuan-Large writes attention_head_dim, and experts under the class name that its 7B has too."""
    made = spec("HunYuanForCausalLM", model_type="hunyuan", attention_head_dim=128, num_experts=4, moe_topk=1, num_shared_expert=1,
                use_cla=True, cla_share_factor=2, use_qk_norm=True)  # fmt: skip
    experts = 4 * GATED + 4 * H + GATED
    owners, readers = 2 * H * H + 2 * 256 * H + 256, 2 * H * H + 128
    assert total(made) == ENDS + 2 * owners + 2 * readers + 4 * (experts + 2 * H)
    assert kept(made) == 2 * 2 * 2 * 128 * 2 * 1000


@pytest.mark.parametrize(
    ("architecture", "more"),
    [
        ("Gemma3TextModel", {"use_bidirectional_attention": True, "sliding_window": 512, "head_dim": 128, "model_type": "gemma3_text"}),
        ("LlamaBidirectionalModel", {"model_type": "llama_bidirec"}),
    ],
)
def test_a_decoder_that_reads_both_ways_keeps_nothing(architecture: str, more: dict[str, Any]) -> None:
    assert kept(spec(architecture, **more)) == 0
    assert kept(spec(architecture.replace("Bidirectional", ""), **{**more, "use_bidirectional_attention": False})) > 0


def test_convolutions_that_read_both_ways_are_refused_by_name() -> None:
    """vLLM 0.33 models/lfm2.py Lfm2BidirectionalModel, built on the meta device: no layer of it declares a cache."""
    with pytest.raises(UnsupportedError, match="Lfm2BidirectionalModel reads everything at once"):
        spec("Lfm2BidirectionalModel", model_type="lfm2", layer_types=["conv", "full_attention", "conv", "conv"])


def test_minimax_m3_builds_its_own_tower_whatever_class_its_config_states() -> None:
    """The release writes clip_vision_model, whose class and position embeddings its rotary tower does not have."""
    vision = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 14,
              "image_size": 28, "num_channels": 3, "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip
    text = {**BASE, "architectures": ["MiniMaxM3SparseForCausalLM"], "head_dim": 128, "dense_intermediate_size": 4096,
            "intermediate_size": 64, "shared_intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2,
            "moe_layer_freq": [0, 1, 1, 1], "sparse_attention_config": {
                "sparse_attention_freq": [0, 1, 1, 1], "sparse_index_dim": 32, "sparse_num_index_heads": 2, "sparse_topk_blocks": 2,
                "sparse_block_size": 16}}  # fmt: skip
    config = {"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "projector_hidden_size": 48, "text_config": text,
              "vision_config": {**vision, "model_type": "clip_vision_model"}}  # fmt: skip
    layer = 4 * 64 * 64 + 4 * 64 + 2 * 64 * 128 + 128 + 64 + 4 * 64
    tower = 3 * 2 * 14 * 14 * 64 + 2 * 64 + 2 * layer
    joined = (64 * 48 + 48) + (48 * H + H) + (4 * H * 48 + 48) + (48 * H + H)
    attention, index = 2 * H * H + 2 * 256 * H + 2 * 128, 2 * 32 * H + 32 * H + 2 * 32
    experts = 4 * 3 * H * 64 + 4 * H + 3 * H * 32
    made = read(config)
    assert total(made) == ENDS + 4 * (attention + 2 * H) + 3 * (index + experts) + GATED + tower + joined
    assert kept(made) == (4 * 2 * 2 * 128 + 3 * 32) * 2 * 1000


def test_florence_2_is_read_as_microsoft_calls_its_parts() -> None:
    """microsoft/Florence-2-base config.json; the Hub's 231,567,705 are with a bias of 51,289 and rows of 100 frames, which are buffers."""
    text = {
        "model_type": "florence2_language",
        "vocab_size": 51289,
        "d_model": 768,
        "max_position_embeddings": 1024,
        "num_hidden_layers": 6,
        **{f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in (("layers", 6), ("attention_heads", 12), ("ffn_dim", 3072))},
    }
    vision = {
        "model_type": "davit",
        "dim_embed": [128, 256, 512, 1024],
        "num_heads": [4, 8, 16, 32],
        "num_groups": [4, 8, 16, 32],
        "depths": [1, 1, 9, 1],
        "patch_size": [7, 3, 3, 3],
        "patch_stride": [4, 2, 2, 2],
        "patch_padding": [3, 1, 1, 1],
        "patch_prenorm": [False, True, True, True],
        "window_size": 12,
        "projection_dim": 768,
        "image_pos_embed": {"type": "learned_abs_2d", "max_pos_embeddings": 50},
    }
    whole = {
        "architectures": ["Florence2ForConditionalGeneration"],
        "model_type": "florence2",
        "projection_dim": 768,
        "torch_dtype": "float16",
        "vocab_size": 51289,
        "text_config": text,
        "vision_config": vision,
    }
    assert total(read(whole)) == 231_567_705 - 51_289 - 100 * 1024
    with_more_rows = {**vision, "image_pos_embed": {"max_pos_embeddings": 60}}
    assert total(read({**whole, "vision_config": with_more_rows})) == 231_567_705 - 51_289 - 100 * 1024 + 10 * 1024
    swin = {**vision, "model_type": "microsoft/swinv2-large-patch4-window12to24-192to384-22kto1k-ft", "dim_embed": [1536]}
    with pytest.raises(SpecError, match=r"vision_config\.model_type: 'microsoft/swinv2"):  # 04RR/Florence-custom-encoder config.json
        read({**whole, "vision_config": swin})
    with pytest.raises(SpecError, match=r"vision_config\.depths: has 4 entries for 1 layers"):
        read({**whole, "vision_config": {**vision, "dim_embed": [1536]}})
