"""Configs as people publish them, against bytes and counts that their own repositories state."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import catalogue
from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count

QWEN3 = {"head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 36, "vocab_size": 151936,
         "max_position_embeddings": 32768, "sliding_window": None, "use_sliding_window": False, "torch_dtype": "bfloat16"}  # fmt: skip
#: A Qwen3.5 35B-A3B with half its experts, uploaded as its text model's file under the whole model's class.
REAP = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe_text", "dtype": "float16",
        "attention_bias": False, "attn_output_gate": True, "full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "linear_value_head_dim": 128, "max_position_embeddings": 262144, "moe_intermediate_size": 512, "num_attention_heads": 16,
        "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 40, "num_key_value_heads": 2,
        "shared_expert_intermediate_size": 512, "tie_word_embeddings": False, "vocab_size": 248320}  # fmt: skip
GEMMA = {"attention_k_eq_v": True, "global_head_dim": 512, "head_dim": 256, "hidden_size": 3840, "hidden_size_per_layer_input": 0,
         "intermediate_size": 15360, "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 8, "max_position_embeddings": 262144,
         "model_type": "gemma4_unified_text", "num_attention_heads": 16, "num_global_key_value_heads": 1, "num_hidden_layers": 48,
         "num_key_value_heads": 8, "num_kv_shared_layers": 0, "sliding_window": 1024, "tie_word_embeddings": True, "vocab_size": 262144,
         "enable_moe_block": False, "use_double_wide_mlp": False, "attention_bias": False}  # fmt: skip


def read(config: dict[str, Any]) -> tuple[ModelSpec, int]:
    """The spec and its parameters."""
    spec = parse_spec(import_config(config, "a/config.json"), "a")
    return spec, count(lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16"))).total


@pytest.mark.parametrize(("hidden", "width", "total_size"), [(2560, 9728, 8_822_848_512), (4096, 12288, 16_381_470_720)])
def test_sdar_is_a_qwen3_that_drafts_blocks(hidden: int, width: int, total_size: int) -> None:
    """total_size of model.safetensors.index.json, SDAR-4B-Chat and SDAR-8B-Chat (github.com/JetAstra/SDAR), in bf16."""
    shape = {"architectures": ["SDARForCausalLM"], "model_type": "sdar", "hidden_size": hidden, "intermediate_size": width}
    assert 2 * read({**QWEN3, **shape})[1] == total_size


def test_a_text_models_own_file_has_no_tower() -> None:
    """total_size of the index of github.com/bryce-hoehn/Qwen3.5-18B-REAP-A3B-Coding: 37,087,995,136 bytes in float16."""
    spec, parameters = read(REAP)
    assert not spec.towers
    assert 2 * parameters == 37_087_995_136


def test_gemma_4_without_encoders_has_its_embedders_counted() -> None:
    """11,959,730,176 is what transformers 5.23.0 builds of the file on the meta device; 6912 = 3 * 48 * 48 pixels of a patch."""
    vision = {
        "model_type": "gemma4_unified_vision",
        "mm_embed_dim": 3840,
        "mm_posemb_size": 1120,
        "model_patch_size": 48,
        "output_proj_dims": 3840,
    }
    audio = {"model_type": "gemma4_unified_audio", "audio_embed_dim": 640, "output_proj_dims": 640}
    whole = {"architectures": ["Gemma4UnifiedForConditionalGeneration"], "model_type": "gemma4_unified", "dtype": "bfloat16"}
    spec, parameters = read({**whole, "text_config": GEMMA, "vision_config": vision, "audio_config": audio})
    assert parameters == 11_959_730_176
    embedder = 2 * 6912 + (6912 + 1) * 3840 + 2 * 3840 + 1120 * 2 * 3840 + 2 * 3840
    assert [tower.parameters for tower in spec.towers] == [embedder, 3840 * 3840, 640 * 3840]


def test_a_class_over_another_models_type_is_said() -> None:
    """SafeAILab/EAGLE eagle/train/Mixtral_8x7B_config.json: engines build the Llama, transformers a Mixtral."""
    shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 1, "num_key_value_heads": 32}
    spec, _ = read({"architectures": ["LlamaForCausalLM"], "model_type": "mixtral", **shape, "vocab_size": 32000, "torch_dtype": "float16"})
    assert any("mixtral is not that of LlamaForCausalLM" in note for note in spec.notes)


def test_readers_of_documents_are_counted_to_the_hubs_total() -> None:
    """Totals of safetensors as the Hub states them; vLLM leaves PaddleOCR-VL's pooling head and packed positions unread."""
    from kvplan.catalogue import find_model

    totals = {"opendatalab/MinerU2.5-2509-1.2B": 1_156_026_624, "rednote-hilab/dots.ocr": 3_039_179_264,
              "PaddlePaddle/PaddleOCR-VL": 958_588_736 - 15_238_352 - 32_768 * 1152}  # fmt: skip
    for name, total in totals.items():
        assert count(lower(find_model(name), CacheFormats("bf16", "bf16", "bf16", "bf16"))).total == total, name


