"""Exact parameter counts of vision towers from their configs, by class (transformers 5.23.0, models/*/modeling_*.py)."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.importers.hf.fields import Fields


def linear(out: int, inner: int, bias: bool = True) -> int:
    return out * inner + (out if bias else 0)


def transformer(
    n: int, hidden: int, width: int, *, norm: int = 2, biases: int = 4, gated: bool = False, mlp_bias: bool = True, extra: int = 0
) -> int:
    """`n` layers: attention with `biases` of its four, two norms of `norm` vectors each, a feed-forward network, `extra` beside."""
    attention = 4 * hidden * hidden + biases * hidden
    ups = 2 if gated else 1
    mlp = (ups + 1) * hidden * width + (ups * width + hidden if mlp_bias else 0)
    return n * (attention + mlp + 2 * norm * hidden + extra)


def side(f: Fields, key: str) -> int:
    """A size that may be written as [size, size]."""
    value = f.raw(key)
    if isinstance(value, list):
        if len(set(map(str, value))) != 1:
            raise f.fault(key, "must be square")
        value = value[0]
    return f.whole(value, key, 1)


def patches(f: Fields) -> int:
    return (side(f, "image_size") // side(f, "patch_size")) ** 2


def patch(f: Fields, hidden: int, *, bias: bool = True, frames: int = 1, channels: str = "num_channels") -> int:
    return linear(hidden, f.dim(channels) * frames * side(f, "patch_size") ** 2, bias)


def siglip(f: Fields) -> int:
    """SigLIP, with its pooling head where vision_use_head."""
    h, w = f.dim("hidden_size"), f.dim("intermediate_size")
    n = patch(f, h) + patches(f) * h + transformer(f.dim("num_hidden_layers"), h, w) + 2 * h
    if f.flag("vision_use_head"):
        n += h + linear(3 * h, h) + linear(h, h) + 2 * h + linear(w, h) + linear(h, w)
    return n


def siglip_of_timm(f: Fields) -> int:
    """DeepSeek-VL2: SigLIP by timm's names, without the pooling head that engines leave out (vLLM, models/deepseek_vl2.py)."""
    h, ratio = f.dim("width"), f.opt("mlp_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        raise f.fault("mlp_ratio", "must be a number")
    return linear(h, 3 * side(f, "patch_size") ** 2) + patches(f) * h + transformer(f.dim("layers"), h, int(h * ratio)) + 2 * h


def siglip2_navit(f: Fields) -> int:
    """Ovis 2.5: SigLIP 2 of any size; a table of positions beside the rotary ones where it was kept (vLLM, models/siglip2navit.py)."""
    h, stated = f.dim("hidden_size"), f.opt("num_patches")
    table = stated if isinstance(stated, int) and stated > 0 else patches(f)
    positions = table * h if f.flag("preserve_original_pe") else 0
    return patch(f, h) + positions + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + 2 * h


def aimv2(f: Fields) -> int:
    """AIMv2 as Ovis 2 builds it, without a head."""
    h, biases = f.dim("hidden_size"), 4 if f.flag("qkv_bias") else 0
    layers = transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), norm=1, biases=biases, gated=True, mlp_bias=False)
    return patch(f, h) + patches(f) * h + 2 * h + layers


def siglip_plain(f: Fields) -> int:
    """Idefics' copy of SigLIP: no head."""
    h = f.dim("hidden_size")
    return patch(f, h) + patches(f) * h + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + 2 * h


def siglip2(f: Fields) -> int:
    """SigLIP 2 with flexible sizes: a linear patch embedding and num_patches positions."""
    h, w = f.dim("hidden_size"), f.dim("intermediate_size")
    n = patch(f, h) + f.dim("num_patches") * h + transformer(f.dim("num_hidden_layers"), h, w) + 2 * h
    if f.flag("vision_use_head"):
        n += h + linear(3 * h, h) + linear(h, h) + 2 * h + linear(w, h) + linear(h, w)
    return n


def clip(f: Fields) -> int:
    h = f.dim("hidden_size")
    return (
        h + patch(f, h, bias=False) + (patches(f) + 1) * h + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + 4 * h
    )


def pixtral(f: Fields) -> int:
    h = f.dim("hidden_size")
    layers = transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), norm=1, biases=0, gated=True, mlp_bias=False)
    return patch(f, h, bias=False) + h + layers


