"""Encoders that few serve: grouped and convolved layers, bottlenecks, tables beside BERT's.

Shapes: transformers 5.23.0 (models/*/modeling_*.py).
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.encoder_heads import norm
from kvplan.importers.hf.encoders import Encoder, encoder, layer_of, whole
from kvplan.importers.hf.experts import dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.stack import Block, block, weight


def linear(name: str, out: int, inner: int, role: str = "attention") -> list[Block]:
    """A matrix and its bias."""
    return [weight(name, out, inner, role=role), weight(name + "_bias", out, role="norm")]


def _spelled(layer: Block, weights: list[Block]) -> Block:
    """A layer whose tensors are all written out: its kinds stay for what they compute."""
    kinds: Block = {part: [{**kind, "tied": True} for kind in layer[part]] for part in ("mixers", "mlps")}
    return {**layer, **kinds, "weights": weights}


def offset_two(f: Fields, t: Encoder) -> Stack:
    """Nystromformer, YOSO, MRA: two more position rows than positions; a convolution over each head's values where its width is set."""
    key = {"nystromformer": "conv_kernel_size", "yoso": "conv_window"}.get(f.model_type, "")
    width = f.opt(key) if key else None
    made = encoder(f, t._replace(positions=False))
    table = weight("position_embeddings", f.dim("max_position_embeddings") + 2, f.dim("hidden_size"))
    made["weights"] = [*made["weights"], table]
    if width is None:
        return made
    conv = weight("value_conv", f.dim("num_attention_heads"), 1, f.whole(width, key, 1), role="attention")
    return {**made, "layers": [{**layer, "weights": [*layer.get("weights", []), conv]} for layer in made["layers"]]}


def fnet(f: Fields, t: Encoder) -> Stack:
    """FNet: a Fourier transform, which has no weights, in place of attention."""
    layer = block([], [dense_of(f.dim("intermediate_size"), gated=False, bias=True)])
    return whole(f, t, [layer] * f.dim("num_hidden_layers"))


def tapas(f: Fields, t: Encoder) -> Stack:
    """TAPAS: a table of token types for each thing that a cell's place says."""
    made, hidden = encoder(f, t), f.dim("hidden_size")
    rows = [f.whole(n, "type_vocab_sizes", 1) for n in f.items("type_vocab_sizes") or []]
    tables = [weight(f"token_type_embeddings_{i}", n, hidden) for i, n in enumerate(rows)]
    return {**made, "weights": [*made["weights"], *tables]}


