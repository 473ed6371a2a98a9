"""Weights of quantised checkpoints without headers: what tools wrote, what hubs publish, and how sure the ledger says it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.importers.hf_config import import_config, read_config
from kvplan.ledger import Entry
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import model_tensors, role_formats
from tests.conftest import planned, shared

#: One layer of Llama-3.1-8B's shapes, and an embedding of 1,024 tokens.
ONE_LAYER: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 1,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 1024, "max_position_embeddings": 4096,
    "dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
LAYER_ELEMENTS = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336
REST = 2 * (2 * 1024 * 4096 + 3 * 4096)  # embedding, head and three norms in bf16


def imported(config: dict[str, Any], **quantization: Any) -> ModelSpec:
    return parse_spec(import_config({**config, "quantization_config": quantization}, "config.json"), "config.json")


def weights(model: ModelSpec | str, **question: Any) -> tuple[Plan, list[Entry]]:
    plan = planned(model, engine="ideal", context=1024, **question)
    return plan, [entry for entry in plan.ledgers[0].entries if entry.name.startswith("weights")]


def scheme(bits: int, kind: str, strategy: str, group: int | None = None, *, symmetric: bool = True) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": group, "symmetric": symmetric}
    return {
        "quant_method": "compressed-tensors",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


#: Bytes of all tensors that the tool wrote for ONE_LAYER: compressed-tensors 0.20.0 (apply_quantization_config, compress_model) and
#: bitsandbytes 0.50.2 through transformers 5.23.0 (from_pretrained, save_pretrained), on a CPU.
WRITTEN: list[tuple[dict[str, Any], str, int]] = [
    (scheme(4, "int", "group", 128) | {"format": "pack-quantized"}, "int4_g128", 129_261_680),
    (scheme(4, "int", "group", 64, symmetric=False) | {"format": "pack-quantized"}, "awq_g64", 134_373_488),
    (scheme(4, "int", "channel") | {"format": "pack-quantized"}, "int4_channel", 125_939_824),
    (scheme(8, "int", "group", 128) | {"format": "pack-quantized"}, "int8_g128", 238_313_584),
    (scheme(8, "int", "channel") | {"format": "int-quantized"}, "int8_channel", 234_991_616),
    (scheme(8, "float", "channel") | {"format": "float-quantized"}, "fp8_channel", 234_991_616),
    (scheme(8, "float", "block") | {"format": "float-quantized"}, "fp8_block128", 234_932_224),
    (scheme(4, "float", "tensor_group", 16) | {"format": "nvfp4-pack-quantized"}, "nvfp4", 139_485_240),
    (scheme(4, "float", "group", 32) | {"format": "mxfp4-pack-quantized"}, "mxfp4", 132_669_440),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", 139_486_209),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4_double", 129_323_639),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 235_077_639),
]


@pytest.mark.parametrize(("config", "name", "written"), WRITTEN, ids=[row[1] for row in WRITTEN])
def test_what_tools_wrote_is_met_within_a_thousandth_and_inside_the_interval(config: dict[str, Any], name: str, written: int) -> None:
    spec = imported(ONE_LAYER, **config)
    assert {q.format for q in spec.quantization} == {name}
    _, lines = weights(spec)
    assert abs(sum(e.bytes for e in lines) / written - 1) < 0.001
    assert sum(e.low for e in lines) <= written <= sum(e.high for e in lines)


def test_w4afp8_has_experts_in_int4_and_the_rest_in_fp8_blocks() -> None:
    """SGLang quantization/w4afp8.py, create_weights: int4 with one scale (bf16 once loaded) per 128 inputs for the experts,
    Fp8LinearMethod for every other linear; asked for by name, and stated by a config. By hand: 2 experts of 3 x 128 x 256."""
    sizes = {
        "n_routed_experts": 2,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 128,
        "n_shared_experts": 1,
        "first_k_dense_replace": 0,
    }
    config = {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 256, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1024, "q_lora_rank": 128,
        "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64, "n_group": 1, "topk_group": 1,
        "num_nextn_predict_layers": 0, "torch_dtype": "bfloat16", **sizes,
    }  # fmt: skip
    _, lines = weights(imported(config, quant_method="w4afp8"))
    found = {line.name.removeprefix("weights: "): line.bytes for line in lines}
    assert found["experts"] == 2 * 3 * (128 * 256 // 2 + 128 * 256 // 128 * 2)
    assert found["shared_experts"] == 3 * (128 * 256 + 1 * 2 * 4)
    assert found["head"] == 2 * 1024 * 256


def test_gptq_by_hand() -> None:
    """GPTQModel's QuantLinear buffers: qweight, qzeros of the same width, 16-bit scales, a 32-bit g_idx for each input."""
    inputs = 4096 * 6 + 14336  # q, k, v, o, gate and up read 4,096 features, down 14,336
    outputs_by_inputs = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (14336, 4096), (14336, 4096), (4096, 14336)]
    for bits, group in ((4, 128), (4, -1), (4, 32), (3, 128), (8, 128)):
        groups = sum(out * (1 if group < 0 else n // group) for out, n in outputs_by_inputs)
        expected = LAYER_ELEMENTS * bits // 8 + groups * (16 + bits) // 8 + 4 * inputs + REST
        _, lines = weights(imported(ONE_LAYER, quant_method="gptq", bits=bits, group_size=group, desc_act=True, sym=True))
        assert sum(e.bytes for e in lines) == expected, (bits, group)


def test_a_published_awq_checkpoint_to_the_byte() -> None:
    """metadata.total_size of the nine-file AutoAWQ release of Llama 3.1 70B: 39,767,785,472."""
    _, lines = weights("meta-llama/llama-3.1-70b", weight_dtype="awq")
    assert sum(e.bytes for e in lines) == 39_767_785_472


def test_a_published_mxfp4_checkpoint_to_the_byte() -> None:
    """metadata.total_size of openai/gpt-oss-20b's model.safetensors.index.json: 13,761,264,768."""
    _, lines = weights("openai/gpt-oss-20b")
    assert sum(e.bytes for e in lines) == 13_761_264_768


def test_published_checkpoints_are_inside_the_interval() -> None:
    """Qwen3-32B-FP8: the Hub counts 1,558,406,144 BF16 and 31,205,621,760 F8_E4M3 elements. DeepSeek-V3 AWQ, groups of 64, attention
    quantised too: metadata.total_size 364,589,799,936."""
    for model, name, total in (
        ("qwen/qwen3-32b", "fp8_block128", 31_205_621_760 + 2 * 1_558_406_144),
        ("deepseek-ai/deepseek-v3", "awq_g64", 364_589_799_936),
    ):
        _, lines = weights(model, weight_dtype=name)
        assert sum(e.low for e in lines) <= total <= sum(e.high for e in lines)
        assert abs(sum(e.bytes for e in lines) / total - 1) < 0.05


def test_mlx_quantises_embedding_and_head_too() -> None:
    """A published MLX conversion of Qwen3.5-9B, 8 bits in groups of 64: metadata.total_size 10,426,433,504."""
    config = json.loads(shared("data/hf_configs/Qwen--Qwen3.5-9B.json").read_text())
    _, lines = weights(imported(config, bits=8, group_size=64, mode="affine"))
    assert sum(e.bytes for e in lines) == 10_426_433_504 - 1536  # the f32 A_log of 24 layers x 32 heads


def test_every_line_of_a_quantised_model_is_modelled_and_says_what_is_assumed() -> None:
    plan, lines = weights(imported(ONE_LAYER, quant_method="awq", bits=4, group_size=128))
    by_name = {entry.name: entry for entry in lines}
    assert {entry.basis for entry in lines} == {"modelled"}
    assert "AutoAWQ" in by_name["weights: mlp"].source
    assert "as the checkpoint's config says" in by_name["weights: mlp"].source
    assert by_name["weights: mlp"].low < by_name["weights: mlp"].bytes < by_name["weights: mlp"].high
    for role in ("head", "embedding", "norm"):
        entry = by_name[f"weights: {role}"]
        assert entry.source == "declared tensor shapes in bf16, assumed not quantised"
        assert entry.low == entry.bytes == entry.high
    assert {entry.basis for entry in plan.ledgers[0].entries if entry not in lines} == {"exact"}


def test_an_unquantised_model_is_exact() -> None:
    for question in ({}, {"weight_dtype": "f32"}):
        _, lines = weights("meta-llama/llama-3.1-8b", **question)
        assert {(entry.basis, entry.source) for entry in lines} == {("exact", "declared tensor shapes")}


def test_a_format_only_asked_for_says_what_such_checkpoints_leave_out() -> None:
    _, lines = weights("qwen/qwen3-30b-a3b", weight_dtype="nvfp4")
    attention = next(entry for entry in lines if entry.name == "weights: attention")
    assert attention.high == attention.bytes  # in bf16, as most routed FP4 releases keep it
    assert attention.low == int(attention.bytes * 4.5 / 16)
    assert "some checkpoints store it in nvfp4" in attention.source
    assert "the layers' matrices assumed quantised" in next(e for e in lines if e.name == "weights: experts").source


@pytest.mark.parametrize("method", ["aqlm", "quip", "vptq", "exl2", "bitnet", "nobody's"])
def test_a_method_without_a_model_is_noted_and_spans_everything(method: str) -> None:
    plan, lines = weights(imported(ONE_LAYER, quant_method=method))
    mlp = next(entry for entry in lines if entry.name == "weights: mlp")
    assert mlp.bytes == mlp.high == 2 * 3 * 4096 * 14336
    assert mlp.low < mlp.bytes // 10
    assert any(repr(method) in note or method in note for note in plan.model.notes)


def test_weights_that_may_be_larger_make_the_answer_less_certain() -> None:
    spec = imported(ONE_LAYER, quant_method="gptq", bits=4, group_size=128)
    _, lines = weights(spec)
    point, width = sum(e.bytes for e in lines), sum(e.high - e.low for e in lines)
    tight = planned(spec, engine="ideal", context=1, device=f"{point + (1 << 20)}B")
    assert tight.fits is True
    assert tight.certainty != "certain"
    assert tight.capacity is not None
    assert tight.capacity.kv_bytes_low < tight.capacity.kv_bytes < tight.capacity.kv_bytes_high
    roomy = planned(spec, engine="ideal", context=1, device=f"{point + width + (1 << 20)}B")
    assert (roomy.fits, roomy.certainty) == (True, "certain")
    asked = planned(spec, engine="ideal", context=1, kv_memory="1MiB")
    assert asked.certainty == "certain"  # weights are not in the question


SCHEMES: list[tuple[dict[str, Any], str]] = [
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_gptq"}, "gptq_g128"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "packing_format": "auto_round:auto_awq"}, "awq_g128"),
    ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp", "group_size": 32}, "mxfp4"),
    ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "awq_g64"),
    ({"quant_method": "gptq", "bits": 2, "group_size": 64}, "gptq2_g64"),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "affine4_g64"),
    (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}}},
        "affine4_g128",
    ),
    ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8DynamicActivationFloat8WeightConfig"}}}, "fp8_channel"),
    ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "int8_channel"),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}}, "fp8"),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}}}, "mxfp4"),
    ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "fbgemm_fp8"}, "fp8_channel"),
    ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, "mxfp4"),
]


