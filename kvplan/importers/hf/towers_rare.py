"""Exact parameter counts of further towers and what joins them to the text (transformers 5.23.0, models/*/modeling_*.py)."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.projectors import Sides
from kvplan.importers.hf.towers import linear, patch, patches, qwen3_vl, side, transformer


def lfm3_vl(f: Fields) -> int:
    """LFM3-VL: gated convolutions in two dimensions and grouped attention, gated networks without biases."""
    h, w, n = f.dim("hidden_size"), f.dim("intermediate_size"), f.dim("num_hidden_layers")
    frames = side(f, "temporal_patch_size")
    types = f.items("layer_types", n) or ["conv" if i < 2 or i % 2 else "full_attention" for i in range(n)]
    head = h // f.dim("num_attention_heads")
    kv = f.dim("num_key_value_heads") * head
    mixers = {"conv": 4 * h * h + h * f.dim("conv_kernel_size") ** 2, "full_attention": 2 * h * h + 2 * kv * h + 2 * head}
    if set(types) - mixers.keys():
        raise f.fault("layer_types", "a layer that this tower does not have")
    return patch(f, h, bias=False, frames=frames, channels="in_channels") + h + sum(mixers[kind] + 3 * h * w + 2 * h for kind in types)


def video_llama_3(f: Fields) -> int:
    """SigLIP without positions."""
    h = f.dim("hidden_size")
    return patch(f, h) + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + 2 * h


def sam(f: Fields) -> int:
    """SAM's image encoder: relative positions per axis, of the window or (in global layers) of the grid; a neck of two convolutions."""
    h, w, n, out = f.dim("hidden_size"), f.dim("mlp_dim"), f.dim("num_hidden_layers"), f.dim("output_channels")
    grid, head = side(f, "image_size") // side(f, "patch_size"), h // f.dim("num_attention_heads")
    layers = transformer(n, h, w, biases=4 if f.opt("qkv_bias") is not False else 1)
    if f.opt("use_rel_pos") is not False:
        whole = {i for i in f.items("global_attn_indexes") or [] if isinstance(i, int)}
        window = f.dim("window_size")
        layers += sum(2 * (2 * (grid if i in whole else window) - 1) * head for i in range(n))
    positions = grid * grid * h if f.opt("use_abs_pos") is not False else 0
    return positions + patch(f, h) + layers + out * h + 9 * out * out + 4 * out


def blip_2(f: Fields) -> int:
    """BLIP-2's ViT: a bias on queries, keys and values by flag."""
    h = f.dim("hidden_size")
    first = h + linear(h, 3 * side(f, "patch_size") ** 2) + (patches(f) + 1) * h
    biases = 4 if f.opt("qkv_bias") is not False else 1
    return first + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), biases=biases) + 2 * h


def interns1_pro(f: Fields) -> int:
    """Qwen3-VL's tower without deepstack (vLLM 0.33 models/interns1_pro.py)."""
    return qwen3_vl(f.named({}, {"deepstack_visual_indexes": []}))


RARE: dict[str, Callable[[Fields], int]] = {
    "lfm3_vl_vision": lfm3_vl, "video_llama_3_vision": video_llama_3, "got_ocr2_vision": sam, "blip_2_vision_model": blip_2,
    "instructblip_vision_model": blip_2, "instructblipvideo_vision_model": blip_2,
    "interns1_pro_vision": interns1_pro,
}  # fmt: skip


def lfm3_vl_joint(s: Sides) -> int:
    """A norm, patches merged, two linears."""
    middle, bias = s.whole.dim("projector_hidden_size"), s.whole.opt("projector_bias") is not False
    wide = s.hidden * s.vision.dim("spatial_merge_size") ** 2
    return 2 * s.hidden + linear(middle, wide, bias) + linear(s.text, middle, bias)


def got_ocr2(s: Sides) -> int:
    """Two strided convolutions, the second to the text's width, and a linear."""
    out = s.vision.dim("output_channels")
    return 9 * out * 2 * out + 9 * 2 * out * s.text + linear(s.text, s.text)


def q_former(s: Sides) -> int:
    """Learned queries, BERT layers with cross-attention in every `cross_attention_frequency`-th, a linear to the text.

    InstructBLIP's reads the instruction too: an embedding, and a network for text beside the one for queries.
    """
    kind = "blip_2_qformer" if s.whole.model_type == "blip-2" else "instructblip_qformer"
    q = s.whole.part("qformer_config", kind)
    h, w, n, every = q.dim("hidden_size"), q.dim("intermediate_size"), q.dim("num_hidden_layers"), q.dim("cross_attention_frequency")
    reads = kind != "blip_2_qformer" or q.flag("use_qformer_text_input")
    network = linear(w, h) + linear(h, w) + 2 * h
    cross = 2 * linear(h, h) + 2 * linear(h, s.hidden) + 2 * h
    layers = n * (4 * linear(h, h) + 2 * h + network * (2 if reads else 1)) + -(-n // every) * cross
    words = (q.dim("vocab_size") + q.dim("max_position_embeddings")) * h if kind != "blip_2_qformer" else 0
    return s.whole.dim("num_query_tokens") * h + words + 2 * h + layers + linear(s.text, h)


JOINTS: dict[str, Callable[[Sides], int]] = {
    "lfm3_vl": lfm3_vl_joint, "got_ocr2": got_ocr2, "q_former": q_former,
}  # fmt: skip
