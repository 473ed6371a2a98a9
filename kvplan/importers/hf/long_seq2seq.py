"""Encoder-decoders for long inputs (LED, LongT5, BigBird-Pegasus, Pegasus-X) and of experts (Switch). Shapes: transformers 5.23.0."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.encoder_decoder import Seq2Seq, bart, t5
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, weight


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


def switch(f: Fields, t: Decoder) -> Stack:
    """Switch Transformers: T5 with one of many experts in some layers of each side."""
    made = t5(f, t)
    moe = {"kind": "moe", "experts": f.dim("num_experts"), "experts_per_token": 1, "intermediate_size": f.dim("d_ff"), "gated": False}
    if f.flag("router_bias"):
        moe["router_linear_bias"] = True

    def sparse(layers: list[Block], side: str) -> list[Block]:
        n, some = len(layers), f.count(f"num_sparse_{side}_layers")
        step = f.count(f"{side}_sparse_step") if f.given(f"{side}_sparse_step") else n // some if some else n
        return [{**layer, "mlps": [moe]} if step and (i % step == 1 or step == 1) else layer for i, layer in enumerate(layers)]

    made["layers"] = sparse(made["layers"], "decoder")
    own: list[dict[str, Any]] = []
    if not made["tied_embeddings"]:  # each side has an embedding of its own beside the shared one, which transformers builds all the same
        sizes = (made["vocab_size"], made["hidden_size"])
        made["weights"] = [*made["weights"], weight("decoder_embedding", *sizes, role="embedding")]
        own = [weight("encoder_embedding", *sizes, role="embedding")]
    return _encoder(made, sparse(made["encoder"]["layers"], "encoder"), own)
