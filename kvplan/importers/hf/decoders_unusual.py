"""Decoders of transformers that are gone through again or read something beside their own tokens (5.24.0, models/*/modeling_*.py)."""

from __future__ import annotations

from kvplan.importers.hf.attention import flags, softmax
from kvplan.importers.hf.decoder import Stack, decoder, model, with_head, with_towers
from kvplan.importers.hf.experts import dense, dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.gemma import gemma4
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, block, weight
from kvplan.importers.hf.towers import clip


def hrm_text(f: Fields, t: Decoder) -> Stack:
    """HRM-Text: two stacks, the low one gone through L_cycles times in each of H_cycles, the high one once; each pass keeps a cache."""
    n, high, low, heads = f.dim("num_layers_per_stack"), f.dim("H_cycles"), f.dim("L_cycles"), f.dim("num_attention_heads")
    if high * (low + 1) > 64:
        raise f.fault("H_cycles", f"{high} x ({low} + 1) passes: more than 64")
    mixer = softmax(heads, heads, f.dim("head_dim"), output_gate="element", **flags(f, t))
    gate = [weight("gate_bias", heads * f.dim("head_dim"))] if f.flag("attention_bias") else []

    def stack(passes: int) -> list[Block]:
        return [block([mixer, *[{**mixer, "tied": True}] * (passes - 1)], [dense(f, t)], 2, gate)] * n

    layers = [*stack(high * low), *stack(high)]
    return {**model(f, layers, norm=t.norm, weights=[weight("low_cycle_start", f.dim("hidden_size"))]), "final_norm": False}


def cpmant(f: Fields, t: Decoder) -> Stack:
    """CPM-Ant: a prompt of its own, whose rows stand behind those of the words, before every text."""
    rows, hidden, own = f.dim("prompt_types") * f.dim("prompt_length"), f.dim("hidden_size"), f.dim("prompt_length")
    made = decoder(f, t)
    buckets = f.dim("segment_types") ** 2 + f.dim("position_bias_num_buckets")
    weights = [
        weight("relative_attention_bias", buckets, f.dim("num_attention_heads"), role="attention"),
        weight("segment_embedding", f.dim("segment_types"), hidden),
    ]
    note = f"its class puts {own} tokens of its own before every text: they count as tokens of the context"
    whole = {**made, "vocab_size": made["vocab_size"] + rows, "weights": weights, "notes": [*made.get("notes", []), note]}
    return with_head(whole, made["vocab_size"])


def idefics(f: Fields, t: Decoder) -> Stack:
    """IDEFICS: before every `cross_layer_interval`-th layer one that reads the image, whose K and V are made anew in every step."""
    v, hidden, heads = f.part("vision_config", "idefics_vision"), f.dim("hidden_size"), f.dim("num_attention_heads")
    every, wide, image = f.dim("cross_layer_interval"), f.dim("intermediate_size"), v.dim("embed_dim")
    each, n = f.divided("hidden_size", "num_attention_heads"), f.dim("num_hidden_layers")
    normed = [weight(f"cross_{x}_norm", each, role="norm") for x in "qk"] if f.flag("qk_layer_norms") else []
    alpha = hidden if f.text("alpha_type") == "vector" else 1
    reads = [weight("cross_q", hidden, hidden, role="attention"), weight("cross_k", hidden, image, role="attention"),
             weight("cross_v", hidden, image, role="attention"), weight("cross_o", hidden, hidden, role="attention"),
             weight("cross_mlp", 3 * wide, hidden), weight("cross_norms", 2 * hidden, role="norm"), weight("alphas", 2 * alpha),
             *normed]  # fmt: skip
    if n % every:
        raise f.fault("cross_layer_interval", f"{every} does not divide num_hidden_layers ({n}): its class fails at the last layers")
    mixer = softmax(heads, heads, each)
    layers = [block([mixer], [dense_of(wide)], 2, [] if i % every else reads) for i in range(n)]
    more = f.count("additional_vocab_size")
    added = [weight("added_words", more, hidden, role="embedding"), weight("added_words_out", more, hidden)] if more else []
    towers = [("vision_tower", clip(v.named({"hidden_size": ("embed_dim",)}, {})))]
    if f.flag("use_resampler"):
        towers.append(("resampler", _resampler(f.part("perceiver_config", "idefics_perciever"), v)))
    note = "cross-attention to an image keeps no cache: its K and V are made anew in every step"
    return with_towers({**model(f, layers, weights=added), "notes": [note]}, *towers)


def _resampler(p: Fields, v: Fields) -> int:
    """Latents that read what a tower made, and a network, several times over."""
    width, wide = p.dim("resampler_n_heads") * p.dim("resampler_head_dim"), v.dim("embed_dim")
    normed = 4 * p.dim("resampler_head_dim") if p.flag("qk_layer_norms_perceiver") else 0
    each = 4 * width * wide + 4 * wide + normed + 8 * wide * wide + 2 * wide
    return p.dim("resampler_n_latents") * wide + p.dim("resampler_depth") * each + 2 * wide


def evolla(f: Fields, t: Decoder) -> Stack:
    """Evolla: Llama with layers that read a protein, whose K and V are made anew in every step."""
    made, hidden = decoder(f, t), f.dim("hidden_size")
    inner, biased = hidden * f.dim("aligner_ffn_mult"), f.flag("aligner_enable_bias")
    every = max(f.dim("num_hidden_layers") // f.dim("aligner_num_add_layers"), 1)
    reads = [weight("protein_qkv", 3 * hidden, hidden, role="attention"), weight("protein_qkv_bias", 3 * hidden),
             weight("protein_out", hidden, hidden, role="attention"), weight("protein_norms", 3 * hidden, role="norm"),
             weight("protein_mlp", 2 * inner, hidden), weight("protein_gates", 2),
             *([weight("protein_out_bias", hidden)] if biased else [])]  # fmt: skip
    layers = [
        {**layer, "weights": [*layer.get("weights", []), *reads]} if (i + 1) % every == 0 else layer
        for i, layer in enumerate(made["layers"])
    ]
    note = "the encoder of proteins and its resampler are not counted: no formula"
    return {**made, "layers": layers, "uncounted": [*made.get("uncounted", []), note]}


def diffusion_gemma(f: Fields, t: Decoder) -> Stack:
    """DiffusionGemma: Gemma 4 with experts in every layer and no layer that shares; it denoises a canvas that its cache does not hold."""
    always = {"attention_k_eq_v": True, "enable_moe_block": True, "num_kv_shared_layers": 0, "use_double_wide_mlp": False}
    made, hidden = gemma4(f.over(always | {"hidden_size_per_layer_input": 0}), t), f.dim("hidden_size")
    own = [weight("self_conditioning", 3 * f.dim("intermediate_size"), hidden), weight("self_conditioning_norm", hidden, role="norm")]
    note = "tokens are denoised a canvas at a time: a canvas's K and V are made anew in every step and are not in the cache"
    return {**made, "weights": [*made["weights"], *own], "notes": [*made.get("notes", []), note]}
