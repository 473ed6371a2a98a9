"""Image and sound tokenizers that are built beside a text model: VQ-GANs of Janus, Chameleon and Emu3, VibeVoice's encoders
(transformers 5.23.0)."""

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


def chameleon_vq(f: Fields) -> int:
    """Chameleon's: encoder and codebook alone; attention in the middle, and after each block of a level whose resolution is listed."""
    base, levels, n = f.dim("base_channels"), _whole(f, "channel_multiplier"), f.dim("num_res_blocks")
    latent, width, size, at = f.dim("latent_channels"), f.dim("embed_dim"), f.dim("resolution"), f.items("attn_resolutions") or []
    widths, vanilla = [base * m for m in levels], f.opt("attn_type") == "vanilla"
    top = widths[-1]
    total = linear(base, 9 * f.dim("in_channels")) + 2 * _residual(top, top) + (_attends(top) if vanilla else 0) + 2 * top
    for i, (inner, out) in enumerate(zip([base, *widths], widths, strict=False)):
        total += _residual(inner, out) + (n - 1) * _residual(out, out) + (n * _attends(out) if vanilla and size >> i in at else 0)
        total += linear(out, 9 * out) if i + 1 < len(widths) else 0
    total += linear((2 if f.flag("double_latent") else 1) * latent, 9 * top)
    return total + f.dim("num_embeddings") * width + linear(width, latent) + linear(latent, width)


def _normed(inner: int, out: int, quant: int) -> int:
    """A residual block whose norms are scaled and shifted by the codes; `quant`: width of a code."""
    return _residual(inner, out) + 2 * (linear(inner, quant) + linear(out, quant))


def _in_time(width: int) -> int:
    """Two batch norms and two convolutions over three frames; running means and variances are buffers."""
    return 2 * (2 * width + linear(width, 27 * width))


def emu3_vq(f: Fields) -> int:
    """Emu3's: convolutions over time behind the encoder and before the decoder, whose norms read the codes."""
    base, levels, n = f.dim("base_channels"), _whole(f, "channel_multiplier"), f.dim("num_res_blocks")
    latent, code, hidden = f.dim("latent_channels"), f.dim("embed_dim"), f.dim("hidden_size")
    at, steps = f.items("attn_resolutions") or [], f.dim("temporal_downsample_factor").bit_length() - 1
    widths, out = [base * m for m in levels], latent * (2 if f.flag("double_latent") else 1)
    top, attends = widths[-1], 4 * linear(hidden, hidden)
    encoder = linear(base, 9 * f.dim("in_channels")) + 2 * _residual(top, top) + attends + 4 * top + linear(out, 9 * top)
    encoder += steps * linear(out, 36 * out) + n * _in_time(out)
    for i, (inner, wide) in enumerate(zip([base, *widths], widths, strict=False)):
        encoder += _residual(inner, wide) + (n - 1) * _residual(wide, wide) + (n * (attends + 2 * wide) if i in at else 0)
        encoder += linear(wide, 9 * wide) if i + 1 < len(widths) else 0
    decoder = n * _in_time(latent) + steps * linear(latent, 27 * latent) + linear(top, 9 * latent)
    decoder += 2 * _normed(top, top, code) + attends + 2 * top + 2 * linear(top, code)
    inner = top
    for i, wide in reversed(list(enumerate(widths))):
        decoder += _normed(inner, wide, code) + n * _normed(wide, wide, code)
        decoder += ((n + 1) * (attends + 2 * wide + 2 * linear(wide, code)) if i in at else 0) + (linear(wide, 9 * wide) if i else 0)
        inner = wide
    decoder += 2 * inner + 2 * linear(inner, code) + linear(f.dim("out_channels"), 9 * inner)
    codes = f.dim("codebook_size") * code + linear(code, 3 * latent) + linear(latent, 3 * code)
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
