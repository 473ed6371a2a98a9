"""Wrappers whose towers need a rule of their own (transformers 5.23.0, models/*/modeling_*.py)."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import ceil, log

from kvplan.importers.hf.decoder import Stack, decoder, with_towers
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.projectors import Sides, visual_words
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.towers import TOWERS, linear
from kvplan.importers.hf.vq import chameleon_vq
from kvplan.importers.hf.wrappers import Wrapper, wrapper


def fuyu(f: Fields, t: Wrapper) -> Stack:
    """Fuyu: patches of pixels through one linear."""
    made = wrapper(f, t)
    pixels = f.dim("patch_size") ** 2 * f.dim("num_channels")
    return with_towers(made, ("vision_tower", linear(made["hidden_size"], pixels)))


def _mapped(f: Fields) -> None:
    """The class is not built without the words that its image tokens are."""
    if not isinstance(f.data.get("vocabulary_map"), dict):
        raise f.fault("vocabulary_map", "missing; without it this class can not be built: name the decoder alone in architectures")


def emu3(f: Fields, t: Wrapper) -> Stack:
    """Emu3: a decoder of words and image tokens, and the tokenizer of images and videos."""
    _mapped(f)
    return wrapper(f, t)


def chameleon(f: Fields, t: Decoder) -> Stack:
    """Chameleon: a decoder of words and image tokens, and the encoder that makes these of images."""
    _mapped(f)
    made = decoder(f, t)
    tokens = chameleon_vq(f.part("vq_config", "chameleon_vqgan"))
    return with_towers(made, ("image_tokenizer", tokens))


def moshi(f: Fields, t: Decoder) -> Stack:
    """Moshi's decoder of text: one row of its embedding has no row in the head."""
    if f.flag("tie_word_embeddings"):
        raise f.fault("tie_word_embeddings", "a head of vocab_size rows can not be an embedding of one row more; take it out")
    return decoder(f, t)


def moshi_whole(f: Fields, t: Decoder) -> Stack:
    """Moshi with sound: embeddings of both speakers' codes, a depth decoder with weights for each codebook; its codec is not counted."""
    made, books, hidden = moshi(f, t), f.dim("num_codebooks"), f.dim("hidden_size")
    codes = f.dim_or("audio_vocab_size", 2048)
    d = f.part("depth_decoder_config", "moshi_depth")
    h, width = d.dim("hidden_size"), d.dim("ffn_dim")
    heads, kv = d.dim("num_attention_heads"), d.dim_or("num_key_value_heads", d.dim("num_attention_heads"))
    dim = d.dim_or("head_dim", h // heads)
    layer = books * (2 * heads + 2 * kv) * dim * h + books * (width * h + h * (width // 2)) + 2 * h
    depth = (f.dim("vocab_size") + 1 + (books - 1) * (codes + 1)) * h + books * hidden * h + books * h * codes
    towers = [{"name": "audio_embeddings", "parameters": 2 * books * (codes + 1) * hidden},
              {"name": "depth_decoder", "parameters": depth + d.dim("num_hidden_layers") * layer}]  # fmt: skip
    note = "the audio codec (Mimi) is not counted, nor what the depth decoder keeps of one step"
    return {**made, "towers": towers, "notes": [*made.get("notes", []), note]}


def inkling(f: Fields, t: Wrapper) -> Stack:
    """Inkling with what reads images (linears that fold pixels together) and sound (a table of bins), both as wide as the text."""
    made = wrapper(f, t)
    v, a, hidden = f.part("vision_config", "inkling_vision"), f.part("audio_config", "inkling_audio"), made["hidden_size"]
    n, total = v.dim("num_hidden_layers"), hidden
    for i, (before, after) in enumerate(pairwise(_folds(v, n))):
        out = hidden if i == n - 1 else after[3]
        total += before[3] * (after[0] // before[0]) * (after[1] // before[1]) ** 2 * out + (0 if i == n - 1 else out)
    sounds = a.dim("n_mel_bins") * a.dim("mel_vocab_size") * hidden + hidden
    return with_towers(made, ("vision_tower", total), ("audio_tower", sounds))


def ovis(f: Fields, t: Wrapper) -> Stack:
    """Ovis 1.6 and 2: a backbone and a head of visual words, five of them marks of an image's bounds (vLLM, models/ovis.py)."""
    made = wrapper(f, t)
    if f.data.get("visual_tokenizer_config") is None:
        return {**made, "uncounted": [*made.get("uncounted", []), "vision_tower not counted: the config has no visual_tokenizer_config"]}
    tokenizer = f.part("visual_tokenizer_config")
    backbone = tokenizer.part("backbone_config", "siglip_vision_model")
    count = TOWERS.get(str(backbone.file.get("model_type")))
    if count is None:
        return {**made, "uncounted": [*made.get("uncounted", []), "vision_tower not counted: no formula for its backbone"]}
    words = visual_words(Sides(f, backbone, made["hidden_size"]), tokenizer.dim("vocab_size"), 5, tokenizer.dim_or("hidden_stride", 1))
    return with_towers(made, ("vision_tower", count(backbone)), ("vision_projector", words))


def _folds(v: Fields, n: int) -> list[tuple[int, int, int, int]]:
    """The grid (time, height, width, channels) before and after each layer: of those that the patch's factors give, the nearest to even
    steps in the logarithm of what is folded (plan_out_scales)."""
    channels, space, time = v.dim("num_channels"), _products(v.dim("patch_size")), _products(v.dim("temporal_patch_size"))
    scales = [(1, 1, 1, channels), *((1, h, h, ceil(h * h * channels / 64) * 64) for h in space)]
    scales += [(t, space[-1], space[-1], space[-1] ** 2 * channels * t * 64) for t in time]
    folded = [log(t * h * w) for t, h, w, _ in scales]
    ideal = [log(v.dim("patch_size") ** 2 * v.dim("temporal_patch_size") * channels) * i / n for i in range(n + 1)]
    if n >= len(scales):
        found = [min(range(len(scales)), key=lambda i: abs(at - folded[i])) for at in ideal]
    else:
        chosen = combinations(range(len(scales)), n + 1)
        found = list(min(chosen, key=lambda c: sum(abs(at - folded[i]) for at, i in zip(ideal, c, strict=True))))
    return [scales[i] for i in (0, *found[1:-1], len(scales) - 1)]


def _products(number: int) -> list[int]:
    """Running products of its prime factors, the largest first."""
    factors, p = list[int](), 2
    while number > 1:
        while number % p == 0:
            factors.append(p)
            number //= p
        p += 1
    made = [1]
    for factor in reversed(factors):
        made.append(made[-1] * factor)
    return made[1:] or [1]
