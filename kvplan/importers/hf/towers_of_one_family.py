"""Exact parameter counts of towers that one family has (transformers 5.23.0, models/*/modeling_*.py)."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.importers.hf.audio_towers import whisper
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear, patch, patches, qwen3_vl, side, siglip2, siglip_plain, transformer
from kvplan.importers.hf.towers_with_mergers import muse_glimmer
from kvplan.importers.hf.vq import chameleon_vq, emu3_vq, janus_generation, vibevoice


def lfm3_vl(f: Fields) -> int:
    """LFM3-VL: gated convolutions in two dimensions and grouped attention, gated networks without biases."""
    h, w, n = f.dim("hidden_size"), f.dim("intermediate_size"), f.dim("num_hidden_layers")
    frames = side(f, "temporal_patch_size")
    types = f.listed("layer_types", n, ["conv" if i < 2 or i % 2 else "full_attention" for i in range(n)])
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


def cosmos3_edge(f: Fields) -> int:
    """SigLIP 2 without a pooling head."""
    return siglip2(f.named({}, {"vision_use_head": False}))


def granite_docling(f: Fields) -> int:
    """SigLIP and its connector: patches merged twice, coarse and fine, each with mergers of deeper layers."""
    h, out, factor = f.dim("hidden_size"), f.dim("out_hidden_size"), f.dim("scale_factor")
    deep = len(f.items("deepstack_visual_indexes") or [])

    def path(wide: int) -> int:
        return wide * out + deep * (2 * wide + linear(out, wide) + linear(out, out))

    fine = path(h * (factor // 2) ** 2) if f.opt("use_fine_route") is not False else 0
    return siglip_plain(f) + 2 * h + path(h * factor**2) + fine + 4 * out + out * out


def moss(f: Fields) -> int:
    """Whisper's encoder under keys of its own."""
    names = {"d_model": ("hidden_size",), "encoder_layers": ("num_hidden_layers",), "encoder_ffn_dim": ("intermediate_size",)}
    return whisper(f.named(names, {}))


