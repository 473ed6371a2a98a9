"""Encoders, one row each by model type, and the class names that lead to them."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.importers.hf.encoder_heads import HEADS, split
from kvplan.importers.hf.encoders import Encoder
from kvplan.importers.hf.rows import Row


def _e(lower: str = "encoders:encoder", names: Mapping[str, tuple[str, ...]] | None = None, **traits: object) -> Row:
    return Row(lower, Encoder(**traits), names or {})  # type: ignore[arg-type]


_ROBERTA = _e(heads="roberta", decodes=True, padded=True)
_DISTIL = {
    "hidden_size": ("dim", "hidden_size"), "num_hidden_layers": ("n_layers", "num_hidden_layers"),
    "num_attention_heads": ("n_heads", "num_attention_heads"), "intermediate_size": ("hidden_dim", "intermediate_size"),
    "type_vocab_size": ("",),
}  # fmt: skip
_NOMIC = {
    "hidden_size": ("n_embd", "hidden_size"), "num_hidden_layers": ("n_layer", "num_hidden_layers"),
    "num_attention_heads": ("n_head", "num_attention_heads"), "intermediate_size": ("n_inner", "intermediate_size"),
    "max_position_embeddings": ("n_positions", "max_position_embeddings"),
}  # fmt: skip
_XLM = {
    "hidden_size": ("emb_dim", "hidden_size"), "num_hidden_layers": ("n_layers", "num_hidden_layers"),
    "num_attention_heads": ("n_heads", "num_attention_heads"), "type_vocab_size": ("",),
}  # fmt: skip
_FUNNEL = {
    "hidden_size": ("d_model",), "num_attention_heads": ("n_head",), "head_dim": ("d_head",), "intermediate_size": ("d_inner",),
    "type_vocab_size": ("",),
}  # fmt: skip
_GTE = {
    "heads": "plain", "gated": True, "mlp_bias": False, "positions": False, "two_biases": False,
    "layer_weights": (("mlp_down_bias", ("hidden_size",)),),
}  # fmt: skip

ENCODERS: dict[str, Row] = {
    "bert": _e(decodes=True),
    "roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "xlm-roberta": _e("encoders_by_rule:xlm_roberta", heads="roberta", decodes=True, padded=True),
    "data2vec-text": _ROBERTA,
    "roberta-prelayernorm": _e(heads="roberta", decodes=True, padded=True, final_norm=True),
    "xlm-roberta-xl": _e(heads="roberta", decodes=True, padded=True, final_norm=True, embedding_norm=False),
    "megatron-bert": _e(final_norm=True, embedding_norm=False, decodes=True),
    "distilbert": _e(names=_DISTIL, heads="plain", two_biases=False),
    "electra": _e(decodes=True, heads="electra", two_biases=False, embedding="embedding_size"),
    "albert": _e("encoders_by_rule:albert", heads="albert", embedding="embedding_size", project=True),
    "rembert": _e(
        "encoders_by_rule:rembert", decodes=True, heads="roberta", two_biases=False, embedding="input_embedding_size", project=True
    ),
    "roformer": _e("encoders_by_rule:roformer", decodes=True, heads="roformer", positions=False, embedding="embedding_size"),
    "mpnet": _e(heads="roberta", padded=True, names={"type_vocab_size": ("",)}, model_weights=(
        ("relative_attention_bias", ("relative_attention_num_buckets", "num_attention_heads")),)),
    "deberta": _e("encoders_by_rule:deberta", heads="plain"),
    "deberta-v2": _e("encoders_by_rule:deberta_v2", heads="plain"),
    "ernie": _e("encoders_by_rule:ernie", decodes=True),
    "xmod": _e("encoders_by_rule:xmod", heads="roberta", decodes=True, padded=True),
    "roc_bert": _e("encoders_by_rule:roc_bert", heads="roc_bert", decodes=True),
    "big_bird": _e(heads="big_bird", decodes=True, attention_bias="use_bias", o_bias=True),
    "bert-generation": _e("encoders_by_rule:bert_generation", heads="generation", decodes=True, default="Decoder",
                          names={"type_vocab_size": ("",)}),
    "modernbert": _e("encoders_by_rule:modernbert", heads="modernbert", norm="layer_no_bias", final_norm=True, gated=True,
                     attention_bias="attention_bias", mlp_bias="mlp_bias", positions=False, first_norm=False,
                     names={"type_vocab_size": ("",)}),
    "eurobert": _e(heads="eurobert", norm="rms", final_norm=True, embedding_norm=False, gated=True, attention_bias="attention_bias",
                   mlp_bias="mlp_bias", positions=False, names={"decoder_bias": ("mlp_bias",), "type_vocab_size": ("",)}),
    "nomic_bert": _e("encoders_by_rule:nomic", heads="plain",
                     attention_bias=False, mlp_bias=False, positions=False, names=_NOMIC)._replace(
        defaults={"tie_word_embeddings": True}),
    "gte": _e(**_GTE),  # type: ignore[arg-type]
    "new": _e("encoders_by_rule:gte_released", **_GTE)._replace(model_type="gte"),  # type: ignore[arg-type]
    "layoutlm": _e(heads="pooled", model_weights=tuple(
        (f"{x}_position_embeddings", ("max_2d_position_embeddings", "hidden_size")) for x in "xyhw")),
    "jina_bert": _e("encoders_by_rule:jina_bert", positions=False),
    "fnet": _e("encoders_unlike_bert:fnet", heads="fnet", project=True),
    "ibert": _e(heads="roberta", padded=True),
    "longformer": _e(heads="roberta", padded=True, layer_weights=tuple(
        w for x in "qkv" for w in ((f"{x}_global", ("hidden_size", "hidden_size")), (f"{x}_global_bias", ("hidden_size",))))),
    "nystromformer": _e("encoders_unlike_bert:offset_two", heads="plain"),
    "yoso": _e("encoders_unlike_bert:offset_two", heads="plain"),
    "mra": _e("encoders_unlike_bert:offset_two", heads="plain"),
    "tapas": _e("encoders_unlike_bert:tapas", heads="tapas", names={"type_vocab_size": ("",)}),
    "squeezebert": _e("encoders_unlike_bert:squeezebert", heads="pooled"),
    "convbert": _e("encoders_unlike_bert:convbert", heads="roformer", two_biases=False, embedding="embedding_size"),
    "luke": _e("encoders_unlike_bert:luke", heads="tapas"),
    "mobilebert": _e("encoders_unlike_bert:mobilebert", heads="tapas"),
    "esmc": _e("encoders_unlike_bert:esmc", heads="masked", embedding_norm=False, gated=True, attention_bias="attention_bias",
               mlp_bias="mlp_bias", positions=False, two_biases=False, names={"type_vocab_size": ("",)}),
    "ultrabert": _e("encoders_unlike_bert:ultrabert", heads="bare", norm="rms", final_norm=True, embedding_norm=False, gated=True,
                    attention_bias="attention_bias", mlp_bias="mlp_bias", positions=False, names={"type_vocab_size": ("",)}),
    "xlm": _e("encoders_unlike_bert:xlm", heads="xlm", default="LMHeadModel", names=_XLM),
    "flaubert": _e("encoders_unlike_bert:xlm", heads="xlm", default="LMHeadModel", names=_XLM),
    "funnel": _e("encoders_unlike_bert:funnel", heads="vocab_bias", positions=False, names=_FUNNEL),
    "reformer": _e("encoders_unlike_bert:reformer", heads="bare", positions=False, embedding_norm=False, names={"type_vocab_size": ("",)}),
    "jina_embeddings_v3": _e(heads="roberta", positions=False),
}  # fmt: skip

#: The front of a class name -> family; what follows is a row of the family's table of heads.
PREFIXES: dict[str, str] = {
    "Albert": "albert", "Bert": "bert", "BgeM3Embedding": "xlm-roberta", "Camembert": "camembert", "Data2VecText": "data2vec-text",
    "Deberta": "deberta", "DebertaV2": "deberta-v2", "DistilBert": "distilbert", "Electra": "electra", "Ernie": "ernie",
    "EuroBert": "eurobert", "Gte": "gte", "GteNew": "new", "JinaBert": "jina_bert", "FNet": "fnet",
    "JinaEmbeddingsV3": "jina_embeddings_v3", "MPNet": "mpnet",
    "MegatronBert": "megatron-bert", "ModernBert": "modernbert", "New": "new", "NomicBert": "nomic_bert", "RemBert": "rembert",
    "RoFormer": "roformer", "Roberta": "roberta", "RobertaPreLayerNorm": "roberta-prelayernorm", "XLMRoberta": "xlm-roberta",
    "LayoutLM": "layoutlm", "IBert": "ibert", "Longformer": "longformer", "Nystromformer": "nystromformer", "Yoso": "yoso", "Mra": "mra",
    "Tapas": "tapas", "SqueezeBert": "squeezebert", "ConvBert": "convbert", "Luke": "luke", "MobileBert": "mobilebert", "Esmc": "esmc",
    "Ultrabert": "ultrabert", "XLM": "xlm", "XLMWith": "xlm", "Flaubert": "flaubert", "FlaubertWith": "flaubert", "Funnel": "funnel",
    "Reformer": "reformer",
    "XLMRobertaXL": "xlm-roberta-xl", "Xmod": "xmod", "RoCBert": "roc_bert", "BigBird": "big_bird", "BertGeneration": "bert-generation",
}  # fmt: skip


def family_of(name: str) -> str | None:
    """The family of an encoder's class; None for what is no class of one."""
    prefix, suffix = split(name)
    family = PREFIXES.get(prefix)
    return family if family and suffix in HEADS[ENCODERS[family].traits.heads] else None
