"""Exact parameter counts of what joins a tower to the text model, by wrapper class (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear
from kvplan.importers.hf.towers_of_one_family import sam


class Sides(NamedTuple):
    """The whole config, the tower's, and the text model's width."""

    whole: Fields
    vision: Fields
    text: int

    @property
    def hidden(self) -> int:
        return self.vision.dim("hidden_size")


def llava(s: Sides) -> int:
    """Two linears; several feature layers are read side by side."""
    layers = s.whole.opt("vision_feature_layer")
    n = len(layers) if isinstance(layers, list) else 1
    bias = s.whole.flag("multimodal_projector_bias")
    return linear(s.text, s.hidden * n, bias) + linear(s.text, s.text, bias)


def mistral3(s: Sides) -> int:
    merge, bias = s.whole.dim("spatial_merge_size"), s.whole.flag("multimodal_projector_bias")
    return s.hidden + s.hidden * s.hidden * merge**2 + linear(s.text, s.hidden, bias) + linear(s.text, s.text, bias)


def deepseek_v41(s: Sides) -> int:
    """Squares of `downsample_ratio` patches to the text's width, and a second linear."""
    return linear(s.text, s.hidden * s.vision.dim("downsample_ratio") ** 2) + linear(s.text, s.text)


def internvl(s: Sides) -> int:
    """Pixel shuffle by `downsample_ratio` (one half: four patches to one), a norm and two linears."""
    wide = 4 * s.hidden
    return 2 * wide + linear(s.text, wide) + linear(s.text, s.text)


def nvlm_d(s: Sides) -> int:
    """The same with the text model's MLP width between, without biases (vLLM models/nvlm_d.py)."""
    wide, middle = 4 * s.hidden, s.whole.part("llm_config", "qwen2").dim("intermediate_size")
    return 2 * wide + middle * (wide + s.text)


def kimi(s: Sides) -> int:
    rows, columns = s.vision.dims("merge_kernel_size", 2)
    wide = s.hidden * rows * columns
    apart = s.whole.opt("projection_hidden_size") is not None and not s.vision.given("vt_hidden_size")
    normed = s.whole.dim("projection_hidden_size") if apart else s.hidden
    return 2 * normed + linear(wide, wide) + linear(s.text, wide)


def kimi_k3(s: Sides) -> int:
    """Two linears without bias over merged patches, and a norm behind (mm_projector_type patchmergerv2)."""
    if s.vision.text("mm_projector_type") != "patchmergerv2":
        raise s.vision.fault("mm_projector_type", "only patchmergerv2 is modelled")
    rows, columns = s.vision.dims("merge_kernel_size", 2)
    wide = s.hidden * rows * columns
    return wide * wide + s.text * wide + s.text


def voxtral_realtime(s: Sides) -> int:
    """Frames side by side through two linears without biases."""
    return s.text * s.hidden * s.whole.dim("downsample_factor") + s.text * s.text


