"""Families whose layers are not the usual decoder's: latent and linear attention, Mamba, encoder-decoders. One row each, by model type."""

from __future__ import annotations

from kvplan.importers.hf.encoder_decoder import Seq2Seq
from kvplan.importers.hf.hybrid import Hybrid
from kvplan.importers.hf.latent import DEEPSEEK_EXPERTS, Latent
from kvplan.importers.hf.minicpmv import OMNI, VISION
from kvplan.importers.hf.rows import Decoder, Experts, Row

_QKVO = {"q_bias": "attention_bias", "kv_bias": "attention_bias", "o_bias": "attention_bias"}
_GATED = Decoder(**_QKVO, qk_norm="head", output_gate="element", mtp="qwen")  # type: ignore[arg-type]
_QWEN_MOE = Experts(where="sparse_step", shared="shared_expert_intermediate_size", shared_gate=True)
_DEEPSEEK_V3 = Row("latent:deepseek", Latent())
_DSA = Row("latent:deepseek", Latent(sparse=True))
_BART_NAMES = {
    "hidden_size": ("d_model",), "num_hidden_layers": ("decoder_layers",), "num_attention_heads": ("decoder_attention_heads",),
    "intermediate_size": ("decoder_ffn_dim",),
}  # fmt: skip
_T5_NAMES = {
    "hidden_size": ("d_model",), "num_hidden_layers": ("num_layers",), "num_attention_heads": ("num_heads",),
    "intermediate_size": ("d_ff",),
}  # fmt: skip
_NEMOTRON = Hybrid(
    "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel", "expand", "use_conv_bias", "use_bias"
)  # fmt: skip
_MAMBA2 = Hybrid("num_heads", "head_dim", "n_groups", "state_size", "conv_kernel", "expand", "use_conv_bias", "use_bias")
_LFM2 = {"intermediate_size": ("block_ff_dim", "intermediate_size"), "tie_word_embeddings": ("tie_embedding", "tie_word_embeddings")}
_LONGCAT = {"num_hidden_layers": ("num_layers", "num_hidden_layers"), "intermediate_size": ("ffn_hidden_size",)}
_KIMI = {
    "num_experts_per_tok": ("num_experts_per_token", "num_experts_per_tok"), "n_shared_experts": ("num_shared_experts",
        "n_shared_experts"),
    "num_local_experts": ("num_experts", "num_local_experts"), "max_position_embeddings": ("model_max_length", "max_position_embeddings"),
}  # fmt: skip
_STEP = {
    "num_key_value_heads": ("num_attention_groups", "num_key_value_heads"), "num_experts": ("moe_num_experts", "n_routed_experts",
        "num_experts"), "num_experts_per_tok": ("moe_top_k", "num_experts_per_tok"),
    "max_position_embeddings": ("max_position_embeddings", "max_position_embedding", "max_seq_len"),
}  # fmt: skip
_RWKV = {"max_position_embeddings": ("context_length",)}
_NO_LIMIT = {"max_position_embeddings": None}