@pytest.mark.parametrize(("config", "name"), SCHEMES)
def test_what_methods_call_their_weights(config: dict[str, Any], name: str) -> None:
    spec = imported(ONE_LAYER, **config)
    assert {q.format for q in spec.quantization} == {name}


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"},
        {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": False},
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": None}}},
        scheme(8, "int", "channel") | {"format": "dense"},
    ],
)
def test_a_block_that_packs_no_weights_leaves_them_exact(config: dict[str, Any]) -> None:
    spec = imported(ONE_LAYER, **config)
    assert spec.quantization == ()
    _, lines = weights(spec)
    assert {entry.basis for entry in lines} == {"exact"}


def test_two_groups_one_for_a_class_and_one_by_name() -> None:
    int4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
    fp8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
    groups = {"group_0": {"targets": ["re:.*self_attn.*"], "weights": fp8}, "group_1": {"targets": ["Linear"], "weights": int4}}
    spec = imported(ONE_LAYER, quant_method="compressed-tensors", config_groups=groups, ignore=["lm_head"])
    formats = {role: q.format for q in spec.quantization for role in q.roles}
    assert (formats["attention"], formats["mlp"]) == ("fp8_channel", "int4_g128")


def test_mlx_before_it_wrote_quantization_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**ONE_LAYER, "quantization": {"group_size": 64, "bits": 4}}))
    read = read_config(tmp_path / "config.json")
    assert {q.format for q in read.quantization} == {"affine4_g64"}
    assert {"embedding", "head"} <= {role for q in read.quantization for role in q.roles}