def cohere2_vision(s: Sides) -> int:
    wide = s.hidden * s.whole.dim("downsample_factor") ** 2
    middle = s.whole.dim("alignment_intermediate_size")
    return linear(middle, wide) + linear(s.text, middle // 2)


def lfm2_vl(s: Sides) -> int:
    wide, middle = s.hidden * s.whole.dim("downsample_factor") ** 2, s.whole.dim("projector_hidden_size")
    bias = s.whole.flag("projector_bias")
    norm = 2 * wide if s.whole.flag("projector_use_layernorm") else 0
    return norm + linear(middle, wide, bias) + linear(s.text, middle, bias)


def vipllava(s: Sides) -> int:
    """Five feature layers side by side, normed."""
    found = s.whole.opt("vision_feature_layer")
    layers = found if isinstance(found, list) else [found]
    return 2 * len(layers) * s.hidden + linear(s.text, len(layers) * s.hidden) + linear(s.text, s.text)


def aria(s: Sides) -> int:
    """As many queries as the largest number of patches asks for, cross-attention to the tower, a network to the text's width."""
    h, table = s.hidden, s.whole.opt("projector_patch_to_query_dict")
    queries = s.whole.opt("max_value_projector_patch_to_query_dict")
    if queries is None:
        queries = max(table.values()) if isinstance(table, dict) and table else 256  # configuration_aria.py: {1225: 128, 4900: 256}
    attention = 3 * h * h + linear(3 * h, h) + 2 * linear(h, h) + 4 * h
    return s.whole.whole(queries, "projector_patch_to_query_dict", 1) * h + attention + 2 * h + s.text * h + s.text * s.text


def aya(s: Sides) -> int:
    """Merged patches normed, a gated network to the text's width."""
    wide, middle = s.hidden * s.whole.dim("downsample_factor") ** 2, s.whole.dim_or("alignment_intermediate_size", s.text)
    return 2 * wide + linear(middle, wide) + linear(s.text, middle // 2)


def granite_speech(s: Sides) -> int:
    """A query transformer over windows of frames, and a linear to the text's width."""
    q = s.whole.part("projector_config", "blip_2_qformer")
    h, w, n = q.dim("hidden_size"), q.dim("intermediate_size"), q.dim("num_hidden_layers")
    reads = 2 * linear(h, q.dim("encoder_hidden_size")) + 2 * linear(h, h) + 2 * h
    networks = 2 if q.flag("use_qformer_text_input") else 1
    each = 4 * linear(h, h) + 2 * h + networks * (linear(w, h) + linear(h, w) + 2 * h)
    crossing = len(range(0, n, q.dim("cross_attention_frequency")))
    queries = s.whole.dim("window_size") // s.whole.dim("downsample_rate")
    return queries * h + 2 * h + n * each + crossing * reads + linear(s.text, h)


def nemotron_omni(s: Sides) -> int:
    """Merged patches normed, two linears without bias."""
    ratio = s.whole.raw("downsample_ratio")
    if not isinstance(ratio, int | float) or isinstance(ratio, bool) or not 0 < ratio <= 1:
        raise s.whole.fault("downsample_ratio", f"must be a share of 1 (is {ratio!r:.40})")
    wide, middle = s.whole.dim("vision_hidden_size") * int(1 / ratio) ** 2, s.whole.dim("projector_hidden_size")
    return wide + middle * wide + s.text * middle


def ultravox(s: Sides) -> int:
    """Frames side by side normed, two linears around a gate, a norm behind one of them (vLLM models/ultravox.py)."""
    if s.whole.count("num_projector_layers"):
        raise s.whole.fault("num_projector_layers", "a projector with layers of its own is not modelled; declare the model as a spec file")
    wide, middle = s.vision.dim("d_model") * s.whole.dim_or("stack_factor", 8), s.whole.dim_or("hidden_size", 4096)
    out = middle // 2 if s.whole.opt("projector_act") in (None, "swiglu") else middle
    return wide + middle * wide + s.text * out + (out if s.whole.flag("projector_ln_mid") else s.text)


def nemotron_vl(s: Sides) -> int:
    """Four patches to one, a norm and two linears (vLLM models/nemotron_vl.py)."""
    wide, middle = 4 * s.hidden, s.whole.dim_or("projector_hidden_size", s.text)
    return 2 * wide + linear(middle, wide) + linear(s.text, middle)


def phi4_audio(s: Sides) -> int:
    """Two linears for speech alone, two for speech beside images."""
    return 2 * (linear(s.text, s.hidden * s.vision.dim("downsample_rate")) + linear(s.text, s.text))


def minimax_m3(s: Sides) -> int:
    """Two linears per patch, then two per merged patch."""
    middle, wide = s.whole.dim("projector_hidden_size"), s.text * s.vision.dim("spatial_merge_size") ** 2
    return linear(middle, s.hidden) + linear(s.text, middle) + linear(middle, wide) + linear(s.text, middle)


def muse_glimmer(s: Sides) -> int:
    """An adapter of two linears over merged patches, and a projection to the text's width, all without bias."""
    middle = s.whole.dim("projector_hidden_size")
    return middle * s.whole.dim("out_hidden_size") + middle * middle + s.text * middle


def ovis2(s: Sides) -> int:
    """A table of visual words, as wide as the wrapper says."""
    return s.vision.dim("vocab_size") * s.whole.dim_or("hidden_size", s.text)


def visual_words(s: Sides, words: int, marks: int, stride: int) -> int:
    """Ovis: a head from squares of `stride` patches to visual words with a norm behind, and a table of these as wide as the text."""
    return (words - marks) * (s.hidden * stride**2 + 2) + words * s.text


def ovis2_5(s: Sides) -> int:
    """Four of the words are marks of an image's bounds and have no row in the head (vLLM, models/ovis2_5.py)."""
    return visual_words(s, s.whole.dim("visual_vocab_size"), 4, s.vision.dim("hidden_stride"))


def deepseek_vl2(s: Sides) -> int:
    """Two linears over squares of patches, a mark of a new line and one between views."""
    p = s.whole.part("projector_config")
    if p.text("projector_type") != "downsample_mlp_gelu" or p.dim_or("depth", 2) != 2:
        raise p.fault("projector_type", "only downsample_mlp_gelu of two layers is modelled")
    middle = s.text * p.dim_or("mlp_ratio", 1)
    return linear(middle, s.vision.dim("width") * p.dim_or("downsample_ratio", 2) ** 2) + linear(s.text, middle) + 2 * s.text


def paddleocr(s: Sides) -> int:
    wide = s.hidden * s.vision.dim("spatial_merge_size") ** 2
    return 2 * s.hidden + linear(wide, wide) + linear(s.text, wide)


def molmo2(s: Sides) -> int:
    """Attention pooling over the layers read, then a gated network to the text's width."""
    a = s.whole.part("adapter_config", "molmo2_adapter")
    h, heads, layers = a.dim("hidden_size"), a.dim("num_attention_heads") * a.dim("head_dim"), len(a.items("vision_feature_layer") or [])
    inner, on = s.hidden * layers, a.flag("attention_bias")
    keys = a.dim("num_key_value_heads") * a.dim("head_dim")
    pooling = linear(heads, inner, on) + 2 * linear(keys, inner, on) + linear(h, heads, on)
    width = a.dim("intermediate_size")
    return pooling + 2 * linear(width, h, a.flag("mlp_bias")) + a.dim("text_hidden_size") * width


def minicpmv4_6(s: Sides) -> int:
    """Mergers one after the other; the last one reaches the text's width."""
    rows, columns = s.whole.dims("merge_kernel_size", 2)
    wide, times = s.hidden * rows * columns, s.whole.dim("merger_times")
    each = 2 * wide + linear(wide, wide)
    return times * each + (times - 1) * linear(s.hidden, wide) + linear(s.text, wide)


def ernie(s: Sides) -> int:
    """Spatial and temporal mergers with norms, a linear to the text's width and a norm there."""
    wide = s.hidden * s.vision.dim("spatial_merge_size") ** 2
    temporal = wide * s.vision.dim("temporal_merge_size")
    return linear(wide, wide) * 3 + linear(wide, temporal) + 4 * wide + linear(s.text, wide) + s.text


def idefics2(s: Sides) -> int:
    """A gated projection and a perceiver resampler in the text's width."""
    p = s.whole.part("perceiver_config", "idefics2_perceiver")
    text, width, latents, n = (
        s.text,
        s.whole.part("text_config").dim("intermediate_size"),
        p.dim("resampler_n_latents"),
        p.dim("resampler_depth"),
    )
    q = p.dim("resampler_n_heads") * p.dim("resampler_head_dim")
    kv = p.dim("num_key_value_heads") * p.dim("resampler_head_dim")
    layer = 3 * text + 2 * q * text + 2 * kv * text + 3 * 4 * text * text
    return 2 * width * s.hidden + text * width + latents * text + n * layer + text


def audio_pair(s: Sides) -> int:
    """Two linears from the audio width, with projector_bias."""
    on = s.whole.flag("projector_bias")
    return linear(s.text, s.hidden, on) + linear(s.text, s.text, on)


def glmasr(s: Sides) -> int:
    """Two linears over frames side by side, twice the text's width between."""
    return linear(2 * s.text, s.vision.dim("intermediate_size")) + linear(s.text, 2 * s.text)


def qwen3_asr(s: Sides) -> int:
    h = s.vision.dim("d_model")
    return linear(h, h) + linear(s.vision.dim("output_dim"), h)


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


def merged_norm(s: Sides) -> int:
    """A norm, patches merged, two linears of projector_hidden_size."""
    middle = s.whole.dim("projector_hidden_size")
    return 2 * s.hidden + linear(middle, s.hidden * s.vision.dim("spatial_merge_size") ** 2) + linear(s.text, middle)


def two_resolutions(s: Sides) -> int:
    """DeepSeek-VL: SAM beside SigLIP, a neck and two convolutions of its own, half of the text's width from each."""
    high = s.whole.part("high_res_vision_config", "sam_vision_model")
    out, half = high.dim("output_channels"), s.text // 2
    neck = out * high.dim("hidden_size") + 9 * out * out + 4 * out
    return (
        1 + sam(high) + neck + 9 * out * 2 * out + 9 * 2 * out * 4 * out
        + linear(half, s.hidden) + linear(half, 4 * out) + linear(s.text, s.text)
    )  # fmt: skip


def moss_joint(s: Sides) -> int:
    """Two linears over frames side by side, and a norm."""
    on = s.whole.opt("projector_bias") is not False
    wide = s.vision.dim("hidden_size") * s.whole.dim("audio_merge_size")
    return linear(s.text, wide, on) + linear(s.text, s.text, on) + 2 * s.text


def shuffled(s: Sides) -> int:
    """Patches merged by pixel_shuffle_factor through one linear without a bias."""
    return s.text * s.hidden * s.whole.dim("pixel_shuffle_factor") ** 2


def janus_joint(s: Sides) -> int:
    """As many linears as `depth` says, to the width of the tower's projection_dim."""
    wide = s.vision.dim("projection_dim")
    return linear(wide, s.hidden) + (s.vision.dim("depth") - 1) * linear(wide, wide)


def window_q_formers(s: Sides) -> int:
    """Granite 4 Vision: a query transformer over windows for each layer that is read, and one for each offset; a newline."""
    q, h, rate = s.whole.part("qformer_config", "blip_2_qformer"), s.hidden, s.whole.text("downsample_rate") or ""
    query, slash, window = rate.partition("/")
    if not (slash and query.isdecimal() and window.isdecimal() and len(rate) < 12):
        raise s.whole.fault("downsample_rate", f"must be two numbers as 4/8 (is {rate!r:.40})")
    inner, wide, n = h, q.dim("intermediate_size"), q.dim("num_hidden_layers")  # the class makes it as wide as the tower
    network = (linear(wide, inner) + linear(inner, wide) + 2 * inner) * (2 if q.flag("use_qformer_text_input") else 1)
    cross = 4 * linear(inner, inner) + 2 * inner
    layers = n * (4 * linear(inner, inner) + 2 * inner + network) + -(-n // q.dim("cross_attention_frequency")) * cross
    each = (int(query) ** 2 + int(window) ** 2) * h + 2 * inner + layers + 2 * h + linear(s.text, h)
    count = len(s.whole.items("deepstack_layer_map") or []) + len(s.whole.items("spatial_target_layers") or [])
    return s.text + count * each


def hunyuan_vl_joint(s: Sides) -> int:
    """A linear to the text's width, whatever the tower's config says of it, three marks and a norm there."""
    return linear(s.text, 4 * s.hidden) + 4 * s.text


def transcribed(s: Sides) -> int:
    """Nemotron 3.5 Transcribe: one linear from the speech encoder's width."""
    return linear(s.text, s.vision.part("asr_config", "nemotron3_5_transcribe_asr_audio").dim("hidden_size"))


PROJECTORS: dict[str, Callable[[Sides], int]] = {
    "llava": llava, "mistral3": mistral3,
    "internvl": internvl, "nvlm_d": nvlm_d, "kimi": kimi, "deepseek_v41": deepseek_v41,
    "cohere2_vision": cohere2_vision, "lfm2_vl": lfm2_vl, "vipllava": vipllava,
    "kimi_k3": kimi_k3, "audio_pair": audio_pair, "glmasr": glmasr, "qwen3_asr": qwen3_asr,
    "muse_glimmer": muse_glimmer, "ovis2": ovis2, "ovis2_5": ovis2_5, "deepseek_vl2": deepseek_vl2,
    "paddleocr": paddleocr, "molmo2": molmo2,
    "minicpmv4_6": minicpmv4_6, "ernie": ernie, "idefics2": idefics2,
    "aria": aria, "aya": aya, "granite_speech": granite_speech, "nemotron_omni": nemotron_omni,
    "nemotron_vl": nemotron_vl, "ultravox": ultravox,
    "phi4_audio": phi4_audio, "minimax_m3": minimax_m3,
    "voxtral_realtime": voxtral_realtime,
    "lfm3_vl": lfm3_vl_joint, "got_ocr2": got_ocr2, "q_former": q_former,
    "janus": janus_joint,
    "hunyuan_vl": hunyuan_vl_joint, "window_q_formers": window_q_formers,
    "merged_norm": merged_norm, "two_resolutions": two_resolutions, "moss": moss_joint,
    "shuffled": shuffled, "transcribed": transcribed,
    "llava_newline": lambda s: llava(s) + s.text,
    "linear": lambda s: linear(s.whole.dim_or("projection_dim", s.text), s.hidden),
    "gemma3": lambda s: s.hidden * s.text + s.hidden,
    "gemma4": lambda s: s.hidden * s.text,
    "idefics3": lambda s: s.text * s.hidden * s.whole.dim("scale_factor") ** 2,
    "llama4": lambda s: s.text * s.vision.dim("vision_output_dim"),
    "mllama": lambda s: linear(s.text, s.vision.dim("vision_output_dim")),
    "qwen2_audio": lambda s: linear(s.text, s.vision.dim("d_model")),
    "aligner": lambda s: linear(s.text, s.hidden) + linear(s.text, s.text),
    "one_linear": lambda s: linear(s.text, s.vision.dim_or("out_hidden_size", s.hidden)),
    "phi4_image": lambda s: 2 * s.hidden + linear(s.text, s.hidden) + linear(s.text, s.text),  # Two separators of images, then two linears
    "step_vl": lambda s: linear(s.text, 4 * s.vision.dim("width"), s.whole.flag("projector_bias")),
    "step3p7": lambda s: linear(s.text, 4 * s.vision.dim("hidden_size"), s.whole.flag("projector_bias")),
    "voxtral": lambda s: s.text * s.vision.dim("intermediate_size") + s.text * s.text,
    "gemma4_audio": lambda s: s.vision.dim("output_proj_dims") * s.text,
    "none": lambda s: 0,
    "two_linears_normed": lambda s: linear(s.text, s.hidden) + s.text + linear(s.text, s.text),
    "shuffled_normed": lambda s: shuffled(s) + s.text,
}  # fmt: skip
