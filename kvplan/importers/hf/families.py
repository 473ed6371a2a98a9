"""Families whose models are the usual decoder: one row each, by model type. Other families: families_latent_recurrent.py."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.importers.hf.rows import Decoder, Experts, Row

_GPT = {
    "hidden_size": ("n_embd", "hidden_size", "d_model"),
    "num_hidden_layers": ("n_layer", "num_hidden_layers", "num_layers", "n_layers"),
    "num_attention_heads": ("n_head", "num_attention_heads", "num_heads", "n_heads"),
    "intermediate_size": ("n_inner", "intermediate_size"),
    "max_position_embeddings": ("n_positions", "max_position_embeddings", "seq_length"),
}
_DSV1 = Experts(n="n_routed_experts", where="first_dense", shared_count="n_shared_experts")
_ALL_BIAS = {"q_bias": True, "kv_bias": True, "o_bias": True, "mlp_bias": True}
_QKVO = {"q_bias": "attention_bias", "kv_bias": "attention_bias", "o_bias": "attention_bias"}
_QKV = {"q_bias": "attention_bias", "kv_bias": "attention_bias"}
_LAYER = {"norm": "layer", "gated": False}


def _d(*parts: Mapping[str, object], **traits: object) -> Row:
    merged: dict[str, object] = {}
    for part in (*parts, traits):
        merged |= part
    return Row(traits=Decoder(**merged))  # type: ignore[arg-type]


FAMILIES: dict[str, Row] = {
    # Llama and what only renames it
    "llama": _d(_QKVO, mlp_bias="mlp_bias"),
    "emu3_text_model": _d(_QKVO, mlp_bias="mlp_bias"),
    "granite4_vision_text": _d(_QKVO, mlp_bias="mlp_bias"),
    "hunyuan_vl_text": _d(_QKVO, qk_norm="head"),
    "granite_docling_text": _d(_QKVO, mlp_bias="mlp_bias"),
    "cosmos3_edge_text": _d(_QKVO, gated=False, mlp_bias="mlp_bias"),
    "mistral": _d(windows="every"),
    "ministral": _d(windows="every"),
    "ministral3": _d(windows="every"),
    "mixtral": _d(windows="every", experts=Experts(n="num_local_experts", width="intermediate_size")),
    "qwen2": _d(q_bias=True, kv_bias=True, windows="qwen"),
    "qwen2_moe": _d(
        q_bias="qkv_bias", kv_bias="qkv_bias", windows="qwen",
        experts=Experts(where="sparse_step", shared="shared_expert_intermediate_size", shared_gate=True)),
    "qwen3": _d(_QKVO, qk_norm="head", windows="qwen"),
    "qwen3_moe": _d(_QKVO, qk_norm="head", windows="flagged", experts=Experts(where="sparse_step")),
    "gemma": _d(_QKVO),
    "gemma2": _d(_QKVO, norms=4, windows="alternate"),
    "gemma3_text": _d(_QKVO, norms=4, qk_norm="head", windows="pattern"),
    "vaultgemma": _d(_QKVO, windows="alternate"),
    "phi": _d(_ALL_BIAS, _LAYER, norms=1, qk_norm="head", qk_norm_if="qk_layernorm", qk_norm_bias=True, head_bias=True),
    "phi3": _d(windows="every"),
    "phi4_multimodal_text": _d(windows="every")._replace(model_type="phi4_multimodal"),
    "phimoe": _d(_QKVO, norm="layer", windows="every", head_bias="lm_head_bias",
                 experts=Experts(n="num_local_experts", width="intermediate_size")),
    "gpt2": _d(_ALL_BIAS, _LAYER, mlp_width="as_or_4x", positions=("max_position_embeddings", 0))._replace(names=_GPT),
    "gpt_bigcode": _d(_ALL_BIAS, _LAYER, mlp_width="as_or_4x", positions=("max_position_embeddings", 0))._replace(
        names=_GPT),
    "gpt_neo": _d(_LAYER, o_bias=True, mlp_bias=True, mlp_width="as_or_4x", windows="gpt_neo", positions=("max_position_embeddings", 0))
    ._replace(names={"num_attention_heads": ("num_heads",), "num_hidden_layers": ("num_layers",), "sliding_window": ("window_size",)}),
    "gptj": _d(_LAYER, norms=1, mlp_bias=True, mlp_width="as_or_4x", head_bias=True)._replace(names=_GPT),
    "codegen": _d(_LAYER, norms=1, mlp_bias=True, mlp_width="as_or_4x", head_bias=True)._replace(names=_GPT),
    "gpt_neox": _d(_QKVO, _LAYER, mlp_bias=True),
    "gpt_neox_japanese": _d(_LAYER, mlp_width="multiple", model_weights=(("last_attention_bias", ("hidden_size",)),)),
    "opt": _d(_LAYER, positions=("max_position_embeddings", 2))._replace(
        lower="decoders_by_rule:opt", names={"intermediate_size": ("ffn_dim",)}),
    "bloom": _d(_ALL_BIAS, _LAYER, mlp_width="4x",
                model_weights=(("embedding_norm", ("hidden_size",)), ("embedding_norm_bias", ("hidden_size",))))
    ._replace(names={"hidden_size": ("hidden_size", "n_embed"), "num_hidden_layers": ("n_layer", "num_hidden_layers"),
                     "num_attention_heads": ("n_head", "num_attention_heads")}),
    "falcon": _d(_LAYER)._replace(lower="decoders_by_rule:falcon", names={**_GPT, "num_key_value_heads": ("num_kv_heads",)}),
    "mpt": _d(norm="layer_no_bias", gated=False)._replace(lower="decoders_by_rule:mpt", names=_GPT),
    "starcoder2": _d(_LAYER, q_bias="use_bias", kv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias", windows="every"),
    "stablelm": _d(q_bias="use_qkv_bias", kv_bias="use_qkv_bias", norm="layer", qk_norm="heads", qk_norm_if="qk_layernorm",
                   parallel_if="use_parallel_residual"),
    "persimmon": _d(_ALL_BIAS, _LAYER, qk_norm="head", qk_norm_if="qk_layernorm", qk_norm_bias=True),
    "olmo": _d(_QKVO, norm="none"),
    "olmo2": _d(_QKVO, qk_norm="full"),
    "olmo3": _d(_QKVO, qk_norm="full", windows="pattern")._replace(defaults={"sliding_window_pattern": 4}),
    "olmoe": _d(_QKVO, qk_norm="full", experts=Experts(width="intermediate_size")),
    "flex_olmo": _d(_QKVO, qk_norm="full", experts=Experts(width="intermediate_size")),
    "smollm3": _d(_QKVO, mlp_bias="mlp_bias", windows="flagged"),
    "cohere": _d(_QKVO, norm="layer_no_bias", norms=1, qk_norm="heads", qk_norm_if="use_qk_norm"),
    "cohere2": _d(_QKVO, norm="layer_no_bias", norms=1, windows="pattern")._replace(defaults={"sliding_window_pattern": 4}),
    "granite": _d(_QKVO, mlp_bias="mlp_bias"),
    "granitemoe": _d(_QKVO, experts=Experts(n="num_local_experts", width="intermediate_size")),
    "granitemoeshared": _d(_QKVO, experts=Experts(n="num_local_experts", width="intermediate_size", shared="shared_intermediate_size")),
    "glm": _d(_QKV),
    "glm4": _d(_QKV, norms=4),
    "glm4_moe": _d(_QKV, qk_norm="head", qk_norm_if="use_qk_norm", mtp="deepseek",
                   experts=Experts(n="n_routed_experts", where="first_dense", shared_count="n_shared_experts", bias="buffer")),
    "glm4v_text": _d(q_bias=True, kv_bias=True, norms=4),
    "glm_ocr_text": _d(norms=4),
    "voxtral_realtime_text": _d(windows="every", layer_weights=(
        ("ada_norm_down", (32, "hidden_size")), ("ada_norm_up", ("hidden_size", 32)))),
    "glm4v_moe_text": _d(_QKV, experts=Experts(n="n_routed_experts", where="first_dense", shared_count="n_shared_experts",
        bias="buffer")),
    "seed_oss": _d(_QKV, o_bias="attention_out_bias", mlp_bias="mlp_bias"),
    "exaone": _d()._replace(names={"num_hidden_layers": ("num_layers", "num_hidden_layers")}),
    "exaone4": _d(qk_norm="head", windows="pattern"),
    "exaone_moe": _d(qk_norm="head", windows="pattern", mtp="deepseek",
                     experts=Experts(where="first_dense", shared_count="num_shared_experts", bias="buffer")),
    "apertus": _d(_QKVO, gated=False, qk_norm="head", layer_weights=(("alpha_p", (1,)), ("alpha_n", (1,)))),
    "apertus1p5_text": _d(_QKVO, gated=False, qk_norm="head", layer_weights=(("alpha_p", (1,)), ("alpha_n", (1,))))._replace(
        lower="decoders_by_rule:fewer_words_out"
    ),
    "arcee": _d(_QKVO, gated=False, mlp_bias="mlp_bias"),
    "nemotron": _d(_QKVO, _LAYER, mlp_bias="mlp_bias"),
    "ernie4_5": _d(q_bias="use_bias", kv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
    "ernie4_5_moe": _d(q_bias="use_bias", kv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias",
                       head_bias="use_bias", experts=Experts(
                           n="moe_num_experts", top_k="moe_k", where="range", shared_count="moe_num_shared_experts",
                           bias="linear", shared_bias="use_bias")),
    "hunyuan_v1_dense": _d(_QKVO, qk_norm="head"),
    "hunyuan_v1_moe": _d(_QKVO, qk_norm="head")._replace(
        lower="decoders_by_rule:hunyuan", names={"head_dim": ("head_dim", "attention_head_dim")}),
    "helium": _d(q_bias="attention_bias", kv_bias="attention_bias", mlp_bias="mlp_bias"),
    "diffllama": _d(_QKVO)._replace(lower="decoders_by_rule:diffllama"),
    "bitnet": _d(_QKVO, layer_weights=(("attn_sub_norm", ("hidden_size",)), ("ffn_sub_norm", ("intermediate_size",)))),
    "minimax_m2": _d(qk_norm="full", experts=Experts(n="num_local_experts", width="intermediate_size", bias="buffer")),
    "dots1": _d(_QKVO, qk_norm="head", windows="qwen", experts=_DSV1._replace(bias="buffer")),
    "gpt_oss": _d(_QKVO, sinks=True, windows="alternate",
                  experts=Experts(n="num_local_experts", width="intermediate_size", bias="linear", weight_bias=True)),
    "afmoe": _d(_QKVO, norms=4, qk_norm="head", output_gate="element", windows="pattern",
                experts=Experts(where="dense_count", shared_count="num_shared_experts", bias="linear"))
    ._replace(names={"sliding_window_pattern": ("global_attn_every_n_layers",)}),
    "hy_v3": _d(_QKVO, qk_norm="head", mlp_bias="mlp_bias", experts=Experts(
        where="first_dense", shared_count="num_shared_experts", bias="buffer", shared_bias="mlp_bias"))._replace(
        defaults={"first_k_dense_replace": 1, "moe_layer_freq": 1}),
    "grok-1": _d(norms=4, experts=Experts(width="intermediate_size"))._replace(
        lower="decoders_by_rule:grok", defaults={"tie_word_embeddings": True}),
    "hyperclovax": _d(_QKVO, mlp_bias="mlp_bias")._replace(lower="decoders_by_rule:post_normed"),
    "granite_swa": _d(_QKVO, mlp_bias="mlp_bias", sinks=True, windows="first_global"),
    "granitemoe_swa": _d(_QKVO, sinks=True, windows="first_global",
                         experts=Experts(n="num_local_experts", width="intermediate_size", shared="shared_intermediate_size")),
    "cohere2_moe": _d(_QKVO, norm="layer_no_bias", norms=1, windows="pattern", mlp_width="prefix",
                      experts=Experts(width="intermediate_size", shared_count="num_shared_experts"))._replace(
        defaults={"sliding_window_pattern": 4}),
    "jais2": _d(_QKVO, _LAYER, mlp_bias="mlp_bias"),
    "cwm": _d(windows="pattern", mlp_bias="mlp_bias"),
    "nanochat": _d(_QKVO, norm="none", gated=False),
    "solar_open": _d(_QKV, experts=_DSV1._replace(bias="buffer")),
    "internlm3": _d(q_bias="qkv_bias", kv_bias="qkv_bias", o_bias="bias", mlp_bias="bias"),
    "biogpt": _d(_ALL_BIAS, _LAYER, positions=("max_position_embeddings", 2)),
    "xglm": _d(_ALL_BIAS, _LAYER)._replace(names={
        "hidden_size": ("d_model",), "num_hidden_layers": ("num_layers",), "num_attention_heads": ("attention_heads",),
        "intermediate_size": ("ffn_dim",)}),
    "mellum": _d(_QKVO, qk_norm="head", experts=Experts()),
    "kolibri1": _d(norms=4, qk_norm="head", windows="pattern",
                   experts=Experts(shared="shared_expert_intermediate_size", bias="buffer"))._replace(
        defaults={"sliding_window_pattern": 5}),
    "flint": _d(_QKVO, qk_norm="head", sinks=True, windows="flint",
                experts=Experts(where="sparse_step", shared="shared_expert_intermediate_size"))._replace(
        defaults={"mlp_only_layers": [0, 1]}),
    "muse_glimmer_text": _d(_QKVO, norms=4, output_gate="element", windows="every"),
    "ernie4_5_vl_moe_text": _d(q_bias="use_bias", kv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias",
                               experts=Experts(n="moe_num_experts", where="range"))._replace(lower="decoders_by_rule:ernie_vl"),
    "paddleocr_vl_text": _d(q_bias="use_bias", kv_bias="use_bias", o_bias="use_bias", mlp_bias="use_bias"),
    "aria_text": _d(_QKVO, mlp_bias="mlp_bias", experts=Experts(n="moe_num_experts", top_k="moe_topk", width="intermediate_size",
                                                                shared_count="moe_num_shared_experts", shared_bias="mlp_bias")),
    "molmo2_text": _d(q_bias="attention_bias", kv_bias="attention_bias", qk_norm="head", model_weights=(
        ("embedding_of_image_tokens", ("additional_vocab_size", "hidden_size")),)),
    "openai-gpt": _d(_ALL_BIAS, _LAYER, final_norm=False, mlp_width="4x", positions=("max_position_embeddings", 0))._replace(
        names=_GPT, lower="decoders_by_rule:no_cache"),
    "ctrl": _d(_ALL_BIAS, _LAYER, head_bias=True)._replace(names=_GPT | {"intermediate_size": ("dff",)}),
    "doge": _d(_QKVO, mlp_bias="mlp_bias", qk_norm="head", windows="every")._replace(lower="decoders_by_rule:doge"),
    # released with their own code: defaults from configuration_*.py of the repository
    "molmo": _d(q_bias="qkv_bias", kv_bias="qkv_bias", mlp_width="half", qk_norm="full", qk_norm_if="attention_layer_norm", model_weights=(
        ("embedding_of_image_tokens", ("additional_vocab_size", "hidden_size")),))._replace(
        lower="decoders_by_rule:molmo",
        names={"vocab_size": ("embedding_size", "vocab_size"), "tie_word_embeddings": ("weight_tying", "tie_word_embeddings")},
        defaults={"additional_vocab_size": 128, "attention_layer_norm": False, "num_key_value_heads": None}),
    "solar": _d(_QKVO, mlp_bias="mlp_bias")._replace(defaults={"attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False}),
    "step1": _d(_QKVO, mlp_bias="mlp_bias")._replace(
        names={"num_key_value_heads": ("num_attention_groups", "num_key_value_heads")},
        defaults={"attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True}),
    "teleflm": _d(_QKVO, mlp_bias="mlp_bias")._replace(defaults={"attention_bias": False, "mlp_bias": False}),
    "telechat2": _d(o_bias=True, layer_weights=(("mlp_down_bias", ("hidden_size",)),))._replace(
        names={**_GPT, "intermediate_size": ("ffn_hidden_size", "intermediate_size"),
               "num_key_value_heads": ("num_key_value_heads",)}, defaults={"num_key_value_heads": None, "tie_word_embeddings": False}),
    "pangu_embedded": _d(q_bias="bias", kv_bias="bias", o_bias="bias")._replace(
        defaults={"bias": True, "tie_word_embeddings": False}),
    "plamo3": _d(norms=4, qk_norm="head", windows="pattern")._replace(defaults={"tie_word_embeddings": False}),
    "param2moe": _d(qk_norm="head", qk_norm_if="use_qk_norm",
                    experts=Experts(where="first_dense", shared_count="num_shared_experts", bias="buffer"))._replace(
        defaults={"first_k_dense_replace": 1, "use_qk_norm": False, "tie_word_embeddings": False}),
    "sarvam_moe": _d(qk_norm="head", qk_norm_if="use_qk_norm", q_bias="attention_bias", kv_bias="attention_bias", o_bias="use_bias",
                     experts=Experts(where="first_dense", n="n_routed_experts", shared_count="n_shared_experts", bias="buffer"))._replace(
        defaults={"use_bias": False, "tie_word_embeddings": False}),
    "baichuan": _d(),
    "internlm": _d(q_bias="bias", kv_bias="bias", o_bias="bias")._replace(defaults={"bias": True, "tie_word_embeddings": False}),
    "internlm2": _d(q_bias="bias", kv_bias="bias", o_bias="bias")._replace(defaults={"bias": True, "tie_word_embeddings": False}),
    "qwen": _d(q_bias=True, kv_bias=True, mlp_width="half")._replace(lower="decoders_by_rule:qwen",
        names={"head_dim": ("kv_channels",), "max_position_embeddings": ("seq_length",)}, defaults={"num_key_value_heads": None}),
    "minicpm": _d(_QKVO, experts=Experts(width="intermediate_size"))._replace(
        lower="decoders_by_rule:minicpm",
        defaults={"num_key_value_heads": None, "attention_bias": False, "tie_word_embeddings": True, "num_experts": 0}),
    "mimo": _d(q_bias=True, kv_bias=True, windows="qwen", mtp="mimo"),
    "xverse": _d()._replace(defaults={"num_key_value_heads": None, "tie_word_embeddings": False}),
    "orion": _d(q_bias="attention_bias", kv_bias="attention_bias", o_bias="attention_bias", norm="layer")._replace(
        defaults={"attention_bias": False}),
    "skywork": _d(),
    "k2_horizon": _d(_QKVO, qk_norm="heads", qk_norm_if="query_key_norm", output_gate="element", experts=Experts(
        where="sparse_step", shared_count="num_shared_experts"))._replace(lower="decoders_by_rule:k2_horizon"),
    "iquestloopcoder": _d(_QKVO, mlp_bias="mlp_bias")._replace(lower="decoders_by_rule:iquest_loop", defaults={
        "loop_num": 2, "loop_window_size": 64}),
    "openelm": _d()._replace(lower="decoders_by_rule:openelm", names={
        "hidden_size": ("model_dim",), "num_hidden_layers": ("num_transformer_layers",), "max_position_embeddings": ("max_context_length",),
        "tie_word_embeddings": ("share_input_output_layers",)}),
    "ouro": _d(norms=4)._replace(lower="decoders_by_rule:ouro"),
    "spark2_5": _d(output_gate="head", windows="pattern")._replace(
        lower="decoders_by_rule:spark", defaults={
            "sliding_window_pattern": 4, "sliding_window": 512, "headwise_attn_output_gate": True, "tie_word_embeddings": False}),
    "deepseek": _d(_QKVO, experts=_DSV1),
    "bailing_moe": _d(q_bias="use_qkv_bias", kv_bias="use_qkv_bias", o_bias="use_bias",
                      experts=Experts(where="first_dense", shared_count="num_shared_experts")),
    "bailing_moe_v2": _d(q_bias="use_qkv_bias", kv_bias="use_qkv_bias", o_bias="use_bias", qk_norm="head", qk_norm_if="use_qk_norm",
                         mtp="deepseek", experts=Experts(where="first_dense", shared_count="num_shared_experts", bias="buffer")),
}  # fmt: skip

#: Text models of multimodal classes: the same layers under a model type (and class defaults) of their own.
FAMILIES |= {
    text: FAMILIES[family]
    for text, family in {
        "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen2_5_omni_text": "qwen2",
        "qwen3_vl_text": "qwen3",
        "qwen3_vl_moe_text": "qwen3_moe", "qwen3_omni_moe_text": "qwen3_moe",
    }.items()
}  # fmt: skip
