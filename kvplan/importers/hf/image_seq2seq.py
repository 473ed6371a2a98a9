"""Image to text by an encoder and a decoder: TrOCR, Donut, Nougat and their like, Pix2Struct, PP-FormulaNet; Whisper's decoder alone.

Shapes: transformers 5.23.0 (models/vision_encoder_decoder, vit, deit, swin, donut, pix2struct, pp_formulanet, whisper).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.errors import UnsupportedError
from kvplan.importers.hf.decoder import Stack, model, with_towers
from kvplan.importers.hf.encoder_decoder import Seq2Seq, bart_decoder, whisper
from kvplan.importers.hf.experts import dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, lowering
from kvplan.importers.hf.stack import Block, block, weight
from kvplan.importers.hf.towers import linear, patch, patches, side, transformer
from kvplan.importers.hf.towers_of_one_family import sam


class Image(NamedTuple):
    """An encoder of one image: its parameters, width and how many tokens it hands on."""

    parameters: int
    width: int
    tokens: int


def _vit(f: Fields) -> Image:
    """ViT and DeiT (one token more) with the pooler that transformers builds."""
    h, own, n = f.dim("hidden_size"), 2 if f.model_type == "deit" else 1, patches(f)
    layers = transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), biases=4 if f.opt("qkv_bias") is not False else 1)
    pooled = linear(f.dim_or("pooler_output_size", h), h)
    return Image(own * h + (n + own) * h + patch(f, h) + layers + 2 * h + pooled, h, n + own)


def _swin(f: Fields) -> Image:
    """Swin, and Donut's copy without a norm at the end: stages that halve the sides and double the width; places relative in a window."""
    depths, counts = f.items("depths") or [], f.items("num_heads") or []
    ratio, h, size, window = f.raw("mlp_ratio"), f.dim("embed_dim"), f.raw("image_size"), f.dim("window_size")
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or len(depths) != len(counts) or not depths:
        raise f.fault("depths", "depths and num_heads must have one entry a stage, and mlp_ratio be a number")
    sides = [f.whole(v, "image_size", 1) // side(f, "patch_size") for v in (size if isinstance(size, list) else [size, size])]
    donut, on = f.model_type == "donut-swin", f.opt("qkv_bias") is not False
    total = patch(f, h) + 2 * h + ((sides[0] * sides[1] + (1 if donut else 0)) * h if f.flag("use_absolute_embeddings") else 0)
    for i, (depth, heads) in enumerate(zip(depths, counts, strict=True)):
        wide = int(h * ratio)
        each = 3 * linear(h, h, on) + linear(h, h) + linear(wide, h) + linear(h, wide) + 4 * h
        total += f.whole(depth, "depths") * (each + (2 * window - 1) ** 2 * f.whole(heads, "num_heads", 1))
        if i < len(depths) - 1:
            total += 8 * h * h + 8 * h
            h, sides = 2 * h, [-(-v // 2) for v in sides]
    return Image(total + (0 if donut else 2 * h), h, sides[0] * sides[1])


_IMAGES = {"vit": _vit, "deit": _vit, "swin": _swin, "donut-swin": _swin}
#: Decoders that write under an image: model type -> the front of its class, its suffix, whether it keeps BART's shape.
_WRITERS = {"trocr": ("trocr", "TrOCRForCausalLM"), "mbart": ("mbart_decoder", "MBartForCausalLM"), "gpt2": ("gpt2", "GPT2LMHeadModel")}


def joined(f: Fields, t: Decoder) -> Stack:
    """VisionEncoderDecoderModel: an image encoder, a decoder with cross-attention in every layer, a linear between unequal widths."""
    part = f.part("encoder")
    kind = str(part.file.get("model_type") or part.model_type)
    if kind not in _IMAGES:
        raise _other(f, "encoder", kind, _IMAGES)
    image = _IMAGES[kind](part.of_class(kind))
    made, hidden = _writer(f, image)
    between = [] if made.pop("reads") == image.width else [("vision_projector", linear(hidden, image.width))]
    return with_towers(made, ("vision_tower", image.parameters), *between)


def _other(f: Fields, side_of: str, kind: str, known: Any) -> UnsupportedError:
    return UnsupportedError(
        f"{f.source}: {side_of}.model_type: {kind[:40]!r} in an image encoder-decoder is not modelled; these are: {', '.join(known)}"
    )


def _writer(f: Fields, image: Image) -> tuple[Stack, int]:
    """The decoder with cross-attention over the image; `reads`: the width that it takes."""
    from kvplan.importers.hf.architectures import FAMILIES
    from kvplan.importers.hf.two_encoders import side as encoder_side
    from kvplan.importers.hf.two_encoders import sides

    part = f.part("decoder")
    kind = str(part.file.get("model_type") or part.model_type)
    if kind not in _WRITERS and kind not in sides():
        raise _other(f, "decoder", kind, [*_WRITERS, *sides()])
    if part.opt("add_cross_attention") is not True and kind not in ("trocr", "mbart"):
        raise f.fault("decoder.add_cross_attention", "must be true: without it nothing reads the image")
    stated = part.opt("cross_attention_hidden_size")
    if stated is not None and stated != image.width:
        raise f.fault("decoder.cross_attention_hidden_size", f"is not the encoder's width ({image.width})")
    if kind not in _WRITERS:
        made = encoder_side(f, "decoder", "ForCausalLM")
        layers = [{**v, "mixers": [m | {"encoder_tokens": image.tokens} if m["kind"] == "cross" else m for m in v["mixers"]]}
                  for v in made["layers"]]  # fmt: skip
        return {**made, "layers": layers, "reads": made["hidden_size"]}, made["hidden_size"]
    family, name = _WRITERS[kind]
    row = FAMILIES[family]
    file = {k: v for k, v in part.file.items() if k != "cross_attention_hidden_size"} | {"architectures": [name]}
    view = Fields(file, f.source, model_type=kind, path=part.path, assumed=f.assumed).named(row.names, row.defaults)
    made = lowering(row)(view, row.traits)
    hidden = made["hidden_size"]
    reads = stated if stated is not None and kind == "trocr" else hidden
    if stated is not None and kind != "trocr" and stated != hidden:
        raise f.fault("decoder.cross_attention_hidden_size", "only TrOCR's decoder reads another width; take it out")
    notes = [note for note in made.get("notes", []) if not note.startswith("decoder alone")]
    layers = [_crossing(layer, hidden, reads, image.tokens) for layer in made["layers"]]
    return {**made, "layers": layers, "notes": notes, "reads": reads}, hidden


def _crossing(layer: Block, hidden: int, reads: int, tokens: int) -> Block:
    """A layer whose cross-attention reads `tokens` of another width; its four linears written out."""
    own = layer["mixers"][0]
    sizes = {"heads": own["heads"], "kv_heads": own["heads"], "head_dim": own["head_dim"]}
    cross = {"kind": "cross", **sizes, "encoder_tokens": tokens, "tied": True}
    extra = [w for x, inner in (("q", hidden), ("k", reads), ("v", reads), ("o", hidden))
             for w in (weight(f"cross_{x}", hidden, inner, role="attention"), weight(f"cross_{x}_bias", hidden, role="norm"))]  # fmt: skip
    return {**layer, "mixers": [own, cross], "norms": 3, "weights": [*layer.get("weights", []), *extra]}


def pix2struct(f: Fields, t: Decoder) -> Stack:
    """Pix2Struct (DePlot, MatCha): patches with a row and a column, T5's layers with gated networks, biases of place in the first alone."""
    text, v = f.part("text_config", "pix2struct_text_model"), f.part("vision_config", "pix2struct_vision_model")
    hidden, h, heads, head = text.dim("hidden_size"), v.dim("hidden_size"), text.dim("num_heads"), text.dim("d_kv")
    if hidden != h:
        raise f.fault("vision_config.hidden_size", "an encoder of another width than the decoder is not modelled; declare a spec file")
    if heads * head != hidden:
        raise text.fault("num_heads", f"{heads} heads of d_kv {head} are not hidden_size ({hidden}), which its projections are made for")
    reads = {"kind": "encoder", "heads": v.dim("num_attention_heads"), "kv_heads": v.dim("num_attention_heads"), "head_dim": v.dim("d_kv")}
    encoder = [block([reads], [dense_of(v.dim("d_ff"))])] * v.dim("num_hidden_layers")
    sizes: dict[str, Any] = {"heads": heads, "head_dim": head}
    cross = {"kind": "cross", "kv_heads": heads, **sizes}
    decoder = [block([{"kind": "mha", **sizes}, cross], [dense_of(text.dim("d_ff"))], 3)] * text.dim("num_layers")
    buckets = weight("relative_attention_bias", text.dim("relative_attention_num_buckets"), heads, role="attention")
    made = {**model(text, decoder, weights=[buckets]), "tied_embeddings": f.flag("tie_word_embeddings"), "max_context": None}
    front = [weight("patches", h, v.dim("patch_embed_hidden_size")), weight("patches_bias", h), weight("encoder_norm", h, role="norm")]
    front += [weight(f"{x}_positions", v.dim("seq_len"), h) for x in ("row", "column")]
    return {**made, "encoder": {"layers": encoder, "weights": front}}


def pp_formulanet(f: Fields, t: Seq2Seq) -> Stack:
    """PP-FormulaNet: mBART's decoder over SAM's image, folded by two strided convolutions."""
    names = {"hidden_size": ("d_model",), "num_hidden_layers": ("decoder_layers",), "num_attention_heads": ("decoder_attention_heads",),
             "intermediate_size": ("decoder_ffn_dim",), **{f"encoder_{x}": (f"decoder_{x}",) for x in ("attention_heads", "ffn_dim")},
             "encoder_layers": ("decoder_layers",)}  # fmt: skip
    text, v = f.part("text_config", "pp_formulanet_text").named(names, {}), f.part("vision_config", "pp_formulanet_vision")
    made, hidden, out, middle = bart_decoder(text, t), text.dim("d_model"), v.dim("post_conv_out_channels"), v.dim("post_conv_mid_channels")
    rows = side(v, "image_size") // side(v, "patch_size")
    for _ in range(2):
        rows = -(-rows // 2)
    layers = [_crossing(layer, hidden, hidden, rows * rows) for layer in made["layers"]]
    joint = 9 * v.dim("post_conv_in_channels") * middle + 9 * middle * out + linear(out, out) + linear(v.dim("decoder_hidden_size"), out)
    notes = [note for note in made.get("notes", []) if not note.startswith("decoder alone")]
    return with_towers({**made, "layers": layers, "tied_embeddings": False, "notes": notes}, ("vision_tower", sam(v)),
                   ("vision_projector", joint))  # fmt: skip


def whisper_decoder(f: Fields, t: Decoder) -> Stack:
    """Whisper's decoder alone (drafts of distil-whisper): its cross-attention is stored and reads nothing."""
    made = whisper(f, t)
    made.pop("encoder")
    for layer in made["layers"][:1]:
        kept = {key: v for key, v in layer["mixers"][1].items() if key != "encoder_tokens"}
        layer["mixers"][1] = {**kept, "kind": "encoder"}
    return {**made, "notes": [*made.get("notes", []), "decoder alone: cross-attention without an encoder keeps no cache"]}