def qwen2_vl(f: Fields) -> int:
    """Qwen2-VL: `embed_dim` inside, `hidden_size` is the text's; merger included."""
    h, out = f.dim("embed_dim"), f.dim("hidden_size")
    ratio = f.opt("mlp_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        raise f.fault("mlp_ratio", "must be a number")
    wide = h * f.dim("spatial_merge_size") ** 2
    first = patch(f, h, bias=False, frames=f.dim("temporal_patch_size"), channels="in_channels")
    return first + transformer(f.dim("depth"), h, int(h * ratio)) + 2 * h + linear(wide, wide) + linear(out, wide)


def qwen2_5_vl(f: Fields) -> int:
    h = f.dim("hidden_size")
    wide = h * f.dim("spatial_merge_size") ** 2
    first = patch(f, h, bias=False, frames=f.dim("temporal_patch_size"), channels="in_channels")
    layers = transformer(f.dim("depth"), h, f.dim("intermediate_size"), norm=1, gated=True)
    return first + layers + h + linear(wide, wide) + linear(f.dim("out_hidden_size"), wide)


def exaone4_5(f: Fields) -> int:
    """Qwen2.5-VL's tower with grouped KV heads."""
    h, heads, kv = f.dim("hidden_size"), f.dim("num_heads"), f.dim("num_key_value_heads")
    narrow = 2 * (h - kv * (h // heads))
    return qwen2_5_vl(f) - f.dim("depth") * (narrow * h + narrow)


def qwen3_vl(f: Fields) -> int:
    """Qwen3-VL and Qwen3.5: learned positions; one more merger per deepstack layer."""
    h = f.dim("hidden_size")
    wide = h * f.dim("spatial_merge_size") ** 2
    merge = linear(wide, wide) + linear(f.dim("out_hidden_size"), wide)
    first = patch(f, h, frames=f.dim("temporal_patch_size"), channels="in_channels") + f.dim("num_position_embeddings") * h
    deep = len(f.items("deepstack_visual_indexes") or [])
    return first + transformer(f.dim("depth"), h, f.dim("intermediate_size")) + 2 * h + merge + deep * (2 * wide + merge)


def glm4v(f: Fields) -> int:
    h, out, w = f.dim("hidden_size"), f.dim("out_hidden_size"), f.dim("intermediate_size")
    merge = f.dim("spatial_merge_size") ** 2
    first = patch(f, h, frames=f.dim("temporal_patch_size"), channels="in_channels") + patches(f) * h + h
    biases = 3 if f.flag("attention_bias") else 0
    layers = transformer(f.dim("depth"), h, out, norm=1, biases=biases, gated=True, mlp_bias=False)
    return first + layers + h + linear(out, h * merge) + out * out + 2 * out + 3 * out * w


def llama4(f: Fields) -> int:
    h, w = f.dim("hidden_size"), f.dim("intermediate_size")
    inner = f.dim("projector_input_dim")
    adapter = linear(inner, w, False) + linear(f.dim("projector_output_dim"), inner, False)
    return h + patch(f, h, bias=False) + (patches(f) + 1) * h + 4 * h + transformer(f.dim("num_hidden_layers"), h, w) + adapter


def mllama(f: Fields) -> int:
    """Llama 3.2 Vision: tile embeddings per aspect ratio, a local and a global (gated) transformer."""
    h, w = f.dim("hidden_size"), f.dim("intermediate_size")
    tiles, cells = f.dim("max_num_tiles"), patches(f) + 1
    ratios = len(f.items("supported_aspect_ratios") or []) + 1
    positions = 1 + cells * h + ratios * tiles * cells * h + 2 * (1 + ratios * tiles * h)
    local = transformer(f.dim("num_hidden_layers"), h, w, biases=0)
    return h + patch(f, h, bias=False) + positions + 4 * h + local + transformer(f.dim("num_global_layers"), h, w, biases=0, extra=2)


def kimi(f: Fields) -> int:
    """MoonViT of Kimi K2.5 (old keys: vt_*), without the projector."""
    h = f.dim("hidden_size")
    positions = f.dim("pos_emb_height") * f.dim("pos_emb_width") * h
    first = linear(h, 3 * side(f, "patch_size") ** 2)
    return first + positions + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + 2 * h


def internvl(f: Fields) -> int:
    """InternViT in the transformers format."""
    h = f.dim("hidden_size")
    biases = 4 if f.flag("attention_bias") else 1
    extra = 2 * h + (2 * h if f.flag("use_qk_norm") else 0)
    positions = (patches(f) + 1) * h if f.flag("use_absolute_position_embeddings") else 0
    norm = 1 if f.text("norm_type") == "rms_norm" else 2
    layers = transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), norm=norm, biases=biases, extra=extra)
    once = (0 if f.flag("use_mean_pooling") else 2 * h) + (h if f.flag("use_mask_token") else 0)
    return h + patch(f, h) + positions + layers + once


def intern_vit(f: Fields) -> int:
    """InternViT as released by OpenGVLab (modeling_intern_vit.py)."""
    h = f.dim("hidden_size")
    extra = 2 * h + (2 * h if f.flag("qk_normalization") else 0)
    norm = 1 if f.text("norm_type") == "rms_norm" else 2
    layers = transformer(
        f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), norm=norm, biases=4 if f.flag("qkv_bias") else 1, extra=extra
    )
    return h + patch(f, h) + (patches(f) + 1) * h + layers


