"""Exact parameter counts of what joins a tower to the text model, by wrapper class (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear


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


def llava_newline(s: Sides) -> int:
    return llava(s) + s.text


def linear_one(s: Sides) -> int:
    return linear(s.whole.dim_or("projection_dim", s.text), s.hidden)


def gemma3(s: Sides) -> int:
    return s.hidden * s.text + s.hidden


def gemma4(s: Sides) -> int:
    return s.hidden * s.text


def mistral3(s: Sides) -> int:
    merge, bias = s.whole.dim("spatial_merge_size"), s.whole.flag("multimodal_projector_bias")
    return s.hidden + s.hidden * s.hidden * merge**2 + linear(s.text, s.hidden, bias) + linear(s.text, s.text, bias)


def idefics3(s: Sides) -> int:
    return s.text * s.hidden * s.whole.dim("scale_factor") ** 2


def llama4(s: Sides) -> int:
    return s.text * s.vision.dim("vision_output_dim")


def mllama(s: Sides) -> int:
    return linear(s.text, s.vision.dim("vision_output_dim"))


def internvl(s: Sides) -> int:
    """Pixel shuffle by `downsample_ratio` (one half: four patches to one), a norm and two linears."""
    wide = 4 * s.hidden
    return 2 * wide + linear(s.text, wide) + linear(s.text, s.text)


def kimi(s: Sides) -> int:
    rows, columns = s.vision.dims("merge_kernel_size", 2)
    wide = s.hidden * rows * columns
    return 2 * s.hidden + linear(wide, wide) + linear(s.text, wide)


def qwen2_audio(s: Sides) -> int:
    return linear(s.text, s.vision.dim("d_model"))


def voxtral(s: Sides) -> int:
    return s.text * s.vision.dim("intermediate_size") + s.text * s.text


def gemma4_audio(s: Sides) -> int:
    return s.vision.dim("output_proj_dims") * s.text


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
    layers = s.whole.items("vision_feature_layers")
    if not layers:
        raise s.whole.fault("vision_feature_layers", "missing; which layers of the tower are read is not stated")
    return 2 * len(layers) * s.hidden + linear(s.text, len(layers) * s.hidden) + linear(s.text, s.text)


def none(s: Sides) -> int:
    return 0


PROJECTORS: dict[str, Callable[[Sides], int]] = {
    "llava": llava, "llava_newline": llava_newline, "linear": linear_one, "gemma3": gemma3, "gemma4": gemma4, "mistral3": mistral3,
    "idefics3": idefics3, "llama4": llama4, "mllama": mllama, "internvl": internvl, "kimi": kimi, "qwen2_audio": qwen2_audio,
    "cohere2_vision": cohere2_vision, "lfm2_vl": lfm2_vl, "vipllava": vipllava,
    "voxtral": voxtral, "gemma4_audio": gemma4_audio, "none": none,
}  # fmt: skip