LATENT_RECURRENT: dict[str, Row] = {
    # multi-head latent attention
    "deepseek_v2": Row("latent:deepseek", Latent(experts=DEEPSEEK_EXPERTS._replace(shared_bias="mlp_bias"), mlp_bias=True)),
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3._replace(model_type="deepseek_v3"),
    "deepseek_v32": _DSA,
    "glm_moe_dsa": _DSA,
    "glm4_moe_lite": _DEEPSEEK_V3,
    "minicpm3": Row("latent:deepseek", Latent(experts=None, mtp=None, mlp_bias=True)),
    "youtu": Row("latent:deepseek", Latent(experts=None, mtp=None)),
    "mistral4": Row("latent:deepseek", Latent(experts=DEEPSEEK_EXPERTS)),
    "longcat_flash": Row("latent:longcat", Latent(), _LONGCAT),
    "deepseek_v4": Row("latent:deepseek_v4", Latent()),
    "deepseek_v41_text": Row("deepseek_v41:deepseek_v41", Latent(), {}, {"tie_word_embeddings": False}),
    "axk1": Row("latent_mixed:axk1", Latent()),
    "axk2": Row("latent_mixed:axk2", Latent(sparse=True)),
    "hy_v4": Row("latent_mixed:hy_v4", Latent(sparse=True)),
    "hy_v4_vl_text": Row("latent_mixed:hy_v4", Latent(sparse=True)),
    "glm5_next_text": Row("latent_mixed:glm5_next", Latent(sparse=True)),
    "bailing_hybrid": Row("latent_mixed:ling3", Latent(), _KIMI | {
        "n_shared_experts": ("num_shared_experts", "n_shared_experts"), "num_experts_per_tok": ("num_experts_per_token",
            "num_experts_per_tok")}),
    "bailing_moe_v2_5": Row("latent_mixed:ling2_5", Latent(), {}, {"first_k_dense_replace": 0, "tie_word_embeddings": False}),
    "mistral_large4_text": Row("latent_mixed:mistral_large4", Latent(sparse=True)),
    "pangu_ultra_moe": Row("latent_mixed:pangu_ultra", Latent(), {
        "q_lora_rank": ("q_lora_rank", "attention_q_lora_dim"), "kv_lora_rank": ("kv_lora_rank", "attention_kv_lora_dim"),
        "qk_rope_head_dim": ("qk_rope_head_dim", "attention_qk_rope_dim"), "qk_nope_head_dim": ("qk_nope_head_dim", "attention_qk_dim"),
        "v_head_dim": ("v_head_dim", "attention_v_dim"), "first_k_dense_replace": ("first_k_dense_replace", "num_dense_layers"),
        "n_routed_experts": ("n_routed_experts", "num_routed_experts"), "n_shared_experts": ("n_shared_experts", "num_shared_experts"),
        "num_nextn_predict_layers": ("num_nextn_predict_layers", "num_mtp_layers")}, {"tie_word_embeddings": False}),
    "sarvam_mla": Row("latent:deepseek", Latent(experts=DEEPSEEK_EXPERTS._replace(bias="buffer")), {}, {"tie_word_embeddings": False}),
    # sliding and full layers of different widths; indexers over grouped attention
    "step3_text": Row("step:step3", Decoder(), _STEP | {"num_key_value_heads": ("num_attention_groups",)}, {
        "num_attention_groups": 1, "tie_word_embeddings": False}),
    "step3p5": Row("step:step3p5", Decoder(), _STEP),
    "minimax_m3_vl_text": Row("sparse:minimax_m3", Decoder()),
    # Mamba and hybrids
    "mamba": Row("hybrid:pure_mamba1", Hybrid()),
    "falcon_mamba": Row("hybrid:pure_mamba1", Hybrid()),
    "mamba2": Row("hybrid:pure_mamba2", _MAMBA2),
    "jamba": Row("hybrid:jamba", Hybrid()),
    "bamba": Row("hybrid:bamba", Hybrid()),
    "granitemoehybrid": Row("hybrid:granite", Hybrid()),
    "falcon_h1": Row("hybrid:falcon_h1", Hybrid(gate_norm="mamba_rms_norm")),
    "nemotron_h": Row("hybrid:nemotron_h", _NEMOTRON),
    "zamba2": Row("hybrid:zamba2", Hybrid(
        "n_mamba_heads", "mamba_headdim", "mamba_ngroups", "mamba_d_state", "mamba_d_conv", "mamba_expand", "",
        "add_bias_linear")),
    # linear attention, convolutions, RWKV
    "qwen3_next": Row("linear:qwen_next", _GATED._replace(experts=_QWEN_MOE, mtp="qwen_next")),
    "qwen3_5_text": Row("linear:qwen_next", _GATED),
    "qwen3_5_moe_text": Row("linear:qwen_next", _GATED._replace(experts=_QWEN_MOE._replace(where="all"))),
    "lara_mini": Row("linear:lara_mini", Decoder(**_QKVO, qk_norm="head", experts=_QWEN_MOE._replace(where="all", shared_gate=False))),  # type: ignore[arg-type]
    "olmo_hybrid": Row("linear:olmo_hybrid", Decoder(**_QKVO, qk_norm="full")),  # type: ignore[arg-type]
    "kimi_linear": Row("linear:kimi_linear", Decoder(), _KIMI, {"first_k_dense_replace": 1, "moe_layer_freq": 1}),
    "jet_nemotron": Row("linear:jet_nemotron", Decoder()),
    "minimax": Row("linear:minimax", Decoder()),
    "lfm2": Row("linear:lfm2", Decoder(), _LFM2),
    "lfm2_moe": Row("linear:lfm2", Decoder(experts=Experts(where="dense_count", bias="buffer")), _LFM2),
    "recurrent_gemma": Row(
        "linear:recurrent_gemma", Decoder(q_bias="attention_bias", kv_bias="attention_bias"),
        {"block_types": ("block_types", "_block_types")}),
    "rwkv": Row("rwkv:rwkv4", Decoder(), _RWKV),
    "rwkv5": Row("rwkv:rwkv5", Decoder(), _RWKV, {"head_size": 64, "tie_word_embeddings": False}),
    "rwkv6": Row("rwkv:rwkv6", Decoder(), _RWKV, {"head_size": 64, "tie_word_embeddings": False}),
    "state_spaces": Row("hybrid:state_spaces", Hybrid(), {"hidden_size": ("d_model",), "num_hidden_layers": ("n_layer",)}),
    # Gemma 3n and 4, Llama 4 and others with a layout of their own
    "gemma3n_text": Row("gemma:gemma3n", Decoder()),
    "gemma4_text": Row("gemma:gemma4", Decoder()),
    "gemma4_unified_text": Row("gemma:gemma4", Decoder()),
    "llama4_text": Row("decoders_by_layout:llama4", Decoder(**_QKVO)),  # type: ignore[arg-type]
    "mllama_text_model": Row("decoders_by_layout:mllama", Decoder()),
    "dbrx": Row("decoders_by_layout:dbrx", Decoder(), {
        "hidden_size": ("d_model",), "num_hidden_layers": ("n_layers",), "num_attention_heads": ("n_heads",),
        "max_position_embeddings": ("max_seq_len",)}),
    "nemotron-nas": Row("decoders_by_layout:nemotron_nas", Decoder(), {}, {"tie_word_embeddings": False}),
    "chatglm": Row("decoders_by_layout:chatglm", Decoder(), {
        "vocab_size": ("padded_vocab_size", "vocab_size"), "num_hidden_layers": ("num_layers", "num_hidden_layers"),
        "max_position_embeddings": ("seq_length", "max_sequence_length")},
        {"tie_word_embeddings": False}),
    "arctic": Row("decoders_by_layout:arctic", Decoder(**_QKVO), {}, {"tie_word_embeddings": False}),  # type: ignore[arg-type]
    "mimo_v2_flash": Row("decoders_by_layout:mimo_v2", Decoder()),
    "laguna": Row("decoders_by_layout:laguna", Decoder(**_QKVO, qk_norm="head"), {}, {"first_k_dense_replace": 1, "moe_layer_freq": 1}),  # type: ignore[arg-type]
    "minicpmv": Row("minicpmv:lowered", VISION),
    "minicpmo": Row("minicpmv:lowered", OMNI),
    # encoder-decoder models
    "t5": Row("encoder_decoder:t5", Decoder(), _T5_NAMES, {"tie_word_embeddings": True} | _NO_LIMIT),
    "mt5": Row("encoder_decoder:t5", Decoder(), _T5_NAMES, _NO_LIMIT),
    "umt5": Row("encoder_decoder:t5", Decoder(layer_weights=(("relative_attention_bias", (1,)),)), _T5_NAMES, _NO_LIMIT),
    **{f"{name}_encoder": Row("encoder_decoder:t5_encoder", Decoder(layer_weights=extra), _T5_NAMES, _NO_LIMIT, name)
       for name, extra in (("t5", ()), ("mt5", ()), ("umt5", (("relative_attention_bias", (1,)),)))},
    "t5gemma": Row("encoder_decoder:t5gemma", Decoder()),
    "bart": Row("encoder_decoder:bart", Seq2Seq(), _BART_NAMES),
    "mbart": Row("encoder_decoder:bart", Seq2Seq(final_norm=True), _BART_NAMES),
    "plbart": Row("encoder_decoder:bart", Seq2Seq(), _BART_NAMES),
    "blenderbot": Row("encoder_decoder:bart", Seq2Seq(offset=0, embedding_norm=False, final_norm=True), _BART_NAMES),
    "blenderbot-small": Row("encoder_decoder:bart", Seq2Seq(offset=0), _BART_NAMES),
    "pegasus": Row("encoder_decoder:bart", Seq2Seq(offset=0, embedding_norm=False, final_norm=True), _BART_NAMES),
    "marian": Row("encoder_decoder:bart", Seq2Seq(offset=0, embedding_norm=False), _BART_NAMES),
    "m2m_100": Row("encoder_decoder:bart", Seq2Seq(offset=None, embedding_norm=False, final_norm=True), _BART_NAMES),
    "bart_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(), _BART_NAMES, model_type="bart"),
    "mbart_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(final_norm=True), _BART_NAMES, model_type="mbart"),
    "whisper": Row("encoder_decoder:whisper", Decoder(), _BART_NAMES),
    "blenderbot_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(offset=0, embedding_norm=False, final_norm=True), _BART_NAMES,
                              model_type="blenderbot"),
    "blenderbot-small_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(offset=0), _BART_NAMES, model_type="blenderbot-small"),
    "pegasus_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(offset=0, embedding_norm=False, final_norm=True), _BART_NAMES,
                           model_type="pegasus"),
    "plbart_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(), _BART_NAMES, model_type="plbart"),
    "mvp_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(), _BART_NAMES, model_type="mvp"),
    "mvp": Row("encoder_decoder:bart", Seq2Seq(), _BART_NAMES),
    "marian_decoder": Row("encoder_decoder:bart_decoder", Seq2Seq(offset=0, embedding_norm=False), _BART_NAMES, model_type="marian"),
}  # fmt: skip
