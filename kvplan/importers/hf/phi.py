"""Phi-3 vision and Phi-3 small, as released by Microsoft (their own code; vLLM models/phi3v.py, phi3_small.py)."""

from __future__ import annotations

from kvplan.importers.hf.decoder import Stack, decoder
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.towers import linear, transformer

#: openai/clip-vit-large-patch14-336, whose shapes the released code states and the config only names.
_CLIP = 1024 + 3 * 14 * 14 * 1024 + (24 * 24 + 1) * 1024 + transformer(24, 1024, 4096) + 4 * 1024


def vision(f: Fields, t: Decoder) -> Stack:
    """Phi-3 with a CLIP tower: four patches side by side, two linears, two separators."""
    made = decoder(f, t)
    layer, image = f.part("embd_layer"), f.part("img_processor")
    named = str(image.opt("model_name") or image.opt("name"))
    usual = layer.opt("projection_cls") == "mlp" and layer.flag("use_hd_transform") and layer.flag("with_learnable_separator")
    if not named.startswith(("openai/clip-vit-large-patch14-336", "clip_vision_model")) or not usual:
        note = f"the image tower and its projector are not counted: {named[:60]!r} in another arrangement than Phi-3's"
        return {**made, "uncounted": [note]}
    wide, hidden = 4 * image.dim("image_dim_out"), made["hidden_size"]
    joined = linear(hidden, wide) + linear(hidden, hidden) + 2 * wide
    towers = [{"name": "vision_tower", "parameters": _CLIP}, {"name": "vision_projector", "parameters": joined}]
    return {**made, "towers": towers}


def small(f: Fields, t: Decoder) -> Stack:
    """Phi-3 small: every other layer attends to chosen blocks only, yet keeps all K and V; the head is tied."""
    made = decoder(f, t)
    every = f.count("dense_attention_every_n_layers")
    if not every:
        return made
    return {**made, "notes": [f"block-sparse attention in all but every {every}. layer: all K and V are kept all the same"]}