def janus(f: Fields) -> int:
    """SigLIP with biases on queries, keys and values by flag, and norms on Q and K by another."""
    h, ratio = f.dim("hidden_size"), f.raw("mlp_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        raise f.fault("mlp_ratio", "must be a number")
    biases, extra = 4 if f.opt("attention_bias") is not False else 1, 4 * h if f.flag("use_qk_norm") else 0
    layers = transformer(f.dim("num_hidden_layers"), h, int(h * ratio), biases=biases, extra=extra)
    return patch(f, h) + patches(f) * h + layers + 2 * h


def hunyuan_vl(f: Fields) -> int:
    """Positions of the largest image, and a merger of two convolutions with marks of its own."""
    h, merge = f.dim("hidden_size"), f.dim("spatial_merge_size")
    rows = (f.dim("max_image_size") // f.dim("patch_size")) ** 2 + 1
    merger = linear(2 * h, h * merge**2) + linear(4 * h, 2 * h) + 4 * h + h
    return patch(f, h) + rows * h + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + merger


def hy_v4_vl(f: Fields) -> int:
    """HunYuan-VL's tower with a plainer merger, straight to the text's width (transformers 5.24.0 models/hy_v4_vl)."""
    h, out, merged = f.dim("hidden_size"), f.dim("out_hidden_size"), f.dim("hidden_size") * f.dim("spatial_merge_size") ** 2
    rows = (f.dim("max_image_size") // f.dim("patch_size")) ** 2 + 1
    merger = linear(merged, merged) + linear(out, merged) + out + h
    return patch(f, h) + rows * h + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size")) + merger


def deepseek_v41(f: Fields) -> int:
    """Gated networks without biases, norms of one vector (vLLM 0.33 models/deepseek_v4/common/vision.py)."""
    h = f.dim("hidden_size")
    front = linear(h, 3 * f.dim("patch_size") ** 2) + h
    return front + transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), norm=1, gated=True, mlp_bias=False)


def muse_spark_audio(f: Fields) -> int:
    """Stages of patches, depthwise convolutions and networks; a projection with norms around it."""
    sizes, patches_of, depths = (f.items(key) or [] for key in ("hidden_sizes", "patch_sizes", "depths"))
    ratio, kernel, out, total, last = f.raw("mlp_ratio"), f.dim("conv_kernel_size"), f.dim("out_hidden_size"), 0, 1
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not len(sizes) == len(patches_of) == len(depths):
        raise f.fault("hidden_sizes", "hidden_sizes, patch_sizes and depths must have one entry a stage, and mlp_ratio be a number")
    for size, edge, depth in zip(sizes, patches_of, depths, strict=True):
        h = f.whole(size, "hidden_sizes", 1)
        block = linear(h, kernel) + h + linear(int(h * ratio), h) + linear(h, int(h * ratio))
        total += linear(h, last * f.whole(edge, "patch_sizes", 1)) + h + f.whole(depth, "depths") * block
        last = h
    return total + last + linear(out, last) + out


def dots_vit(f: Fields) -> int:
    """dots.ocr: gated networks, biases only where use_bias says so, and a merger (modeling_dots_vision.py beside its weights)."""
    h, biased = f.dim("embed_dim"), f.flag("use_bias")
    frames, merged = f.dim_or("temporal_patch_size", 1), h * f.dim("spatial_merge_size") ** 2
    front = patch(f, h, frames=frames) + h
    layers = transformer(f.dim("num_hidden_layers"), h, f.dim("intermediate_size"), norm=1, biases=4 * biased, gated=True, mlp_bias=biased)
    return front + layers + h * f.flag("post_norm") + 2 * h + linear(merged, merged) + linear(f.dim("hidden_size"), merged)


def qwen_vl(f: Fields) -> int:
    """Qwen-VL of 2023: a CLIP tower and 256 queries that read it (visual.py beside its weights)."""
    h, out, ratio = f.dim("width"), f.dim("output_dim"), f.raw("mlp_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool):
        raise f.fault("mlp_ratio", "must be a number")
    queries = f.dim_or("n_queries", 256)
    layers = transformer(f.dim("layers"), h, int(h * ratio))
    front = linear(h, 3 * f.dim("patch_size") ** 2, False) + 256 * h + 2 * h
    return front + layers + 2 * queries * out + out * h + 4 * linear(out, out) + 6 * out + out * out


def gemma4_unified(f: Fields) -> int:
    """No encoder: pixels of a patch to one row between norms, and positions of two axes."""
    pixels, row = 3 * f.dim("model_patch_size") ** 2, f.dim("mm_embed_dim")
    return 2 * pixels + linear(row, pixels) + 2 * row + f.dim("mm_posemb_size") * 2 * row + 2 * row


OF_ONE_FAMILY: dict[str, Callable[[Fields], int]] = {
    "lfm3_vl_vision": lfm3_vl, "video_llama_3_vision": video_llama_3, "got_ocr2_vision": sam, "blip_2_vision_model": blip_2,
    "instructblip_vision_model": blip_2, "instructblipvideo_vision_model": blip_2,
    "interns1_pro_vision": interns1_pro,
    "janus_vision_model": janus, "janus_vqgan": janus_generation,
    "chameleon_vqgan": chameleon_vq, "emu3_vqgan": emu3_vq,
    "vibevoice_acoustic_tokenizer_encoder": vibevoice,
    "muse_spark_vision": muse_glimmer, "muse_spark_audio": muse_spark_audio,
    "hunyuan_vl_vision": hunyuan_vl, "cosmos3_edge_vision": cosmos3_edge, "granite_docling_vision": granite_docling,
    "moss_transcribe_diarize_audio": moss, "gemma4_unified_vision": gemma4_unified, "gemma4_unified_audio": lambda f: 0,
    "dots_vit": dots_vit, "hy_v4_vl_vision": hy_v4_vl, "deepseek_v41_vision": deepseek_v41,
}  # fmt: skip