def test_gguf_mixes_against_published_sizes() -> None:
    """llama.cpp tools/quantize/README.md: Q4_K_M is 4.58 GiB of Llama 3.1 8B (as Q8_0 7.95), 43.1 GB of 70B (ollama.com: 43 GB)."""
    for model, name, published, rel in (
        ("meta-llama/llama-3.1-8b", "Q4_K_M", 4.58 * 2**30, 0.002),
        ("meta-llama/llama-3.1-8b", "q8_0", 7.95 * 2**30, 0.002),
        ("meta-llama/llama-3.1-70b", "q4_k", 43.1e9, 0.015),
    ):
        _, lines = weights(model, weight_dtype=name)
        assert sum(e.bytes for e in lines) == pytest.approx(published, rel=rel)
        assert sum(e.low for e in lines) < published < sum(e.high for e in lines)
        assert {e.basis for e in lines} == {"modelled"}


def test_gguf_mixes_in_a_log() -> None:
    """A start of Meta-Llama-3-8B-Instruct Q4_K_M, all layers on a GPU: a model buffer of 4403.00 MiB; the embedding is in host memory."""
    _, lines = weights("meta-llama/llama-3-8b", weight_dtype="q4_k_m")
    held = [e for e in lines if e.name != "weights: embedding"]
    assert sum(e.low for e in held) < 4403 * 2**20 < sum(e.high for e in held)
    assert sum(e.bytes for e in held) == pytest.approx(4403 * 2**20, rel=0.01)


