"""Encoders as released: parameters against the Hub's totals (safetensors headers), and nothing kept.

Totals: `safetensors.total` of the Hub's model pages, as public lists of models repeat them.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import planned

F32 = CacheFormats("f32", "f32", "f32", "f32")


def spec(architecture: str, model_type: str, **keys: Any):
    config = {"architectures": [architecture], "model_type": model_type, "torch_dtype": "float32", **keys}
    return parse_spec(import_config(config, "config.json"), "config.json")


BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
MINI = {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 12, "max_position_embeddings": 512, "type_vocab_size": 2}
XLMR = {"vocab_size": 250002, "type_vocab_size": 1, "pad_token_id": 1}
NOMIC = {"n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 2048}
DEBERTA_V3 = {
    "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p",
    "position_biased_input": False, "max_relative_positions": -1, "max_position_embeddings": 512, "type_vocab_size": 0,
    "pooler_hidden_size": 768,
}  # fmt: skip
ONE = {"id2label": {"0": "LABEL_0"}}
RELEASED = {
    "sentence-transformers/all-MiniLM-L6-v2": (22_713_216, 512, "BertModel", "bert", MINI | {"num_hidden_layers": 6, "vocab_size": 30522}),
    "cross-encoder/ms-marco-MiniLM-L6-v2": (
        22_713_601, 512, "BertForSequenceClassification", "bert", MINI | ONE | {"num_hidden_layers": 6, "vocab_size": 30522}),
    "BAAI/bge-m3": (567_754_752, 8192, "XLMRobertaModel", "xlm-roberta", XLMR | {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "max_position_embeddings": 8194}),
    "BAAI/bge-reranker-v2-m3": (567_755_777, 8192, "XLMRobertaForSequenceClassification", "xlm-roberta", XLMR | ONE | {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "max_position_embeddings": 8194}),
    "jinaai/jina-embeddings-v3": (572_310_396, 8194, "XLMRobertaModel", "xlm-roberta", XLMR | {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "max_position_embeddings": 8194, "position_embedding_type": "rotary", "lora_rank": 4,
        "lora_adaptations": ["retrieval.query", "retrieval.passage", "separation", "classification", "text-matching"]}),
    "jinaai/jina-reranker-v2-base-multilingual": (278_437_633, 1024, "XLMRobertaForSequenceClassification", "xlm-roberta",
                                                  XLMR | BASE | ONE | {"max_position_embeddings": 1026}),
    "nomic-ai/nomic-embed-text-v1.5": (136_731_648, 2048, "NomicBertModel", "nomic_bert", NOMIC | {
        "activation_function": "swiglu", "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False, "type_vocab_size": 2,
        "vocab_size": 30528}),
    "nomic-ai/nomic-embed-text-v2-moe": (475_292_928, 2048, "NomicBertModel", "nomic_bert", NOMIC | {
        "activation_function": "gelu", "qkv_proj_bias": True, "mlp_fc1_bias": True, "mlp_fc2_bias": True, "type_vocab_size": 1,
        "vocab_size": 250048, "moe_every_n_layers": 2, "num_experts": 8, "moe_top_k": 2}),
    "Alibaba-NLP/gte-base-en-v1.5": (136_776_192, 8192, "NewModel", "new", BASE | {
        "vocab_size": 30528, "type_vocab_size": 0, "max_position_embeddings": 8192, "position_embedding_type": "rope"}),
    "Snowflake/snowflake-arctic-embed-m-v2.0": (305_368_320, 8192, "GteModel", "gte", BASE | {
        "vocab_size": 250048, "type_vocab_size": 1, "max_position_embeddings": 8192, "position_embedding_type": "rope"}),
    "meta-llama/Llama-Prompt-Guard-2-86M": (278_810_882, 512, "DebertaV2ForSequenceClassification", "deberta-v2", BASE | DEBERTA_V3 | {
        "vocab_size": 251000, "id2label": {"0": "BENIGN", "1": "MALICIOUS"}}),
    "sentence-transformers/LaBSE": (470_926_848, 512, "BertModel", "bert", BASE | {
        "vocab_size": 501153, "type_vocab_size": 2, "max_position_embeddings": 512}),
    "sentence-transformers/distiluse-base-multilingual-cased-v2": (134_734_080, 512, "DistilBertModel", "distilbert", {
        "dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6, "vocab_size": 119547, "max_position_embeddings": 512}),
    "sentence-transformers/all-mpnet-base-v2": (109_486_464, 512, "MPNetModel", "mpnet", BASE | {
        "vocab_size": 30527, "max_position_embeddings": 514, "pad_token_id": 1, "relative_attention_num_buckets": 32}),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_parameters_are_the_hubs_total(name: str) -> None:
    """all-MiniLM, LaBSE and mpnet store 512 or 514 position ids beside (22,713,728; 470,927,360; 109,486,978 on the Hub): no parameters."""
    total, length, architecture, model_type, keys = RELEASED[name]
    made = spec(architecture, model_type, **keys)
    assert count(lower(made, F32)).total == total
    assert made.max_context == length
    assert made.dtype == "f32"


def test_an_encoder_keeps_nothing_and_a_decoder_of_its_class_does() -> None:
    keys = BASE | {"vocab_size": 30522, "type_vocab_size": 2, "max_position_embeddings": 512}
    for engine in ("ideal", "transformers"):
        plan = planned(spec("BertModel", "bert", **keys), engine=engine, device="l4", context=512, batch=8)
        assert plan.cache.total_bytes == 0
        assert plan.fits is True
        weights = sum(entry.bytes for entry in plan.ledgers[0].entries if entry.name.startswith("weights"))
        assert weights == 4 * 109_482_240  # BertModel of 12 layers in f32
    plan = planned(spec("BertLMHeadModel", "bert", is_decoder=True, **keys), engine="ideal", context=512)
    assert plan.cache.total_bytes == 12 * 2 * 512 * 768 * 4


def test_jina_bert_counted_by_hand() -> None:
    """jina-embeddings-v2-base-en: no table of positions (ALiBi), a gated matrix of twice the width without a bias, a pooler."""
    embeddings = 30528 * 768 + 2 * 768 + 2 * 768  # words, two types of tokens, a norm
    attention = 4 * (768 * 768 + 768) + 2 * 768  # q, k, v, o with biases, a norm
    network = 768 * 2 * 3072 + 3072 * 768 + 768 + 2 * 768  # gated, down with a bias, a norm
    pooler = 768 * 768 + 768
    assert embeddings + 12 * (attention + network) + pooler == 137_368_320
    made = spec("JinaBertModel", "bert", **BASE, vocab_size=30528, type_vocab_size=2, max_position_embeddings=8192,
                position_embedding_type="alibi", feed_forward_type="geglu")  # fmt: skip
    assert count(lower(made, F32)).total == 137_368_320
    assert made.max_context == 8192


def test_heads_that_no_class_here_has_are_refused_by_name() -> None:
    with pytest.raises(KvplanError, match="ModernBertForPreTraining"):
        spec("ModernBertForPreTraining", "modernbert", **BASE, vocab_size=50368)
    with pytest.raises(KvplanError, match="inner_group_num"):
        spec("AlbertModel", "albert", **BASE, vocab_size=30000, inner_group_num=2)
