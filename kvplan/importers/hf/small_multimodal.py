"""Small models of images and text (BLIP, GIT, Kosmos-2, Florence-2, T5Gemma 2) and ProphetNet.

Shapes: transformers 5.23.0 (models/*/modeling_*.py).
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import flags, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, decoder, model, with_towers
from kvplan.importers.hf.encoder_decoder import Seq2Seq, bart, bart_decoder
from kvplan.importers.hf.encoder_heads import head, norm
from kvplan.importers.hf.experts import dense, dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, block, weight
from kvplan.importers.hf.towers import clip, linear, patches, siglip, transformer

_ON = {"q_bias": True, "kv_bias": True, "o_bias": True}


def _written(f: Fields, *, crosses: int = 0) -> Block:
    """One layer of BERT that writes K and V; `crosses`: the width it also reads, whose K and V the class does not keep."""
    heads, dim, hidden = f.dim("num_attention_heads"), f.divided("hidden_size", "num_attention_heads"), f.dim("hidden_size")
    mixers = [softmax(heads, heads, dim, **_ON)]
    reads = [w for x in "kv" for w in (weight(f"cross_{x}", hidden, crosses, role="attention"), weight(f"cross_{x}_bias", hidden))]
    reads += [w for x in "qo" for w in (weight(f"cross_{x}", hidden, hidden, role="attention"), weight(f"cross_{x}_bias", hidden))]
    return block(mixers, [dense_of(f.dim("intermediate_size"), gated=False, bias=True)], 3 if crosses else 2, reads if crosses else [])


def _front(f: Fields) -> list[Block]:
    hidden = f.dim("hidden_size")
    return [weight("position_embeddings", f.dim("max_position_embeddings"), hidden), *norm("embedding_norm", hidden)]


def blip(f: Fields, t: Decoder) -> Stack:
    """BLIP for captions: BERT that writes, with cross-attention to the image, whose K and V a forward without an image does not keep."""
    text, v = f.part("text_config", "blip_text_model"), f.part("vision_config", "blip_vision_model")
    h, hidden = v.dim("hidden_size"), text.dim("hidden_size")
    tower = h + linear(h, 3 * v.dim("patch_size") ** 2) + (patches(v) + 1) * h + 2 * h
    tower += transformer(v.dim("num_hidden_layers"), h, v.dim("intermediate_size"))
    layers = [_written(text, crosses=h)] * text.dim("num_hidden_layers")  # the wrapper sets encoder_hidden_size to the tower's width
    made = model(text, layers, norm="layer", weights=_front(text) + head(text, ("mlm",), hidden, hidden))
    made |= {"final_norm": False, "tied_embeddings": f.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")}
    if not made["tied_embeddings"]:
        made["weights"].append(weight("mlm_second_bias", text.dim("vocab_size")))
    return with_towers({**made, "notes": ["cross-attention to an image is not counted in the cache"]}, ("vision_tower", tower))


def git(f: Fields, t: Decoder) -> Stack:
    """GIT: BERT that writes behind the tokens of a CLIP tower."""
    v, hidden, vocab = f.part("vision_config", "git_vision_model"), f.dim("hidden_size"), f.dim("vocab_size")
    made = model(f, [_written(f)] * f.dim("num_hidden_layers"), norm="layer", weights=[*_front(f), weight("head_bias", vocab)])
    joint = linear(hidden, v.dim("hidden_size")) + 2 * hidden + f.count("num_image_with_embedding") * v.dim("hidden_size")
    return with_towers({**made, "final_norm": False}, ("vision_tower", clip(v)), ("vision_projector", joint))


def kosmos2(f: Fields, t: Decoder) -> Stack:
    """Kosmos-2: two more norms inside each layer, latent queries that read a CLIP tower."""
    names = {"hidden_size": ("embed_dim",), "num_hidden_layers": ("layers",), "num_attention_heads": ("attention_heads",),
             "intermediate_size": ("ffn_dim",)}  # fmt: skip
    text, v = f.part("text_config", "kosmos_2_text_model").named(names, {}), f.part("vision_config", "kosmos_2_vision_model")
    if text.flag("add_cross_attention"):
        raise text.fault("add_cross_attention", "cross-attention in this text model is not modelled; declare the model as a spec file")
    hidden = text.dim("hidden_size")
    made = decoder(text, t)
    joint = f.dim("latent_query_num") * hidden + linear(hidden, v.dim("hidden_size")) + 4 * linear(hidden, hidden)
    made["tied_embeddings"] = f.flag("tie_word_embeddings") or text.flag("tie_word_embeddings")
    return with_towers(made, ("vision_tower", clip(v)), ("vision_projector", joint))


def kosmos2_5(f: Fields, t: Decoder) -> Stack:
    """Kosmos-2.5: a segment embedding, a Pix2Struct tower read by latent queries."""
    names = {"hidden_size": ("embed_dim",), "num_hidden_layers": ("layers",), "num_attention_heads": ("attention_heads",),
             "intermediate_size": ("ffn_dim",)}  # fmt: skip
    text, v = f.part("text_config", "kosmos_2_5_text_model").named(names, {}), f.part("vision_config", "kosmos_2_5_vision_model")
    hidden, h, w = text.dim("hidden_size"), v.dim("hidden_size"), v.dim("intermediate_size")
    made, inner = decoder(text, t), v.dim("num_attention_heads") * v.dim("head_dim")
    tower = linear(h, v.dim("patch_embed_hidden_size")) + 2 * v.dim("max_num_patches") * h + h
    tower += v.dim("num_hidden_layers") * (4 * inner * h + 3 * h * w + 2 * h)
    joint = f.dim("latent_query_num") * hidden + linear(hidden, h) + 4 * linear(hidden, hidden)
    made["weights"] = [*made["weights"], weight("segment_embedding", 2, hidden)]
    return with_towers(made, ("vision_tower", tower), ("vision_projector", joint))


def davit(f: Fields) -> int:
    """DaViT: four stages of window and channel attention, a convolution before each half."""
    stages = len(f.items("embed_dim") or [])
    widths, depths, sizes = (f.dims(key, stages) for key in ("embed_dim", "depths", "patch_size"))
    before, ratio, total, last = f.items("patch_prenorm", stages) or [False] * stages, f.raw("mlp_ratio"), 0, f.dim("in_channels")
    for w, depth, size, first in zip(widths, depths, sizes, before, strict=True):
        wide = int(w * ratio)
        qkv = linear(3 * w, w, f.opt("qkv_bias") is not False) + linear(w, w)
        half = 2 * linear(w, 9) + 4 * w + qkv + linear(wide, w) + linear(w, wide)
        total += linear(w, last * size**2) + 2 * (last if first else w) + 2 * depth * half
        last = w
    return total


def florence2(f: Fields, t: Seq2Seq) -> Stack:
    """Florence-2: BART behind a DaViT; the files of microsoft's own releases call both otherwise."""
    names = {"hidden_size": ("d_model",), "num_hidden_layers": ("decoder_layers",), "num_attention_heads": ("decoder_attention_heads",),
             "intermediate_size": ("decoder_ffn_dim",)}  # fmt: skip
    text, v = f.part("text_config", "bart"), f.part("vision_config", "florence_vision")
    v, places = v.named({"embed_dim": ("dim_embed",)}, {"mlp_ratio": 4}), v.data.get("image_pos_embed")
    if isinstance(places, dict) and places.get("max_pos_embeddings") is not None:
        v = v.named({}, {**v.defaults, "max_position_embeddings": places["max_pos_embeddings"]})
    for part, own, named in ((text, "bart", "florence2_language"), (v, "davit", "florence_vision")):
        if (stated := part.file.get("model_type", own)) not in (own, named, ""):
            raise part.fault("model_type", f"{stated!r:.80} is not modelled in a Florence-2: it has a BART behind a DaViT")
    made, last, out = bart(text.named(names, {}), t), (v.items("embed_dim") or [0])[-1], v.dim("projection_dim")
    made |= {"tied_embeddings": f.flag("tie_word_embeddings"), "weights": [w for w in made["weights"] if w.get("role") != "buffer"]}
    rows = v.dim("max_position_embeddings")
    joint = out * last + 2 * out + rows * (last // 2) + rows * (last - last // 2)
    return with_towers(made, ("vision_tower", davit(v)), ("vision_projector", joint))


def prophetnet(f: Fields, t: Seq2Seq) -> Stack:
    """ProphetNet: BART with relative positions in every decoder layer and an embedding for each token looked ahead."""
    return _prophet(f, bart(_as_bart(f), t))


def prophetnet_decoder(f: Fields, t: Seq2Seq) -> Stack:
    made = _prophet(f, bart_decoder(_as_bart(f), t))
    if not made["tied_embeddings"]:  # the whole model's embedding is built beside its decoder's
        made["weights"].append(weight("shared_embedding", f.dim("vocab_size"), f.dim("hidden_size"), role="embedding"))
    return made


def _as_bart(f: Fields) -> Fields:
    return f.named({
        "encoder_layers": ("num_encoder_layers",), "decoder_layers": ("num_decoder_layers",), "d_model": ("hidden_size",),
        "encoder_attention_heads": ("num_encoder_attention_heads",), "decoder_attention_heads": ("num_decoder_attention_heads",),
    }, {})  # fmt: skip


def _prophet(f: Fields, made: Stack) -> Stack:
    hidden = f.dim("hidden_size")
    rows = f.dim("num_buckets") * f.dim("num_decoder_attention_heads")
    own = [weight("relative_positions", rows, hidden), weight("relative_positions_bias", rows)]
    if f.opt("add_cross_attention") is False:
        raise f.fault("add_cross_attention", "ProphetNet without cross-attention is not modelled; declare the model as a spec file")
    made["layers"] = [{**layer, "weights": [*layer.get("weights", []), *own]} for layer in made["layers"]]
    kept = [w for w in made["weights"] if w.get("role") != "buffer"]
    return {**made, "weights": [*kept, weight("ngram_embeddings", f.dim("ngram"), hidden)]}


def t5gemma2(f: Fields, t: Decoder) -> Stack:
    """T5Gemma 2: Gemma 3's layers on both sides; the decoder's K and V projections read the encoder too, whose K and V are kept whole."""
    enc, dec = f.part("encoder", "t5gemma2_encoder"), f.part("decoder", "t5gemma2_decoder")
    text, hidden, n = enc.part("text_config", "t5gemma2_text"), dec.dim("hidden_size"), dec.dim("num_hidden_layers")
    if text.dim("hidden_size") != hidden:
        raise f.fault("encoder.text_config.hidden_size", "an encoder of another width than the decoder is not modelled")
    heads, kv, dim = dec.dim("num_attention_heads"), kv_heads(dec), dec.dim("head_dim")
    kinds = dec.items("layer_types", n) or ["full_attention"] * n
    cross: dict[str, Any] = {"kind": "cross", "heads": heads, "kv_heads": kv, "head_dim": dim, "tied": True}
    windows: dict[str, int | None] = {"full_attention": None}
    if dec.given("sliding_window"):
        windows["sliding_attention"] = dec.dim("sliding_window")
    if set(kinds) - windows.keys():
        raise dec.fault("layer_types", "a layer that this architecture does not have")
    layers = [block([softmax(heads, kv, dim, window=windows[k], **flags(dec, t)), cross], [dense(dec, t)], 4) for k in kinds]
    reads = {"kind": "encoder", "heads": text.dim("num_attention_heads"), "kv_heads": kv_heads(text), "head_dim": text.dim("head_dim")}
    encoder = [block([{**reads, **flags(text, t)}], [dense(text, t)], 4)] * text.dim("num_hidden_layers")
    v = enc.part("vision_config", "siglip_vision_model")
    made = {**model(dec, layers), "tied_embeddings": f.flag("tie_word_embeddings")}
    if not made["tied_embeddings"]:
        made["weights"] = [
            weight("decoder_embedding", dec.dim("vocab_size"), hidden, role="embedding"),
            weight("decoder_end_of_image", hidden),
        ]
    own = [weight("encoder_norm", hidden, role="norm"), weight("end_of_image", hidden)]
    made["encoder"] = {"layers": encoder, "weights": own}
    wide = v.dim("hidden_size")
    return with_towers(made, ("vision_tower", siglip(v)), ("vision_projector", wide * hidden + wide))