#: Four layers of Qwen3-Next's kind: a gated delta net and three of attention, experts in all.
TWO_KINDS: dict[str, Any] = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 256, "intermediate_size": 512, "head_dim": 64,
    "num_hidden_layers": 4, "layer_types": ["linear_attention", *["full_attention"] * 3], "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 1024, "dtype": "bfloat16",
    "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
LEFT_OUT: list[tuple[dict[str, Any], list[tuple[str, tuple[str, ...]]]]] = [
    ({"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.1.self_attn.o_proj"]}, [("1", ("o",))]),
    ({"quant_method": "fp8", "modules_to_not_convert": ["in_proj_a", "in_proj_b", "gate"]}, [("0", ("in_proj_ba",))]),
    ({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head", "*linear_attn*"]},
     [("0", ("in_proj_qkvz", "in_proj_ba", "out_proj"))]),
    ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.0*"]}, [("0", (
        "in_proj_qkvz", "in_proj_ba", "out_proj", "expert_up", "expert_gate", "expert_down", "shared_up", "shared_gate", "shared_down"))]),
    (scheme(8, "float", "channel") | {"ignore": [r"re:.*layers\.1\.mlp\.shared_expert\..*"]}, [
        ("1", ("shared_up", "shared_gate", "shared_down"))]),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128,
      "dynamic": {r"-:.*\.3\.self_attn\.(q|k)_proj": {}}}, [("3", ("q", "gate", "k"))]),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"model.layers.1.self_attn.v_proj": {"bits": 16}}},
     [("1", ("v",))]),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["model.layers.0.mlp.experts"]},
     [("0", ("expert_up", "expert_gate", "expert_down"))]),
]  # fmt: skip


@pytest.mark.parametrize(("config", "left"), LEFT_OUT)
def test_modules_left_out_are_named_by_layer_and_tensor(config: dict[str, Any], left: list[tuple[str, tuple[str, ...]]]) -> None:
    """Names as transformers calls these modules (models/qwen3_next/modeling_qwen3_next.py); the query's gate is inside q_proj."""
    spec = imported(TWO_KINDS, **config)
    assert [(d.layers, d.tensors) for d in spec.deviations if d.format is None] == left
    assert not [note for note in spec.notes if "quantis" in note]


def test_what_is_left_out_takes_sixteen_bits() -> None:
    """Llama-3.1-405B-FP8's list on five layers: all of layer 0, the network of layer 4."""
    names = [f"model.layers.0.self_attn.{x}_proj" for x in "kqvo"]
    names += [f"model.layers.{i}.mlp.{x}_proj" for i in (0, 4) for x in ("down", "gate", "up")]
    config = {**ONE_LAYER, "num_hidden_layers": 5}
    _, every = weights(imported(config, quant_method="fbgemm_fp8"))
    _, some = weights(imported(config, quant_method="fbgemm_fp8", modules_to_not_convert=names))
    scales = 4 * (4096 + 1024 + 1024 + 4096) + 2 * 4 * (14336 + 14336 + 4096)  # an f32 scale per output channel (fbgemm)
    left = LAYER_ELEMENTS + 3 * 4096 * 14336
    assert sum(e.bytes for e in some) - sum(e.bytes for e in every) == left - scales
    _, asked = weights(imported(config, quant_method="fbgemm_fp8", modules_to_not_convert=names), weight_dtype="bf16")
    assert sum(e.bytes for e in asked) == 5 * 2 * LAYER_ELEMENTS + REST + 4 * 2 * 2 * 4096


