"""Families that few serve and the newest ones, one row each by model type."""

from __future__ import annotations

from kvplan.importers.hf.families import FAMILIES
from kvplan.importers.hf.hybrid import Hybrid
from kvplan.importers.hf.rows import Decoder, Row

_QKVO = {"q_bias": "attention_bias", "kv_bias": "attention_bias", "o_bias": "attention_bias"}

RARE: dict[str, Row] = {
    "jetmoe": Row("mixed:jetmoe", Decoder()),
    "zamba": Row("mixed:zamba", Hybrid()),
    "lfm3": Row("mixed:lfm3", Decoder(**_QKVO, qk_norm="head")),  # type: ignore[arg-type]
    "beam": Row("mixed:beam", Decoder(**_QKVO, qk_norm="head", output_gate="element")),  # type: ignore[arg-type]
    "modernbert-decoder": Row("mixed:modernbert_decoder", Decoder(**_QKVO)),  # type: ignore[arg-type]
    "interns1_pro_text": FAMILIES["qwen3_moe"]._replace(model_type="qwen3_moe"),
    "phi3_v": Row("phi:vision", Decoder(windows="every"), model_type="phi3"),
    "phi3small": Row("phi:small", Decoder(norm="layer", q_bias=True, kv_bias=True, o_bias=True, mlp_bias=True), {
        "intermediate_size": ("ff_intermediate_size",)}, {"tie_word_embeddings": True}),
}  # fmt: skip
