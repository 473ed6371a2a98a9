"""Encoders (BERT and its like): attention in both directions, so nothing is kept. One row of traits per family.

Shapes from transformers 5.23.0 (models/*/modeling_*.py). A class used as a decoder (`is_decoder`, `BertLMHeadModel`) keeps K and V.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.importers.hf.attention import bias, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model, shapes
from kvplan.importers.hf.encoder_heads import HEADS, head, norm, split
from kvplan.importers.hf.experts import dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Bias
from kvplan.importers.hf.stack import Block, block, weight

_WORDS = ("ForMaskedLM", "ForPreTraining", "ForCausalLM", "LMHeadModel")
NO_CACHE = "an encoder: it keeps no cache"
#: modeling_bert.py BertLayer, and its copies in the classes that decode.
_CROSSED = "add_cross_attention without is_decoder: transformers' class stops at it, and cross-attention is not counted"


class Encoder(NamedTuple):
    """heads      table of HEADS: what each class puts on top
    embedding     key of the embedding's width, where it is not the hidden size
    project       the embedding is projected to the hidden size: always, or only where the widths differ
    o_bias        where the output has one though `attention_bias` says that queries, keys and values have none
    first_norm    the first layer has a norm before its attention (ModernBERT has none)
    two_biases    the masked-language head has a bias beside its decoder's, one tensor only where it is tied
    decodes       `is_decoder` makes the class keep K and V (transformers); elsewhere the flag does nothing
    padded        positions count from the padding token's id + 1, so that the table's first rows serve no token (RoBERTa: 514 for 512)
    default       the head of a config that names no class
    """

    heads: str = "bert"
    norm: str = "layer"
    norms: int = 2
    final_norm: bool = False
    embedding_norm: bool = True
    gated: bool = False
    attention_bias: Bias = True
    o_bias: Bias = False
    mlp_bias: Bias = True
    positions: bool = True
    embedding: str = ""
    project: bool = False
    first_norm: bool = True
    two_biases: bool = True
    decodes: bool = False
    crosses: bool = False  # an encoder stands beside it, which its cross-attention reads
    padded: bool = False
    default: str = "ForMaskedLM"
    layer_weights: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    model_weights: tuple[tuple[str, tuple[str | int, ...]], ...] = ()


def suffix_of(f: Fields, t: Encoder) -> str:
    """Which head the class named in the config has."""
    names = f.data.get("architectures")
    return split(names[0])[1] if isinstance(names, list) and names else t.default


def parts_of(f: Fields, t: Encoder, suffix: str) -> tuple[str, ...]:
    """The parts of a head. Raises SpecError for a class that has none here."""
    table = HEADS[t.heads]
    if suffix not in table:
        raise f.fault("architectures", f"what the class puts on top of the encoder is not known; known are: {', '.join(table)}")
    return table[suffix]


def encoder(f: Fields, t: Encoder) -> Stack:
    """The whole model: embeddings, layers, head."""
    n = f.dim("num_hidden_layers")
    writes = t.decodes and f.flag("is_decoder")
    layer = layer_of(f, t, writes)
    layers = [layer] * n if t.first_norm else [{**layer, "norms": t.norms - 1}, *[layer] * (n - 1)]
    return whole(f, t, layers, writes)


def layer_of(f: Fields, t: Encoder, writes: bool = False) -> Block:
    """One layer; `writes`: as a decoder, which keeps K and V."""
    heads, kv, dim = f.dim("num_attention_heads"), kv_heads(f), head_dim(f)
    on = {"q_bias": bias(f, t.attention_bias), "kv_bias": bias(f, t.attention_bias), "o_bias": bias(f, t.o_bias or t.attention_bias)}
    on = {key: True for key, has in on.items() if has}
    reads: dict[str, Any] = {"kind": "encoder", "heads": heads, "kv_heads": kv, "head_dim": dim, **on}
    crosses = f.flag("add_cross_attention") and writes  # alone it has no encoder to read, and keeps nothing of one
    mixers = [softmax(heads, kv, dim, **on) if writes else reads, *([reads | {"kind": "cross" if t.crosses else "encoder"}] * crosses)]
    mlp = dense_of(f.dim("intermediate_size"), gated=t.gated, bias=bias(f, t.mlp_bias))
    return block(mixers, [mlp], t.norms + crosses, shapes(f, t.layer_weights))


def whole(f: Fields, t: Encoder, layers: list[Block], writes: bool = False) -> Stack:
    """What every encoder has beside its layers."""
    hidden = f.dim("hidden_size")
    width = f.dim_or(t.embedding, hidden) if t.embedding else hidden
    suffix = suffix_of(f, t)
    front = norm("embedding_norm", width, bias=t.norm == "layer") if t.embedding_norm else []
    front += [weight("position_embeddings", f.dim("max_position_embeddings"), width)] if t.positions else []
    front += [weight("token_type_embeddings", f.dim("type_vocab_size"), width)] if f.count("type_vocab_size") else []
    if width != hidden or t.project:
        front += [weight("embedding_projection", hidden, width), weight("embedding_projection_bias", hidden)]
    made = model(f, layers, norm=t.norm, weights=front + shapes(f, t.model_weights) + head(f, parts_of(f, t, suffix), hidden, width))
    if width != hidden:
        made["embedding_size"] = width
    if "mlm" in parts_of(f, t, suffix) and t.two_biases and not made["tied_embeddings"]:
        made["weights"].append(weight("mlm_second_bias", f.dim("vocab_size")))
    if suffix not in _WORDS or (suffix == "ForPreTraining" and "mlm" not in parts_of(f, t, suffix)):
        made |= {"lm_head": False, "tied_embeddings": False}
    if t.padded and t.positions and made["max_context"]:
        made["max_context"] = max(1, made["max_context"] - f.count("pad_token_id") - 1)
    crossed = t.decodes and f.flag("add_cross_attention") and not writes
    notes = [] if writes else [NO_CACHE, *[_CROSSED] * crossed]
    return {**made, "final_norm": t.final_norm, "notes": notes}
