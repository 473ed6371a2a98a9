"""Encoder-decoder models: T5, BART and its like, Whisper."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.importers.hf.attention import kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.encoder_heads import instead, norm
from kvplan.importers.hf.experts import dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import block, weight


class Seq2Seq(NamedTuple):
    """offset: rows that a learned position table has beyond its length; None: sinusoids, no table."""

    offset: int | None = 2
    embedding_norm: bool = True
    final_norm: bool = False


def t5(f: Fields, t: Decoder) -> Stack:
    """T5, mT5, UMT5: relative position biases (in every layer for UMT5), cross-attention in every decoder layer.

    transformers ties the output to the embedding only where tie_word_embeddings says so in the checkpoint's own code (flan-t5: apart).
    """
    heads, head, hidden, n = f.dim("num_heads"), f.dim("d_kv"), f.dim("d_model"), f.dim("num_layers")
    gated = f.opt("is_gated_act")
    gated = gated if isinstance(gated, bool) else (f.text("feed_forward_proj") or "relu").startswith("gated")
    mlp = dense_of(f.dim("d_ff"), gated=gated)
    buckets = weight("relative_attention_bias", f.dim("relative_attention_num_buckets"), heads, role="attention")
    every = bool(t.layer_weights)
    sizes: dict[str, Any] = {"heads": heads, "head_dim": head}
    reads = {"kind": "encoder", "kv_heads": heads, **sizes}
    crosses = {"kind": "cross", "kv_heads": heads, **sizes}
    own = [buckets] if every else []
    encoder = [block([reads], [mlp], 2, own)] * n
    decoder = [block([{"kind": "mha", **sizes}, crosses], [mlp], 3, own)] * f.dim_or("num_decoder_layers", n)
    extra = [weight("encoder_norm", hidden, role="norm"), *([] if every else [buckets])]
    made = model(f, decoder, weights=[] if every else [buckets])
    return {**made, "encoder": {"layers": encoder, "weights": extra}}


def t5_encoder(f: Fields, t: Decoder) -> Stack:
    """The encoder alone, bare (T5EncoderModel: sentence-t5, gtr) or with a classifier of tokens. It keeps no cache."""
    made = t5(f, t)
    encoder = made.pop("encoder")
    name = str((f.items("architectures") or [""])[0])
    weights = encoder["weights"] + instead(f, name, f.dim("d_model"))
    bare = {"lm_head": False, "tied_embeddings": False, "final_norm": False, "layers": encoder["layers"], "weights": weights}
    return {**made, **bare, "notes": ["an encoder: it keeps no cache"]}


def bart(f: Fields, t: Seq2Seq) -> Stack:
    """BART, mBART, Marian, Pegasus, M2M100: post- or pre-norm layers, all with biases."""
    hidden = f.dim("d_model")
    if f.flag("use_prompt"):
        raise f.fault("use_prompt", "Mvp's prompts are not modelled; declare the model as a spec file")
    sizes = [
        {"heads": f.dim(f"{side}_attention_heads"), "head_dim": _split(f, f"{side}_attention_heads")} for side in ("encoder", "decoder")
    ]
    on = {"q_bias": True, "kv_bias": True, "o_bias": True}
    reads = {"kind": "encoder", "kv_heads": sizes[0]["heads"], **sizes[0], **on}
    writes, crosses = {"kind": "mha", **sizes[1], **on}, {"kind": "cross", "kv_heads": sizes[1]["heads"], **sizes[1], **on}
    encoder = [block([reads], [dense_of(f.dim("encoder_ffn_dim"), gated=False, bias=True)])] * f.dim("encoder_layers")
    decoder = [block([writes, crosses], [dense_of(f.dim("decoder_ffn_dim"), gated=False, bias=True)], 3)] * f.dim("decoder_layers")
    sides: list[list[dict[str, Any]]] = []
    for side in ("encoder", "decoder"):
        own = [] if t.offset is None else [weight(f"{side}_positions", f.dim("max_position_embeddings") + t.offset, hidden)]
        own += norm(f"{side}_embedding_norm", hidden) if t.embedding_norm else []
        own += norm(f"{side}_norm", hidden) if t.final_norm and side == "encoder" else []
        own += [weight(f"{side}_embedding", vocab, hidden, role="embedding") for vocab in _apart(f, side)]
        sides.append(own)
    apart = f.opt("share_encoder_decoder_embeddings") is False  # Marian: two vocabularies
    rows = f.dim_or("decoder_vocab_size", f.dim("vocab_size")) if apart else f.dim("vocab_size")
    made = model(f, decoder, norm="layer", weights=[*sides[1], weight("final_logits_bias", rows, role="buffer")])
    made["vocab_size"] = rows
    made["final_norm"] = t.final_norm
    return {**made, "encoder": {"layers": encoder, "weights": sides[0]}}


def _apart(f: Fields, side: str) -> list[int]:
    """Rows of an embedding that one side has for itself: none where all are tied."""
    if f.opt("share_encoder_decoder_embeddings") is False:  # Marian: the head is the decoder's own, so only the encoder's is beside it
        return [f.dim("vocab_size")] if side == "encoder" else []
    rows = f.dim("vocab_size")
    return [] if f.flag("tie_word_embeddings") else [f.dim_or("decoder_vocab_size", rows) if side == "decoder" else rows]


def bart_decoder(f: Fields, t: Seq2Seq) -> Stack:
    """The decoder alone (BartForCausalLM): its cross-attention is stored but reads nothing, so it keeps no cache."""
    made = bart(f, t)
    made.pop("encoder")
    made["weights"] = [w for w in made["weights"] if w.get("role") not in ("buffer", "embedding")]
    for layer in made["layers"][:1]:
        layer["mixers"][1] = {**layer["mixers"][1], "kind": "encoder"}
    made["vocab_size"] = f.dim_or("decoder_vocab_size", made["vocab_size"])
    return {**made, "notes": ["decoder alone: cross-attention without an encoder keeps no cache"]}


def _split(f: Fields, key: str) -> int:
    hidden, heads = f.dim("d_model"), f.dim(key)
    if hidden % heads:
        raise f.fault(key, f"{heads} does not divide d_model ({hidden})")
    return hidden // heads


def whisper(f: Fields, t: Decoder) -> Stack:
    """Whisper: two convolutions before the encoder, sinusoids stored as tables, keys without bias, max_source_positions encoder tokens."""
    hidden, source = f.dim("d_model"), f.dim("max_source_positions")
    sizes = [
        {"heads": f.dim(f"{side}_attention_heads"), "head_dim": _split(f, f"{side}_attention_heads")} for side in ("encoder", "decoder")
    ]
    on = {"q_bias": True, "o_bias": True}
    value_bias = weight("v_bias", hidden, role="norm")
    reads = {"kind": "encoder", "kv_heads": sizes[0]["heads"], **sizes[0], **on}
    writes = {"kind": "mha", **sizes[1], **on}
    crosses = {"kind": "cross", "kv_heads": sizes[1]["heads"], **sizes[1], **on, "encoder_tokens": source}
    ffns = [dense_of(f.dim(f"{side}_ffn_dim"), gated=False, bias=True) for side in ("encoder", "decoder")]
    encoder = [block([reads], [ffns[0]], 2, [value_bias])] * f.dim("encoder_layers")
    biases = [value_bias, {**value_bias, "name": "cross_v_bias"}]
    decoder = [block([writes, crosses], [ffns[1]], 3, biases)] * f.dim("decoder_layers")
    front = [weight("conv1", hidden, f.dim("num_mel_bins"), 3), weight("conv1_bias", hidden), weight("conv2", hidden, hidden, 3),
    weight("conv2_bias", hidden),
             weight("encoder_positions", source, hidden), *norm("encoder_norm", hidden)]  # fmt: skip
    made = model(f, decoder, norm="layer", weights=[weight("decoder_positions", f.dim("max_target_positions"), hidden)])
    return {**made, "max_context": f.dim("max_target_positions"), "encoder": {"layers": encoder, "tokens": source, "weights": front}}


def t5gemma(f: Fields, t: Decoder) -> Stack:
    """T5Gemma: a Gemma-2 encoder and a Gemma-2 decoder with cross-attention, each with its own embedding."""
    enc, dec = f.part("encoder", "t5_gemma_module"), f.part("decoder", "t5_gemma_module")
    hidden = enc.dim("hidden_size")

    def attention(part: Fields, kind: str) -> dict[str, Any]:
        made: dict[str, Any] = {
            "kind": kind,
            "heads": part.dim("num_attention_heads"),
            "kv_heads": kv_heads(part),
            "head_dim": part.dim("head_dim"),
        }
        made |= dict.fromkeys(("q_bias", "kv_bias", "o_bias"), True) if part.flag("attention_bias") else {}
        return made | ({"window": part.dim("sliding_window")} if kind == "sliding" else {})

    n = dec.dim("num_hidden_layers")
    types = dec.listed("layer_types", n, ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(n)])
    biases = dict.fromkeys(("q_bias", "kv_bias", "o_bias"), True) if dec.flag("attention_bias") else {}
    full = softmax(dec.dim("num_attention_heads"), kv_heads(dec), dec.dim("head_dim"), **biases)
    cross = attention(dec, "cross")
    if hidden != dec.dim("hidden_size"):
        raise f.fault("encoder.hidden_size", "an encoder of another width than the decoder is not modelled; declare a spec file")
    encoder = [block([attention(enc, "encoder")], [dense_of(enc.dim("intermediate_size"))], 4)] * enc.dim("num_hidden_layers")
    decoder = [
        block([attention(dec, "sliding") if kind == "sliding_attention" else full, cross], [dense_of(dec.dim("intermediate_size"))], 6)
        for kind in types
    ]
    made = model(dec, decoder)
    made["tied_embeddings"] = f.flag("tie_word_embeddings")
    extra = [weight("encoder_norm", hidden, role="norm"), weight("encoder_embedding", enc.dim("vocab_size"), hidden, role="embedding")]
    return {**made, "encoder": {"layers": encoder, "weights": extra}}
