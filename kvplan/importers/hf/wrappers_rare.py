"""Wrappers whose towers need a rule of their own (transformers 5.23.0, models/*/modeling_*.py)."""

from __future__ import annotations

from kvplan.importers.hf.decoder import Stack, decoder
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.towers import linear
from kvplan.importers.hf.vq import chameleon_vq
from kvplan.importers.hf.wrappers import Wrapper, wrapper


def fuyu(f: Fields, t: Wrapper) -> Stack:
    """Fuyu: patches of pixels through one linear."""
    made = wrapper(f, t)
    pixels = f.dim("patch_size") ** 2 * f.dim("num_channels")
    return {**made, "towers": [{"name": "vision_tower", "parameters": linear(made["hidden_size"], pixels)}]}


def chameleon(f: Fields, t: Decoder) -> Stack:
    """Chameleon: a decoder of words and image tokens, and the encoder that makes these of images."""
    made = decoder(f, t)
    tokens = chameleon_vq(f.part("vq_config", "chameleon_vqgan"))
    return {**made, "towers": [{"name": "image_tokenizer", "parameters": tokens}]}


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