def nvlm_d(f: Fields) -> int:
    """InternViT with seven heads more, which split evenly (vLLM models/nvlm_d.py); stored as the others are."""
    h = f.dim("hidden_size")
    more = 7 * (h // f.dim("num_attention_heads"))
    normed = 2 * more if f.flag("qk_normalization") else 0
    return intern_vit(f) + f.dim("num_hidden_layers") * (4 * h * more + normed)


def gemma4(f: Fields) -> int:
    """Gemma 4 vision: two position tables, four RMS norms and Q and K norms per layer. Standardisation is kept in buffers."""
    h, head = f.dim("hidden_size"), f.dim("head_dim")
    kv = f.dim("num_key_value_heads") * head
    q = f.dim("num_attention_heads") * head
    layer = 2 * q * h + 2 * kv * h + 2 * head + 3 * h * f.dim("intermediate_size") + 4 * h
    return 2 * f.dim("position_embedding_size") * h + 3 * f.dim("patch_size") ** 2 * h + f.dim("num_hidden_layers") * layer


TOWERS: dict[str, Callable[[Fields], int]] = {
    "siglip_vision_model": siglip, "siglip": siglip, "siglip2_vision_model": siglip2, "idefics3": siglip_plain,
    "idefics3_vision": siglip_plain,
    "smolvlm_vision": siglip_plain, "idefics2_vision": siglip_plain, "clip_vision_model": clip, "pixtral": pixtral, "qwen2_vl": qwen2_vl,
    "qwen2_vl_vision": qwen2_vl, "qwen2_5_vl": qwen2_5_vl, "qwen2_5_vl_vision": qwen2_5_vl, "qwen2_5_omni_vision_encoder": qwen2_5_vl,
    "exaone4_5_vision": exaone4_5, "qwen3_vl": qwen3_vl, "qwen3_vl_vision": qwen3_vl, "qwen3_vl_moe": qwen3_vl,
    "qwen3_vl_moe_vision": qwen3_vl, "qwen3_5": qwen3_vl,
    "qwen4_exp_vision": qwen3_vl, "cohere_compass_vision": qwen3_vl,
    "qwen3_5_vision": qwen3_vl, "qwen3_5_moe": qwen3_vl, "qwen3_5_moe_vision": qwen3_vl, "qwen3_omni_moe_vision_encoder": qwen3_vl,
    "glm4v": glm4v, "glm4v_vision": glm4v, "glm4v_moe_vision": glm4v, "llama4_vision_model": llama4, "mllama_vision_model": mllama,
    "kimi_k25_vision": kimi, "moonvit": kimi, "internvl_vision": internvl, "intern_vit_6b": intern_vit,
    "nvlm_d_vision": nvlm_d, "gemma4_vision": gemma4,
    "lighton_ocr_vision": pixtral, "qianfan_ocr_vision": internvl, "siglip2_navit": siglip2_navit, "aimv2": aimv2,
    "deepseek_vl2_vision": siglip_of_timm,
}  # fmt: skip
