"""Encoder-decoders for long inputs (LED, LongT5, BigBird-Pegasus, Pegasus-X) and of experts (Switch). Shapes: transformers 5.23.0."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.encoder_decoder import Seq2Seq, bart, bart_decoder, t5
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, weight

#: By side: every which layer has experts; how many have.
_STEPS = {"encoder": "encoder_sparse_step", "decoder": "decoder_sparse_step"}
_SPARSE = {"encoder": "num_sparse_encoder_layers", "decoder": "num_sparse_decoder_layers"}


def _encoder(made: Stack, layers: list[Block], weights: list[dict[str, Any]]) -> Stack:
    """The same model with other layers in its encoder, and more tensors beside them."""
    return {**made, "encoder": {**made["encoder"], "layers": layers, "weights": [*made["encoder"]["weights"], *weights]}}


def _unbiased(layer: Block) -> Block:
    return {**layer, "mixers": [{key: v for key, v in mixer.items() if not key.endswith("_bias")} for mixer in layer["mixers"]]}


def led(f: Fields, t: Seq2Seq) -> Stack:
    """LED: projections of their own for tokens that attend globally; a position table for each side."""
    made, hidden = bart(f, t), f.dim("d_model")
    own = [w for x in "qkv" for w in (weight(f"global_{x}", hidden, hidden, role="attention"), weight(f"global_{x}_bias", hidden))]
    layers = [{**layer, "weights": [*layer.get("weights", []), *own]} for layer in made["encoder"]["layers"]]
    made["weights"] = [*made["weights"], weight("decoder_positions", f.dim("max_decoder_position_embeddings"), hidden)]
    made["max_context"] = f.dim("max_decoder_position_embeddings")
    return _encoder(made, layers, [weight("encoder_positions", f.dim("max_encoder_position_embeddings"), hidden)])


def bigbird_pegasus(f: Fields, t: Seq2Seq) -> Stack:
    """BigBird-Pegasus: attention without biases but by `use_bias`."""
    made = bart(f, t)
    if f.flag("use_bias"):
        return _encoder(made, made["encoder"]["layers"], [])
    made["layers"] = [_unbiased(layer) for layer in made["layers"]]
    return _encoder(made, [_unbiased(layer) for layer in made["encoder"]["layers"]], [])


def bigbird_pegasus_decoder(f: Fields, t: Seq2Seq) -> Stack:
    """The decoder alone, whose head is never tied."""
    made = bart_decoder(f, t)
    if not f.flag("use_bias"):
        made["layers"] = [_unbiased(layer) for layer in made["layers"]]
    return {**made, "tied_embeddings": False}


def trocr(f: Fields, t: Seq2Seq) -> Stack:
    """TrOCR's decoder alone: cross-attention is stored and reads nothing; positions learned or not, a norm on the embedding or not."""
    width = f.opt("cross_attention_hidden_size")
    if width is not None and width != f.dim("d_model"):
        raise f.fault("cross_attention_hidden_size", "cross-attention to another width is not modelled; declare the model as a spec file")
    same = {f"encoder_{part}": (f"decoder_{part}",) for part in ("layers", "attention_heads", "ffn_dim")}
    table = 2 if f.opt("use_learned_position_embeddings") is not False else None
    return bart_decoder(f.named(same, {}), t._replace(offset=table, embedding_norm=f.opt("layernorm_embedding") is not False))


def nllb_moe(f: Fields, t: Seq2Seq) -> Stack:
    """NLLB-MoE: M2M100 with two of many experts in every `sparse_step`-th layer of each side."""
    made = bart(f, t)

    def sparse(layers: list[Block], side: str) -> list[Block]:
        step = f.count(_STEPS[side])
        moe = {"kind": "moe", "experts": f.dim("num_experts"), "experts_per_token": min(2, f.dim("num_experts")),
               "intermediate_size": f.dim(f"{side}_ffn_dim"), "gated": False, "bias": True}  # fmt: skip
        moe |= {"router_linear_bias": True} if f.flag("router_bias") else {}
        return [{**layer, "mlps": [moe]} if step and (i + 1) % step == 0 else layer for i, layer in enumerate(layers)]

    made["layers"] = sparse(made["layers"], "decoder")
    return _encoder(made, sparse(made["encoder"]["layers"], "encoder"), [])


