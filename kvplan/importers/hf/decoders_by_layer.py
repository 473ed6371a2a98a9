"""Decoders whose layers differ: JetMoe, Zamba, LFM3, Beam, ModernBERT's decoder. Shapes: transformers 5.23.0 (models/*/modeling_*.py)."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import flags, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.hybrid import Hybrid, kinds, mamba1
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import Block, block, weight


def layer_types(f: Fields, n: int, known: tuple[str, ...], rule: list[str], by: str = "") -> list[str]:
    """`layer_types` where the config lists them, else the rule of the class. Raises SpecError for a kind that the class has not."""
    listed = f.listed("layer_types", n, rule, by)
    unknown = [kind for kind in listed if kind not in known]
    if unknown:
        raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is not a layer this architecture has")
    return listed


def jetmoe(f: Fields, t: Decoder) -> Stack:
    """JetMoe: experts for queries and outputs too (mixture of attention heads), K and V of `num_key_value_heads` heads for all of them."""
    kv, dim, hidden, top = f.dim("num_key_value_heads"), f.dim("kv_channels"), f.dim("hidden_size"), f.dim("num_experts_per_tok")
    attention = {**softmax(kv * top, kv, dim), "tied": True}  # its queries are the first network below, its K and V the weight
    size = {"kind": "moe", "experts": f.dim("num_local_experts"), "experts_per_token": top}
    heads = {**size, "intermediate_size": kv * dim, "gated": False}
    own = [weight("kv", 2 * kv * dim, hidden, role="attention"), weight("attention_bias", hidden), weight("mlp_bias", hidden)]
    layer = block([attention], [heads, {**size, "intermediate_size": f.dim("intermediate_size")}], 2, own)
    return model(f, [layer] * f.dim("num_hidden_layers"))


def zamba(f: Fields, t: Hybrid) -> Stack:
    """Zamba: Mamba-1 everywhere; hybrid layers also pass one shared transformer over [hidden, embedding], each with a cache of its own."""
    n, hidden, heads = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("num_attention_heads")
    found = kinds(f, n, "layers_block_type", "layer_types")
    if found is None:
        period, offset = f.dim("attn_layer_period"), f.count("attn_layer_offset")
        found = ["mamba", "mamba", "hybrid", *("hybrid" if i % period == offset else "mamba" for i in range(n - 3))][:n]
    width = f.dim_or("attention_hidden_size", 2 * hidden)
    shared = softmax(heads, kv_heads(f), f.dim_or("attention_head_dim", 2 * hidden // heads), input_size=width)
    inner, mamba = dense_of(f.dim("intermediate_size")), mamba1(f, prefix="mamba")
    norms = [weight("shared_input_norm", width, role="norm"), weight("shared_mlp_norm", hidden, role="norm")]
    linear = weight("linear", hidden, hidden)
    first = block([mamba, shared], [inner], 1, [linear, *norms])
    again = block([mamba, {**shared, "tied": True}], [{**inner, "tied": True}], 1, [linear])
    if not f.flag("tie_word_embeddings"):  # transformers then ties nothing at all
        again = first
    at = found.index("hybrid") if "hybrid" in found else -1
    plain = block([mamba], [], 1)
    return model(f, [first if i == at else again if kind == "hybrid" else plain for i, kind in enumerate(found)])


def lfm3(f: Fields, t: Decoder) -> Stack:
    """LFM3: short convolutions, full and sliding attention with a gate per head; a norm after each part where `use_sandwich_norm`."""
    n = f.dim("num_hidden_layers")
    rule = ["full_attention" if i % 4 == 2 else "sliding_attention" if i % 4 == 0 and i else "conv" for i in range(n)]
    on = flags(f, t) | ({"output_gate": "head"} if f.opt("use_attention_gate") is not False else {})
    sizes = (f.dim("num_attention_heads"), kv_heads(f), head_dim(f))
    conv: dict[str, Any] = {"kind": "short_conv", "d_conv": f.dim("conv_L_cache")}
    if f.flag("conv_bias"):
        conv["bias"] = True
    mixers = {"full_attention": softmax(*sizes, **on), "conv": conv}
    if f.opt("sliding_window") is not None:
        mixers["sliding_attention"] = softmax(*sizes, window=f.dim("sliding_window"), **on)
    mlp, norms = dense_of(f.dim("intermediate_size")), 4 if f.opt("use_sandwich_norm") is not False else 2
    return model(f, [block([mixers[kind]], [mlp], norms) for kind in layer_types(f, n, tuple(mixers), rule)])


def beam(f: Fields, t: Decoder) -> Stack:
    """Beam: every sixth layer and the last full, the others sliding; a gate with a bias per head; three dense layers before the experts."""
    n, heads = f.dim("num_hidden_layers"), f.dim("num_attention_heads")
    rule = ["full_attention" if (i + 1) % 6 == 0 or i == n - 1 else "sliding_attention" for i in range(n)]
    sizes = (heads, kv_heads(f), head_dim(f))
    mixers = {"full_attention": softmax(*sizes, **flags(f, t))}
    if f.opt("sliding_window") is not None:
        mixers["sliding_attention"] = softmax(*sizes, window=f.dim("sliding_window"), **flags(f, t))
    mlps = f.listed("mlp_layer_types", n, ["dense" if i < 3 else "sparse" for i in range(n)])
    sparse, dense = moe(f, Experts(bias="buffer")), dense_of(f.dim("intermediate_size"))
    gate = [weight("gate_bias", heads)]
    layers = [
        block([mixers[kind]], [sparse if mlp == "sparse" else dense], 4, gate)
        for kind, mlp in zip(layer_types(f, n, tuple(mixers), rule), mlps, strict=True)
    ]
    return model(f, layers)


def modernbert_decoder(f: Fields, t: Decoder) -> Stack:
    """ModernBERT's decoder (Ettin): every third layer full, the rest slide; no norm before the first.

    The window is `sliding_window` where stated, else half of `local_attention`.
    """
    n, hidden, heads = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("num_attention_heads")
    rule = ["sliding_attention" if i % f.dim_or("global_attn_every_n_layers", 3) else "full_attention" for i in range(n)]
    dim, on = f.divided("hidden_size", "num_attention_heads"), flags(f, t)
    mixers = {"full_attention": softmax(heads, heads, dim, **on)}
    local = f.dim("sliding_window") if f.given("sliding_window") else f.count("local_attention") // 2
    if local:
        mixers["sliding_attention"] = softmax(heads, heads, dim, window=local, **on)
    mlp = dense_of(f.dim("intermediate_size"), bias=f.flag("mlp_bias"))
    types = layer_types(f, n, tuple(mixers), rule, by="global_attn_every_n_layers")
    layers = [block([mixers[kind]], [mlp], 2 if i else 1) for i, kind in enumerate(types)]
    biased = f.flag("norm_bias")

    def norm(name: str) -> list[Block]:
        return [weight(name, hidden, role="norm")] * (2 if biased else 1)

    named = (f.items("architectures") or [""])[0]
    role = "other" if str(named).endswith("ForSequenceClassification") else "head"  # a classifier keeps the dense layer
    head = [weight("head_dense", hidden, hidden, role=role), *[{**w, "role": role} for w in norm("head_norm")]]
    head += [weight("head_dense_bias", hidden, role=role)] if f.flag("classifier_bias") else []
    head += [weight("decoder_bias", f.dim("vocab_size"), role="head")] if f.flag("decoder_bias") else []
    return model(f, layers, norm="layer" if biased else "layer_no_bias", weights=[*norm("embedding_norm"), *head])


def muse_spark(f: Fields, t: Decoder) -> Stack:
    """Muse Spark: sliding and full attention with a gate, experts in a narrower space with norms around it, two residual gates a layer."""
    n, hidden, inner = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("moe_hidden_size")
    sizes, on = (f.dim("num_attention_heads"), kv_heads(f), head_dim(f)), flags(f, t)
    mixers = {"full_attention": softmax(*sizes, **on)}
    if f.opt("sliding_window") is not None:
        mixers["sliding_attention"] = softmax(*sizes, window=f.dim("sliding_window"), **on)
    sparse = moe(f, Experts(n="num_local_experts", bias="buffer")) | {"latent_size": inner}
    gates = [weight("attention_residual_gate", hidden, role="norm"), weight("mlp_residual_gate", hidden, role="norm")]
    around = [weight("pre_expert_norm", inner, role="norm"), weight("post_expert_norm", inner, role="norm")]
    dense = dense_of(f.dim("intermediate_size"))
    mlps = f.listed("mlp_layer_types", n, ["sparse"] * n)
    layers = [
        block([mixers[kind]], [sparse if mlp == "sparse" else dense], 3, [*gates, *(around if mlp == "sparse" else [])])
        for kind, mlp in zip(layer_types(f, n, tuple(mixers), ["full_attention"] * n), mlps, strict=True)
    ]
    return model(f, layers)