def test_the_first_qwen_vl_has_its_tower_counted() -> None:
    """Qwen-VL-Chat-Int4's index states 9,731,786,240 bytes; all but the language model's linears are half precision in it."""
    shape = {"hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128, "num_attention_heads": 32, "num_hidden_layers": 32}
    visual = {"heads": 16, "image_size": 448, "layers": 48, "mlp_ratio": 4.9231, "output_dim": 4096, "patch_size": 14, "width": 1664}
    whole = {"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "torch_dtype": "bfloat16", "tie_word_embeddings": False}
    spec, parameters = read({**whole, **shape, "vocab_size": 151936, "seq_length": 2048, "visual": visual})
    linears = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
    packed = linears // 2 + linears // 128 * (2 + 1 / 2)  # four bits each, a scale and a zero point for each 128
    assert 2 * (parameters - linears) + packed == pytest.approx(9_731_786_240, rel=1e-3)
    assert [tower.parameters for tower in spec.towers] == [1_935_610_624]


def test_locateanything_has_the_bytes_of_its_index() -> None:
    """nvidia/LocateAnything-3B as oguzaybilir/LocateAnything-3B-FineTuning has it: 7,661,331,936 bytes of 16 bits, an output beside the
    embedding that it equals."""
    text = {"architectures": ["Qwen2ForCausalLM"], "hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 32768,
            "model_type": "qwen2", "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 2, "sliding_window": 32768,
            "tie_word_embeddings": True, "use_sliding_window": False, "vocab_size": 152681}  # fmt: skip
    tower = {"hidden_size": 1152, "init_pos_emb_height": 64, "init_pos_emb_width": 64, "intermediate_size": 4304, "model_type": "moonvit",
             "merge_kernel_size": [2, 2], "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14}  # fmt: skip
    whole = {"architectures": ["LocateAnythingForConditionalGeneration"], "model_type": "locateanything", "torch_dtype": "bfloat16"}
    _, parameters = read({**whole, "text_config": text, "vision_config": tower})
    assert 2 * (parameters + 152681 * 2048) == 7_661_331_936


def test_heads_of_a_mamba2_that_its_file_leaves_out_are_said() -> None:
    """fla-org/flame configs/mamba2_340M.json; transformers 5.23 takes 128 heads there, and stops."""
    spec, _ = read({"model_type": "mamba2", "expand": 2, "head_dim": 64, "hidden_size": 1024, "n_groups": 1, "num_hidden_layers": 2,
                    "state_size": 128, "conv_kernel": 4, "vocab_size": 32000, "tie_word_embeddings": False, "use_bias": False,
                    "use_conv_bias": True})  # fmt: skip
    assert any("num_heads = 32" in note for note in spec.notes)


def test_cross_attention_of_an_encoder_alone_is_said() -> None:
    """salesforce/LAVIS lavis/configs/models/med_config.json: transformers' BertLayer raises, vLLM's has no cross-attention."""
    sizes = {"hidden_size": 768, "intermediate_size": 3072, "vocab_size": 30524, "num_attention_heads": 12, "num_hidden_layers": 12}
    spec, _ = read({"architectures": ["BertModel"], "model_type": "bert", **sizes, "add_cross_attention": True})
    assert any("add_cross_attention without is_decoder" in note for note in spec.notes)


def test_spark_has_a_gate_for_each_head_and_slides_three_layers_of_four() -> None:
    """iFlytek's Spark X2.5 4B by sglang 0.5.23 models/spark2_5.py: projections, gate, network and two norms of 36 layers, tied words."""
    config = {"architectures": ["Spark2_5ForCausalLM"], "model_type": "spark2_5", "dtype": "bfloat16", "head_dim": 256, "hidden_size": 2560,
              "intermediate_size": 10240, "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4,
              "max_position_embeddings": 1048576, "tie_word_embeddings": True, "vocab_size": 131072}  # fmt: skip
    layer = 2 * 2560 * 16 * 256 + 2 * 2560 * 4 * 256 + 2560 * 16 + 3 * 2560 * 10240 + 2 * 2560
    for gated in (True, False):
        spec, parameters = read({**config, "headwise_attn_output_gate": gated})
        assert parameters == 36 * (layer - (0 if gated else 2560 * 16)) + 131072 * 2560 + 2560
    assert [mixer.window for block in spec.blocks.values() for mixer in block.mixers if mixer.kind == "sliding"] == [512]


def test_what_a_file_sizes_and_nothing_reads_is_said() -> None:
    """THUDM/visualglm-6b's config.json: ChatGLM-6B, beside an image tower and a query transformer of its own code."""
    spec, _ = read({"architectures": ["ChatGLMModel"], "model_type": "chatglm", "hidden_size": 4096, "inner_hidden_size": 16384,
                    "max_sequence_length": 2048, "num_attention_heads": 32, "num_layers": 28, "position_encoding_2d": True,
                    "torch_dtype": "float16", "vocab_size": 130528, "eva_config": {"num_layers": 39, "hidden_size": 1408},
                    "qformer_config": {"num_layers": 12, "hidden_size": 768}})  # fmt: skip
    assert [note.partition(":")[0] for note in spec.uncounted] == ["eva_config", "qformer_config"]
    spec, _ = read({"architectures": ["QWenLMHeadModel"], "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016,
                    "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 155947, "seq_length": 2048, "kv_channels": 128,
                    "audio": {"n_layer": 32, "n_state": 1280}})  # fmt: skip  # Qwen/Qwen-Audio
    assert [note.partition(":")[0] for note in spec.uncounted] == ["audio"]


def test_two_joined_models_are_both_named() -> None:
    """PruhaNLP/ModernMT-en-ru merged_model/config.json: own code under the name of transformers' class, its parts under other keys."""
    with pytest.raises(KvplanError, match="encoder: missing"):
        read({"architectures": ["EncoderDecoderModel"], "model_type": "modernbert_enc_dec", "vocab_size": 50370, "hidden_size": 384,
              "num_hidden_layers": 6, "encoder_config": {"model_type": "modernbert"}})  # fmt: skip


def test_the_first_molmo_has_its_tower_counted() -> None:
    """allenai/Molmo-7B-D-0924: 8,021,025,280 parameters on the Hub; reubzdubz/Molmo7B_D_NF4Quant's index has 6,661,964,712 bytes."""
    config = {"architectures": ["MolmoForCausalLM"], "model_type": "molmo", "attention_layer_norm": False, "embedding_size": 152064,
              "hidden_size": 3584, "intermediate_size": 37888, "max_position_embeddings": 4096, "num_attention_heads": 28,
              "num_hidden_layers": 28, "num_key_value_heads": 4, "qkv_bias": True, "torch_dtype": "float16", "vocab_size": 152064,
              "weight_tying": False}  # fmt: skip
    _, parameters = read(config)
    assert parameters == 8_021_025_280
    linears = 28 * (2 * 3584 * 3584 + 2 * 512 * 3584 + 3 * 18944 * 3584)  # in NF4: half a byte, and four of scale for each 64
    assert 2 * (parameters - linears) + linears // 2 + linears // 16 == pytest.approx(6_661_964_712, rel=1e-4)


def test_jet_blocks_make_their_kernels() -> None:
    """NVlabs/Jet-Nemotron jetai/modeling/configs/jetlm_2B.json, by sglang 0.5.23 models/jet_nemotron.py and its Mamba2StateShape."""
    kinds = [*["jet"] * 13, "attn", *["jet"] * 4, "attn", "swa", "swa", *["jet"] * 7]
    own = {"jet": {"conv_size": 4, "dconv_generator_reduction": 8, "expand_v": 2.6666666667, "head_dim": 96, "num_heads": 12},
           "swa": {"window_size": 1152}}  # fmt: skip
    spec, parameters = read({"architectures": ["JetNemotronForCausalLM"], "model_type": "jet_nemotron", "efficient_attention_config": own,
                             "hidden_size": 1536, "intermediate_size": 8960, "layer_types": kinds, "max_position_embeddings": 131072,
                             "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2, "tie_word_embeddings": True,
                             "torch_dtype": "bfloat16", "vocab_size": 151936})  # fmt: skip
    h, keys, values = 1536, 12 * 96, 12 * 256
    jet = h * (2 * keys + 2 * values + 24) + values * h + 24 + 256  # projections, the output's, A and dt, the norm
    jet += h * values // 8 + values // 8 * 4 * values + 4 * values  # what makes the kernels
    attention = 2 * h * h + 2 * h * 256 + h + 2 * 256
    assert parameters == 24 * jet + 4 * attention + 28 * (3 * h * 8960 + 2 * h) + 151936 * h + h
    (found,) = lower(spec, CacheFormats("bf16", "bf16", "bf16", "f32")).layers[0].caches
    assert sum(tensor.elems_per_state * tensor.heads for tensor in found.tensors) == (values + 2 * keys) * 3 + 12 * 96 * 256


def test_k2_horizon_has_no_norms_in_attention_where_its_file_says_so() -> None:
    """vLLM 0.33 models/k2_horizon.py; by hand the Hub's 8,999,178,240 parameters of the 7B and 379,167,159,168 of the 375B."""
    whole = {"architectures": ["K2HorizonForCausalLM"], "model_type": "k2_horizon", "dtype": "bfloat16", "vocab_size": 250_624,
             "head_dim": 128, "num_key_value_heads": 8, "max_position_embeddings": 524_288, "attention_bias": False,
             "tie_word_embeddings": False, "query_key_norm": False, "num_experts": 0, "mova_num_experts": 0}  # fmt: skip
    small = whole | {"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "intermediate_size": 12_288}
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12_288 + 2 * 4096
    assert 2 * 250_624 * 4096 + 36 * layer + 4096 == read(small)[1] == 8_999_178_240
    assert read(small | {"query_key_norm": True})[1] == 8_999_178_240 + 36 * (4096 + 1024)
    assert read(small | {"attention_gate_func": "silu"})[1] == 8_999_178_240 + 36 * 4096 * 4096
    large = whole | {"hidden_size": 6144, "num_hidden_layers": 61, "num_attention_heads": 48, "intermediate_size": 16_384,
                     "moe_intermediate_size": 1792, "num_experts": 192, "num_experts_per_tok": 8, "num_shared_experts": 1,
                     "moe_gate_bias": True, "mlp_only_layers": [0, 1, 2], "decoder_sparse_step": 1}  # fmt: skip
    attention, expert = 2 * 6144 * 6144 + 2 * 6144 * 1024, 3 * 6144 * 1792
    made = 61 * (attention + 2 * 6144) + 3 * 3 * 6144 * 16_384 + 58 * (193 * expert + 192 * 6144 + 192)
    assert made + 2 * 250_624 * 6144 + 6144 == read(large)[1] == 379_167_159_168
    with pytest.raises(KvplanError, match="experts of attention's values are not modelled"):
        read(large | {"mova_num_experts": 100})


def test_nemotron_nano_vl_joins_its_tower_by_two_linears() -> None:
    """vLLM 0.33 models/nano_nemotron_vl.py: four patches of 1,280 normed, a network without biases; the Hub's total but for 10 million."""
    spec = catalogue.find_model("nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16")
    parts = {tower.name: tower.parameters for tower in spec.towers}
    assert parts["vision_projector"] == 5120 + 5120 * 20_480 + 20_480 * 5120
    assert 0 < 13_181_860_358 - count(lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16"))).total < 11e6


def test_openelm_grows_from_layer_to_layer() -> None:
    """apple/corenet: widths in steps of 256, one step more where rounding took a tenth; by hand two layers of 12 and 20 heads of 64."""
    config = {"architectures": ["OpenELMForCausalLM"], "model_type": "openelm", "dtype": "bfloat16", "vocab_size": 32_000,
              "model_dim": 1280, "head_dim": 64, "num_transformer_layers": 2, "num_query_heads": [12, 20], "num_kv_heads": [3, 5],
              "ffn_multipliers": [0.5, 4.0], "ffn_dim_divisor": 256, "max_context_length": 2048,
              "share_input_output_layers": True}  # fmt: skip
    first = 1280 * (12 + 3 + 3 + 12) * 64 + 3 * 1280 * 768 + 2 * 1280 + 2 * 64
    last = 1280 * (20 + 5 + 5 + 20) * 64 + 3 * 1280 * 5120 + 2 * 1280 + 2 * 64
    assert read(config)[1] == 32_000 * 1280 + first + last + 1280
    assert read(config | {"ffn_multipliers": [0.5, 0.28]})[1] == 32_000 * 1280 + first + last - 3 * 1280 * (5120 - 512) + 1280
    with pytest.raises(KvplanError, match="ffn_multipliers: must be a number of at most 64 for each layer"):
        read({key: value for key, value in config.items() if key != "ffn_multipliers"})
