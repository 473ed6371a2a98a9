"""Families that few serve and the newest ones, one row each by model type."""

from __future__ import annotations

from kvplan.importers.hf.encoder_decoder import Seq2Seq
from kvplan.importers.hf.families import FAMILIES
from kvplan.importers.hf.hybrid import Hybrid
from kvplan.importers.hf.latent import Latent
from kvplan.importers.hf.rows import Decoder, Experts, Row

_QKVO = {"q_bias": "attention_bias", "kv_bias": "attention_bias", "o_bias": "attention_bias"}

_BART = {
    "hidden_size": ("d_model",), "num_hidden_layers": ("decoder_layers",), "num_attention_heads": ("decoder_attention_heads",),
    "intermediate_size": ("decoder_ffn_dim",),
}  # fmt: skip
_PROPHET = {
    "num_hidden_layers": ("num_decoder_layers",), "num_attention_heads": ("num_decoder_attention_heads",),
    "intermediate_size": ("decoder_ffn_dim",),
}  # fmt: skip
_SEAMLESS = {**_BART, "hidden_size": ("hidden_size",)}
_T5 = {
    "hidden_size": ("d_model",), "num_hidden_layers": ("num_layers",), "num_attention_heads": ("num_heads",),
    "intermediate_size": ("d_ff",),
}  # fmt: skip

_SPARSE = Experts(n="n_routed_experts", where="first_dense", shared_count="n_shared_experts", shared_bias="mlp_bias")
_OCR = Decoder(**_QKVO, mlp_bias="mlp_bias", experts=_SPARSE)  # type: ignore[arg-type]
_MOSHI = Row("wrappers_by_rule:moshi", Decoder(mlp_width="half", windows="every", model_weights=(("embedding_row", (1, "hidden_size")),)),
             {"intermediate_size": ("ffn_dim",)}, model_type="moshi")  # fmt: skip

_EAGLE3 = Row("drafters:eagle3", Decoder(**_QKVO, mlp_bias="mlp_bias"), model_type="llama")  # type: ignore[arg-type]
_DFLASH = Row("drafters:dflash", FAMILIES["qwen3"].traits, model_type="qwen3")

#: configuration_gemma4_assistant.py
_ASSISTANT = Row("drafters:gemma4_assistant", Decoder(), {}, {
    "tie_word_embeddings": True, "use_ordered_embeddings": False, "num_centroids": 2048, "backbone_hidden_size": 1536,
})  # fmt: skip