def test_modules_in_another_format() -> None:
    """GPTQModel's `dynamic` and compressed-tensors' groups give single modules more bits."""
    spec = imported(TWO_KINDS, quant_method="gptq", bits=4, group_size=128, dynamic={r"+:.*\.3\.self_attn\..*": {"bits": 8}})
    assert [(d.layers, d.format) for d in spec.deviations] == [("3", "gptq8_g128")]
    groups = {
        "a": scheme(4, "int", "group", 128)["config_groups"]["group_0"],
        "b": scheme(8, "float", "channel")["config_groups"]["group_0"],
    }
    groups["b"]["targets"] = ["re:.*3.self_attn.*"]
    spec = imported(TWO_KINDS, quant_method="compressed-tensors", format="mixed-precision", config_groups=groups)
    assert [(d.layers, d.tensors, d.format) for d in spec.deviations] == [("3", ("q", "o", "gate", "k", "v"), "fp8_channel")]


def test_a_pattern_that_meets_nothing_is_said() -> None:
    spec = imported(TWO_KINDS, quant_method="fp8", modules_to_not_convert=["model.layers.0.self_attn.q_proj"])
    assert any("meet no tensor here" in note for note in spec.notes)  # layer 0 has a delta net
    spec = imported(TWO_KINDS, **{**scheme(8, "float", "channel"), "ignore": ["re:.*(["]})
    assert any("can not be read" in note for note in spec.notes)


def test_glm_5_3_is_its_hub_total_plain_and_in_fp4() -> None:
    """Hub totals: 753,329,940,480; nvidia's NVFP4 390,942,074,880, two FP4 to an element and scales left out.

    The draft module, layer 78, has an indexer though layer 77 has none, and stays in 16 bits. Router biases are stored too.
    """
    for name, total in (("zai-org--GLM-5.3", 753_329_940_480), ("nvidia--GLM-5.3-NVFP4", 390_942_074_880)):
        spec = read_config(shared(f"data/hf_configs_more/{name}.json"))
        model = lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16"))
        formats = role_formats("bf16", {role: q.format for q in spec.quantization for role in q.roles})
        tensors = [*model_tensors(model), *((w, 1) for layer in model.draft for w in layer.weights)]
        assert sum(n * (w.elems // 2 if formats.of(w) == "nvfp4" else w.elems) for w, n in tensors) == total


def test_a_tensor_without_sides_is_one_element() -> None:
    """A scalar: 2 bytes in 16 bits."""
    block = {"mixers": [{"kind": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 16}]}
    plain: dict[str, Any] = {
        "id": "test/scalar", "name": "scalar", "source": "written for a test", "max_context": 64, "vocab_size": 100, "hidden_size": 64,
        "n_layers": 1, "dtype": "bf16", "layers": [{"pattern": ["1*block"]}], "blocks": {"block": block},
    }  # fmt: skip
    more = plain | {"weights": [{"name": "scale", "shape": []}]}
    with_scalar, without = (kvplan.estimate(parse_spec(data, "test"), context=64).model.weight_bytes for data in (more, plain))
    assert with_scalar - without == 2


def test_experts_beside_a_dense_network_are_no_part_of_it() -> None:
    """Gemma 4 26B A4B NVFP4 of NVIDIA leaves `mlp*`, `router*` and `self_attn*` in 16 bits: its layers have mlp, router and experts."""
    text = {
        "model_type": "gemma4_text", "hidden_size": 2816, "intermediate_size": 2112, "moe_intermediate_size": 704, "num_hidden_layers": 6,
        "num_attention_heads": 16, "num_key_value_heads": 8, "num_global_key_value_heads": 2, "head_dim": 256, "attention_k_eq_v": True,
        "enable_moe_block": True, "num_experts": 128, "top_k_experts": 8, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0,
        "sliding_window": 1024, "vocab_size": 262144, "max_position_embeddings": 262144, "tie_word_embeddings": True,
    }  # fmt: skip
    config = {"architectures": ["Gemma4ForCausalLM"], "dtype": "bfloat16", **text}
    left = [f"model.language_model.layers.{n}.{part}*" for n in range(6) for part in ("mlp", "router", "self_attn")]
    spec = imported(config, quant_method="modelopt", quant_algo="NVFP4", ignore=["lm_head", *left])
    roles = {role: rule.format for rule in spec.quantization for role in rule.roles}
    assert roles["experts"] == "nvfp4"
    assert not {"mlp", "attention"} & roles.keys()
    assert not spec.deviations