def squeezebert(f: Fields, t: Encoder) -> Stack:
    """SqueezeBERT: every linear of a layer is a convolution in groups."""
    hidden, wide, layer = f.dim("hidden_size"), f.dim("intermediate_size"), layer_of(f, t)
    if f.dim("embedding_size") != hidden:
        raise f.fault("embedding_size", f"must be hidden_size ({hidden}); the class builds no other")
    parts = (("q", hidden, hidden, "q_groups"), ("k", hidden, hidden, "k_groups"), ("v", hidden, hidden, "v_groups"),
             ("o", hidden, hidden, "post_attention_groups"), ("up", wide, hidden, "intermediate_groups"),
             ("down", hidden, wide, "output_groups"))  # fmt: skip
    made = [w for name, out, inner, key in parts for w in linear(name, out, inner // f.dim_or(key, 1))]
    return whole(f, t, [_spelled(layer, made)] * f.dim("num_hidden_layers"))


def convbert(f: Fields, t: Encoder) -> Stack:
    """ConvBERT: half of the width attends in fewer heads, the other half is convolved by kernels made from the tokens."""
    hidden, wide, size = f.dim("hidden_size"), f.dim("intermediate_size"), f.dim("conv_kernel_size")
    heads = max(f.dim("num_attention_heads") // f.dim("head_ratio"), 1)
    narrow = hidden // heads // 2 * heads
    made = [w for x in ("q", "k", "v", "conv_out") for w in linear(x, narrow, hidden)] + linear("kernel", heads * size, narrow)
    made += [weight("depthwise", hidden, size), weight("pointwise", narrow, hidden), weight("key_conv_bias", narrow)]
    made += linear("o", hidden, 2 * narrow)
    groups = f.dim_or("num_groups", 1)
    made += linear("up", wide, hidden // groups, "mlp") + linear("down", hidden, wide // groups, "mlp")
    layer = layer_of(f, t)
    layer["mixers"][0] = {**layer["mixers"][0], "heads": heads, "kv_heads": heads, "head_dim": narrow // heads}
    return whole(f, t, [_spelled(layer, made)] * f.dim("num_hidden_layers"))


def luke(f: Fields, t: Encoder) -> Stack:
    """LUKE: entities beside words, with embeddings of their own and three more queries in every layer; the head is never tied."""
    hidden, rows, width = f.dim("hidden_size"), f.dim("entity_vocab_size"), f.dim("entity_emb_size")
    extra = [w for x in ("w2e", "e2w", "e2e") for w in linear(f"{x}_query", hidden, hidden)] if f.flag("use_entity_aware_attention") else []
    made = encoder(f, t)
    own = [weight("entity_embeddings", rows, width), *norm("entity_norm", hidden)]
    own += [weight("entity_positions", f.dim("max_position_embeddings"), hidden), weight("entity_types", f.dim("type_vocab_size"), hidden)]
    own += [weight("entity_dense", hidden, width)] if width != hidden else []
    if made.get("lm_head", True):
        head = [*linear("entity_transform", width, hidden), *norm("entity_transform_norm", width), weight("entity_bias", rows)]
        own += [
            *linear("pooler", hidden, hidden),
            *head,
            *([] if f.flag("tie_word_embeddings") else [weight("entity_decoder", rows, width)]),
        ]
        made["tied_embeddings"] = False
    layers = [{**layer, "weights": [*layer.get("weights", []), *extra]} for layer in made["layers"]]
    return {**made, "layers": layers, "weights": [*made["weights"], *own]}


def mobilebert(f: Fields, t: Encoder) -> Stack:
    """MobileBERT: layers in a narrow bottleneck, several networks each, three tokens' embeddings side by side."""
    hidden, width, wide = f.dim("hidden_size"), f.dim("embedding_size"), f.dim("intermediate_size")
    inner = f.dim("intra_bottleneck_size") if f.flag("use_bottleneck") else hidden

    def normed(name: str, out: int, into: int) -> list[Block]:
        return [*linear(name, out, into), *norm(name + "_norm", out)]

    made = linear("q", inner, inner) + linear("k", inner, inner)
    made += linear("v", inner, inner if f.flag("use_bottleneck_attention") else hidden) + normed("o", inner, inner)
    for i in range(f.dim("num_feedforward_networks")):
        made += linear(f"up_{i}", wide, inner, "mlp") + normed(f"down_{i}", inner, wide)
    if f.flag("use_bottleneck"):
        made += normed("bottleneck_out", hidden, inner) + normed("bottleneck_in", inner, hidden)
        made += normed("bottleneck_attention", inner, hidden) if f.flag("key_query_shared_bottleneck") else []
    layer = {**_spelled(layer_of(f, t), made), "norms": 0}
    stack = whole(f, t, [layer] * f.dim("num_hidden_layers"))
    front = linear("embedding_transformation", hidden, width * (3 if f.flag("trigram_input") else 1))
    kept = [w for w in stack["weights"] if not w["name"].startswith("mlm_")]
    if stack.get("lm_head", True):
        vocab = f.dim("vocab_size")
        kept += [*linear("mlm_dense", hidden, hidden), *norm("mlm_norm", hidden), weight("mlm_bias", vocab)]
        kept += [weight("mlm_rest", hidden - width, vocab)] if hidden > width else []
        kept += [] if stack.get("tied_embeddings") else [weight("decoder_bias", vocab)]
    return {**stack, "embedding_size": width, "weights": [*kept, *front]}


def esmc(f: Fields, t: Encoder) -> Stack:
    """ESM Cambrian: norms over the whole query and key, a final norm without a bias, a head of two linears."""
    layer, hidden = layer_of(f, t), f.dim("hidden_size")
    layer["weights"] = [weight("q_norm", hidden, role="norm"), weight("k_norm", hidden, role="norm")]
    made = whole(f, t, [layer] * f.dim("num_hidden_layers"))
    untied = {"tied_embeddings": False} if made.get("lm_head", True) else {}  # its head shares nothing, whatever the file says
    return {**made, **untied, "final_norm": False, "weights": [*made["weights"], weight("final_norm", hidden, role="norm")]}


def ultrabert(f: Fields, t: Encoder) -> Stack:
    """UltraBERT: Llama's layers read in both directions; two linears before the head."""
    made, hidden = encoder(f, t), f.dim("hidden_size")
    if made.get("lm_head", True):
        size = f.dim("prediction_head_size")
        made["weights"] = [*made["weights"], weight("head_in", size, hidden), weight("head_out", hidden, size)]
    return made


def xlm(f: Fields, t: Encoder) -> Stack:
    """XLM and FlauBERT: an embedding of the language where there are several."""
    if f.flag("asm"):
        raise f.fault("asm", "an adaptive softmax is not modelled; declare the model as a spec file")
    hidden, made = f.dim("hidden_size"), encoder(f.named({}, {"intermediate_size": 4 * f.dim("hidden_size")}), t)
    several = f.dim_or("n_langs", 1) > 1 and f.opt("use_lang_emb") is not False
    return {**made, "weights": [*made["weights"], weight("language_embeddings", f.dim("n_langs"), hidden)]} if several else made


def funnel(f: Fields, t: Encoder) -> Stack:
    """Funnel: blocks of layers that pool, then a decoder of whole length; relative positions in every layer."""
    sizes = [f.whole(n, "block_sizes", 1) for n in f.items("block_sizes") or []]
    hidden, heads = f.dim("hidden_size"), f.dim("num_attention_heads")
    width = heads * f.dim("head_dim")
    layer = layer_of(f, t)
    layer["mixers"][0] = {**layer["mixers"][0], "q_bias": False}
    own = [
        weight("relative_biases", 3, width, role="norm"),
        weight("relative", hidden, width, role="attention"),
        weight("segments", 2, width),
    ]
    return whole(f, t, [{**layer, "weights": own}] * (sum(sizes) + f.dim("num_decoder_layers")))


def reformer(f: Fields, t: Encoder) -> Stack:
    """Reformer read in both directions: queries that are keys too in hashed layers; a head over both reversible streams."""
    kinds, hidden = f.items("attn_layers") or [], f.dim("hidden_size")
    if set(kinds) - {"local", "lsh"} or not kinds:
        raise f.fault("attn_layers", "must name local or lsh for each layer")
    if f.flag("is_decoder"):
        raise f.fault("is_decoder", "Reformer as a decoder is not modelled; declare the model as a spec file")
    if f.opt("num_hidden_layers") is not None:  # layers of one kind are as many as it says
        kinds = (kinds * f.dim("num_hidden_layers") if len(set(kinds)) == 1 else kinds)[: f.dim("num_hidden_layers")]
    width, wide = f.dim("num_attention_heads") * f.dim("attention_head_size"), f.dim("feed_forward_size")
    sized = f.named({"head_dim": ("attention_head_size",), "intermediate_size": ("feed_forward_size",)}, {})
    layer = layer_of(sized, t)
    each = {kind: [weight(x, width, hidden, role="attention") for x in names] + [weight("o", hidden, width, role="attention")]
            + linear("up", wide, hidden, "mlp") + linear("down", hidden, wide, "mlp")
            for kind, names in (("local", ("q", "k", "v")), ("lsh", ("qk", "v")))}  # fmt: skip
    made = whole(f, t, [_spelled(layer, each[str(kind)]) for kind in kinds])
    shape, dims = f.items("axial_pos_shape") or [], f.items("axial_pos_embds_dim") or []
    if f.flag("axial_pos_embds"):
        if len(shape) != len(dims):
            raise f.fault("axial_pos_embds_dim", f"has {len(dims)} entries for {len(shape)} of axial_pos_shape")
        table = [weight(f"positions_{i}", f.whole(n, "axial_pos_shape", 1), f.whole(d, "axial_pos_embds_dim", 1))
                 for i, (n, d) in enumerate(zip(shape, dims, strict=True))]  # fmt: skip
    else:
        table = [weight("positions", f.dim("max_position_embeddings"), hidden)]
    own: list[dict[str, Any]] = [*table, *norm("final_norm", 2 * hidden)]
    if made.get("lm_head", True):
        own += [weight("lm_head", f.dim("vocab_size"), 2 * hidden, role="head"), weight("head_bias", f.dim("vocab_size"))]
        made |= {"lm_head": False, "tied_embeddings": False}
    return {**made, "weights": [*made["weights"], *own]}
