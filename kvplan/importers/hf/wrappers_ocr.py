"""DeepSeek-OCR, its second version and Unlimited-OCR: SAM, then a CLIP or a small Qwen2 over its patches, and a linear to the text.

Shapes: transformers 5.23.0 models/deepseek_ocr2, models/unlimited_ocr; the released files state the same under `width`
(vLLM 0.32 models/deepseek_ocr.py, deepseek_ocr2.py). The sums with the text models are the Hub's totals: 3,336,106,240 and 3,389,119,360.
"""

from __future__ import annotations

from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear, patch, patches, transformer
from kvplan.importers.hf.towers_of_one_family import sam
from kvplan.importers.hf.wrappers import Wrapper, wrapper

#: Learned queries of the second version: for tiles of 768 pixels and for the whole at 1024.
_QUERIES = 12**2 + 16**2
#: What the released files of both leave out of `sam_vit_b` and `clip-l-14-224`, because their code states it.
_SAM = {"hidden_size": 768, "mlp_dim": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "output_channels": 256, "image_size": 1024,
        "patch_size": 16, "num_channels": 3, "window_size": 14, "global_attn_indexes": [2, 5, 8, 11]}  # fmt: skip
_CLIP = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 224, "patch_size": 14, "num_channels": 3}
_QWEN2 = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}


def _strided(f: Fields) -> int:
    """SAM and two convolutions of stride two, without biases."""
    first, second = f.dims("downsample_channels", 2)
    return sam(f) + 9 * f.dim("output_channels") * first + 9 * first * second


def _clip(f: Fields, *, patched: bool) -> int:
    """CLIP without its last norm; transformers' builds no patches of its own, the released file has them."""
    h = f.dim("hidden_size")
    first = h + (patches(f) + 1) * h + 2 * h + (patch(f, h, bias=False) if patched else 0)
    return first + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"))


def _qwen2(f: Fields) -> int:
    h, heads, kv = f.dim("hidden_size"), f.dim("num_attention_heads"), f.dim_or("num_key_value_heads", f.dim("num_attention_heads"))
    wide, narrow = heads * (h // heads), kv * (h // heads)
    layer = linear(wide, h) + 2 * linear(narrow, h) + h * wide + 3 * h * f.dim("intermediate_size") + 2 * h
    return f.dim("num_hidden_layers") * layer + h + _QUERIES * h


def ocr2(f: Fields, t: Wrapper) -> Stack:
    """DeepSeek-OCR-2: one separator between the views."""
    made, vision = wrapper(f, t), f.part("vision_config", "deepseek_ocr2_vision")
    encoder, text = vision.part("encoder_config", "deepseek_ocr2_encoder"), made["hidden_size"]
    tower = _strided(vision.part("sam_config", "deepseek_ocr2_sam_vision_model")) + _qwen2(encoder)
    return _with(made, tower, linear(text, encoder.dim("hidden_size")) + text)


def unlimited(f: Fields, t: Wrapper) -> Stack:
    """Unlimited-OCR: a separator between the views and a newline."""
    made, vision = wrapper(f, t), f.part("vision_config", "unlimited_ocr_vision")
    first = vision.part("sam_config", "unlimited_ocr_sam_vision_model")
    encoder, text = vision.part("encoder_config", "unlimited_ocr_vision_encoder"), made["hidden_size"]
    wide = first.dims("downsample_channels", 2)[1] + encoder.dim("hidden_size")
    note = "a prompt is kept whole, of what is written after it the last sliding_window tokens: all are counted, as if all were prompt"
    made = _with(made, _strided(first) + _clip(encoder, patched=False), linear(text, wide) + 2 * text)
    return {**made, "notes": [*made.get("notes", []), note]}


def released(f: Fields, t: Wrapper) -> Stack:
    """The files of deepseek-ai's own releases, whose towers' sizes are in their code; the widths say which of the two it is."""
    made = wrapper(f, t)
    widths = f.data.get("vision_config", {}).get("width") if isinstance(f.data.get("vision_config"), dict) else None
    if not isinstance(widths, dict) or not isinstance(widths.get("sam_vit_b"), dict):
        return {**made, "uncounted": ["the image encoders and what joins them are not counted: no `width` describes them"]}
    stated = {**_SAM, "downsample_channels": widths["sam_vit_b"].get("downsample_channels")}
    first, text = Fields(stated, f.source, path="vision_config.width.sam_vit_b"), made["hidden_size"]
    if "qwen2-0-5b" in widths:
        return _with(made, _strided(first) + _qwen2(Fields(_QWEN2, f.source)), linear(text, _QWEN2["hidden_size"]) + text)
    wide = first.dims("downsample_channels", 2)[1] + _CLIP["hidden_size"]
    return _with(made, _strided(first) + _clip(Fields(_CLIP, f.source), patched=True), linear(text, wide) + 2 * text)


def _with(made: Stack, tower: int, joint: int) -> Stack:
    towers = [{"name": "vision_tower", "parameters": tower}, {"name": "vision_projector", "parameters": joint}]
    return {**made, "towers": [*made.get("towers", []), *towers]}
