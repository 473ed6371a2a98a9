"""Image and sound tokenizers that are built beside a text model: Janus's VQ-GAN, VibeVoice's encoders (transformers 5.23.0)."""

from __future__ import annotations

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear


def _whole(f: Fields, key: str) -> list[int]:
    return [f.whole(n, key, 1) for n in f.items(key) or []]


def _residual(inner: int, out: int) -> int:
    """Two normed convolutions, and a third where the widths differ."""
    return 2 * inner + linear(out, 9 * inner) + 2 * out + linear(out, 9 * out) + (linear(out, inner) if inner != out else 0)


def _attends(width: int) -> int:
    return 2 * width + 4 * linear(width, width)


def vq_gan(f: Fields) -> int:
    """Encoder, codebook and decoder. Attention stands in the narrowest level and in the middle."""
    base, levels, n = f.dim("base_channels"), _whole(f, "channel_multiplier"), f.dim("num_res_blocks")
    latent, width = f.dim("latent_channels"), f.dim("embed_dim")
    widths = [base * m for m in levels]
    top = widths[-1]
    middle = 2 * _residual(top, top) + _attends(top)
    double = 2 if f.flag("double_latent") else 1
    encoder = linear(base, 9 * f.dim("in_channels")) + middle + n * _attends(top) + 2 * top + linear(double * latent, 9 * top)
    for i, (inner, out) in enumerate(zip([base, *widths], widths, strict=False)):
        encoder += _residual(inner, out) + (n - 1) * _residual(out, out)
        encoder += linear(out, 9 * out) if i + 1 < len(widths) else 0
    last = widths[0]
    decoder = linear(top, 9 * latent) + middle + (n + 1) * _attends(top) + 2 * last + linear(f.dim("out_channels"), 9 * last)
    inner = top
    for i, out in enumerate(reversed(widths)):
        decoder += _residual(inner, out) + n * _residual(out, out)
        decoder += linear(out, 9 * out) if i + 1 < len(widths) else 0
        inner = out
    codes = f.dim("num_embeddings") * width + linear(width, double * latent) + linear(latent, width)
    return encoder + decoder + codes


def janus_generation(f: Fields) -> int:
    """The VQ-GAN, an embedding of image tokens, an aligner and a head."""
    rows, width, wide = f.dim("num_embeddings"), f.dim("embed_dim"), f.dim("projection_dim")
    aligner = linear(wide, width) + (f.dim("num_hidden_layers") - 1) * linear(wide, wide)
    return vq_gan(f) + rows * width + aligner + linear(wide, f.dim("image_token_embed_dim")) + linear(rows, wide)


def vibevoice(f: Fields) -> int:
    """Strided convolutions, after each a stage of depthwise convolutions and networks with layer scale."""
    kernel, ratios, depths = f.dim("kernel_size"), _whole(f, "downsampling_ratios"), _whole(f, "depths")
    width, expansion = f.dim("num_filters"), f.dim("ffn_expansion")
    if len(depths) != len(ratios) + 1:
        raise f.fault("depths", f"has {len(depths)} entries for {len(ratios)} ratios; one more is right")

    def stage(w: int, n: int) -> int:
        return n * (4 * w + linear(expansion * w, w) + linear(w, expansion * w) + linear(w, kernel))

    total = linear(width, f.dim("channels") * kernel) + stage(width, depths[0])
    for ratio, depth in zip(ratios, depths[1:], strict=True):
        total += linear(2 * width, 2 * ratio * width)
        width *= 2
        total += stage(width, depth)
    return total + linear(f.dim("hidden_size"), kernel * width)