RARE: dict[str, Row] = {
    "eagle3": _EAGLE3, "eagle3_qwen3": _EAGLE3._replace(model_type="qwen3"), "dflash": _DFLASH,
    "dspark": _DFLASH._replace(lower="drafters:dspark"), "dflash2": _DFLASH._replace(lower="drafters:dflash2"),
    "dflash_laguna": _DFLASH._replace(lower="drafters:dflash_laguna", model_type="laguna"),
    "gemma4_assistant": _ASSISTANT, "gemma4_unified_assistant": _ASSISTANT,
    "k3_dspark": Row("drafters:dspark_latent", Latent(experts=None)),
    "sdar": FAMILIES["qwen3"]._replace(model_type="qwen3"), "sdar_moe": FAMILIES["qwen3_moe"]._replace(model_type="qwen3_moe"),
    "chameleon": Row("wrappers_by_rule:chameleon", Decoder(**_QKVO, mlp_bias="mlp_bias", qk_norm="heads", qk_norm_bias=True)),  # type: ignore[arg-type]
    "moshi": _MOSHI, "moshi_whole": _MOSHI._replace(lower="wrappers_by_rule:moshi_whole"),
    "deepseek_ocr2_text": Row(traits=_OCR), "unlimited_ocr_text": Row(traits=_OCR),
    "qwen4_exp_text": Row("convolved:qwen4", Decoder(**_QKVO, qk_norm="head", output_gate="element", experts=Experts(  # type: ignore[arg-type]
        shared="shared_expert_intermediate_size", shared_gate=True))),
    "cohere_compass_text": FAMILIES["cohere2"],
    "dots3_note_text": Row("latent_mixed:dots3_note", Latent(experts=Experts(
        n="n_routed_experts", where="first_dense", shared="shared_experts_intermediate_size", shared_count="n_shared_experts",
        bias="buffer"))),
    "inkling_text": Row("convolved:inkling", Decoder(qk_norm="head")),
    "inkling2_text": Row("convolved:inkling2", Decoder()),
    "inkling2_loop_text": Row("convolved:inkling2", Decoder()),
    "dory": Row("decoders_by_rule:dory", Decoder(
        q_bias="attention_bias", kv_bias="attention_bias", o_bias="attention_bias", mlp_bias="mlp_bias")),
    "hrm_text": Row("decoders_unusual:hrm_text", Decoder(**_QKVO, norm="none", mlp_bias="mlp_bias")),  # type: ignore[arg-type]
    "cpmant": Row("decoders_unusual:cpmant", Decoder(), {"intermediate_size": ("dim_ff",), "head_dim": ("dim_head",)}),
    "idefics": Row("decoders_unusual:idefics", Decoder()),
    "evolla": Row("decoders_unusual:evolla", Decoder(**_QKVO, mlp_bias="mlp_bias")),  # type: ignore[arg-type]
    "diffusion_gemma_text": Row("decoders_unusual:diffusion_gemma", Decoder()),
    "zaya": Row("zaya_xlstm:zaya", Decoder(experts=Experts())),
    "xlstm": Row("zaya_xlstm:xlstm", Decoder(), {"num_attention_heads": ("num_heads",)}),
    "encoder-decoder": Row("two_encoders:joined", Decoder()),
    "vision-encoder-decoder": Row("image_seq2seq:joined", Decoder()),
    "pix2struct": Row("image_seq2seq:pix2struct", Decoder()),
    "pp_formulanet": Row("image_seq2seq:pp_formulanet", Seq2Seq(final_norm=True)),
    "whisper_decoder": Row("image_seq2seq:whisper_decoder", Decoder(), _BART, model_type="whisper"),
    "jetmoe": Row("decoders_by_layer:jetmoe", Decoder()),
    "zamba": Row("decoders_by_layer:zamba", Hybrid()),
    "lfm3": Row("decoders_by_layer:lfm3", Decoder(**_QKVO, qk_norm="head")),  # type: ignore[arg-type]
    "beam": Row("decoders_by_layer:beam", Decoder(**_QKVO, qk_norm="head", output_gate="element")),  # type: ignore[arg-type]
    "modernbert-decoder": Row("decoders_by_layer:modernbert_decoder", Decoder(**_QKVO)),  # type: ignore[arg-type]
    "interns1_pro_text": FAMILIES["qwen3_moe"]._replace(model_type="qwen3_moe"),
    "led": Row("long_seq2seq:led", Seq2Seq(offset=None), _BART),
    "bigbird_pegasus": Row("long_seq2seq:bigbird_pegasus", Seq2Seq(offset=0), _BART),
    "bigbird_pegasus_decoder": Row("long_seq2seq:bigbird_pegasus_decoder", Seq2Seq(offset=0), _BART, model_type="bigbird_pegasus"),
    "trocr": Row("long_seq2seq:trocr", Seq2Seq(), _BART),
    "nllb-moe": Row("long_seq2seq:nllb_moe", Seq2Seq(offset=None, embedding_norm=False, final_norm=True), _BART),
    "fsmt": Row("long_seq2seq:fsmt", Seq2Seq(embedding_norm=False), _BART | {"vocab_size": ("tgt_vocab_size",)}),
    "seamless_m4t": Row("long_seq2seq:seamless", Seq2Seq(offset=None, embedding_norm=False, final_norm=True), _SEAMLESS),
    "seamless_m4t_v2": Row("long_seq2seq:seamless", Seq2Seq(offset=None, embedding_norm=False, final_norm=True), _SEAMLESS),
    "prophetnet": Row("small_multimodal:prophetnet", Seq2Seq(offset=0), _PROPHET),
    "prophetnet_decoder": Row("small_multimodal:prophetnet_decoder", Seq2Seq(offset=0), _PROPHET, model_type="prophetnet"),
    "florence2": Row("small_multimodal:florence2", Seq2Seq()),
    "t5gemma2": Row("small_multimodal:t5gemma2", Decoder(**_QKVO, qk_norm="head")),  # type: ignore[arg-type]
    "blip": Row("small_multimodal:blip", Decoder()),
    "git": Row("small_multimodal:git", Decoder()),
    "kosmos-2": Row("small_multimodal:kosmos2", Decoder(
        norm="layer", gated=False, q_bias=True, kv_bias=True, o_bias=True, mlp_bias=True, layer_weights=(
            ("inner_attn_norm", ("hidden_size",)), ("inner_attn_norm_bias", ("hidden_size",)),
            ("ffn_norm", ("intermediate_size",)), ("ffn_norm_bias", ("intermediate_size",))))),
    "kosmos-2.5": Row("small_multimodal:kosmos2_5", Decoder(
        norm="layer", gated=False, q_bias=True, kv_bias=True, o_bias=True, mlp_bias=True, layer_weights=(
            ("ffn_norm", ("intermediate_size",)), ("ffn_norm_bias", ("intermediate_size",))))),
    "udop": Row("long_seq2seq:udop", Decoder(), _T5),
    "muse_spark_text": Row("decoders_by_layer:muse_spark", Decoder(**_QKVO, output_gate="element")),  # type: ignore[arg-type]
    "pegasus_x": Row("long_seq2seq:pegasus_x", Seq2Seq(offset=None, embedding_norm=False, final_norm=True), _BART),
    "longt5": Row("long_seq2seq:longt5", Decoder(), _T5),
    "switch_transformers": Row("long_seq2seq:switch", Decoder(), _T5),
    "phi3_v": Row("phi:vision", Decoder(windows="every"), model_type="phi3"),
    "phi3small": Row("phi:small", Decoder(norm="layer", q_bias=True, kv_bias=True, o_bias=True, mlp_bias=True), {
        "intermediate_size": ("ff_intermediate_size",)}, {"tie_word_embeddings": True}),
}  # fmt: skip