def fsmt(f: Fields, t: Seq2Seq) -> Stack:
    """FSMT: a vocabulary for each side, sinusoids stored as tables; both sides and the head are tied or none is."""
    source, target = f.dim("src_vocab_size"), f.dim("tgt_vocab_size")
    tied = f.flag("tie_word_embeddings")
    if tied and source != target:
        raise f.fault("tie_word_embeddings", f"two vocabularies of {source} and {target} can not be one")
    made = bart(f.named({"vocab_size": ("tgt_vocab_size",)}, {"tie_word_embeddings": True}), t._replace(offset=f.count("pad_token_id") + 1))
    made["weights"] = [w for w in made["weights"] if w.get("role") not in ("buffer", "embedding")]
    made |= {"vocab_size": target, "tied_embeddings": tied}
    kept = [w for w in made["encoder"]["weights"] if w.get("role") != "embedding"]
    own = [] if tied else [weight("encoder_embedding", source, f.dim("d_model"), role="embedding")]
    return {**made, "encoder": {**made["encoder"], "weights": kept + own}}


def seamless(f: Fields, t: Seq2Seq) -> Stack:
    """SeamlessM4T from text to text: its text encoder and decoder alone."""
    made = bart(f.named({"d_model": ("hidden_size",)}, {}), t)
    made["weights"] = [w for w in made["weights"] if w.get("role") != "buffer"]
    return made


def pegasus_x(f: Fields, t: Seq2Seq) -> Stack:
    """Pegasus-X: no biases in attention, sinusoids computed, global tokens with a norm of their own in the encoder."""
    made, hidden = bart(f, t), f.dim("d_model")
    made["layers"] = [_unbiased(layer) for layer in made["layers"]]
    made["weights"] = [w for w in made["weights"] if w.get("role") != "buffer"]
    layers = [{**_unbiased(layer), "norms": 3} for layer in made["encoder"]["layers"]]
    return _encoder(made, layers, [weight("global_tokens", f.dim("num_global_tokens"), hidden)])


def longt5(f: Fields, t: Decoder) -> Stack:
    """LongT5: T5 whose encoder attends locally; with transient global tokens a norm in every layer and one more table of biases."""
    made = t5(f, t)
    if f.opt("encoder_attention_type") in (None, "local"):
        return made
    if f.opt("encoder_attention_type") != "transient-global":
        raise f.fault("encoder_attention_type", "must be local or transient-global")
    own = [weight("global_norm", f.dim("d_model"), role="norm")]
    layers = [{**layer, "weights": [*layer.get("weights", []), *own]} for layer in made["encoder"]["layers"]]
    table = weight("global_relative_attention_bias", f.dim("relative_attention_num_buckets"), f.dim("num_heads"), role="attention")
    return _encoder(made, layers, [table])


def udop(f: Fields, t: Decoder) -> Stack:
    """UDOP: T5 with patches of the image on both sides, tables of places on a page and biases relative to them."""
    made, hidden, heads = t5(f, t), f.dim("d_model"), f.dim("num_heads")
    patch = f.dim("num_channels") * f.dim("patch_size") ** 2
    kinds = f.items("relative_bias_args") or []
    sizes = [kind.get("relative_attention_num_buckets", 32) for kind in kinds[1:] if isinstance(kind, dict)]

    def own(side: str) -> list[dict[str, Any]]:
        tables = [weight(f"{side}_bias_{i}", f.whole(n, "relative_bias_args", 1), heads) for i, n in enumerate(sizes)]
        return [*tables, weight(f"{side}_patches", hidden, patch), weight(f"{side}_patches_bias", hidden)]

    made["weights"] = [*made["weights"], *own("decoder")]
    places = [weight(f"{x}_positions", f.dim("max_2d_position_embeddings"), hidden) for x in "xy"]
    return _encoder(made, made["encoder"]["layers"], [*own("encoder"), *places])


def switch(f: Fields, t: Decoder) -> Stack:
    """Switch Transformers: T5 with one of many experts in some layers of each side."""
    made = t5(f, t)
    moe = {"kind": "moe", "experts": f.dim("num_experts"), "experts_per_token": 1, "intermediate_size": f.dim("d_ff"), "gated": False}
    if f.flag("router_bias"):
        moe["router_linear_bias"] = True

    def sparse(layers: list[Block], side: str) -> list[Block]:
        n, some = len(layers), f.count(_SPARSE[side])
        step = f.count(_STEPS[side]) if f.given(_STEPS[side]) else n // some if some else n
        return [{**layer, "mlps": [moe]} if step and (i % step == 1 or step == 1) else layer for i, layer in enumerate(layers)]

    made["layers"] = sparse(made["layers"], "decoder")
    own: list[dict[str, Any]] = []
    if not made["tied_embeddings"]:  # each side has an embedding of its own beside the shared one, which transformers builds all the same
        sizes = (made["vocab_size"], made["hidden_size"])
        made["weights"] = [*made["weights"], weight("decoder_embedding", *sizes, role="embedding")]
        own = [weight("encoder_embedding", *sizes, role="embedding")]
    return _encoder(made, sparse(made["encoder"]["layers"], "encoder"), own)
