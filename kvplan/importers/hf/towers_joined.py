"""Towers that hold what joins them to the text model: dots3-note, Inkling 2, Nemotron 3.5 Transcribe (transformers 5.23.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear, patch, transformer

#: Experts by layer in dots3-note's tower where its file does not say: 25 dense layers, then more and more (configuration_dots3_note.py).
_PYRAMID = [-1] * 25 + list(range(4, 65, 4)) + [64]


def inkling2(f: Fields) -> int:
    """A ViT with layer scale and a learned grid; patches merged through two linears."""
    h = f.dim("hidden_size")
    ratio = f.opt("mlp_ratio")
    wide = f.opt("intermediate_size")
    if wide is None:
        if isinstance(ratio, bool) or not isinstance(ratio, int | float):
            raise f.fault("mlp_ratio", "must be a number")
        wide = int(h * ratio)
    layers = transformer(f.dim("num_hidden_layers"), h, f.whole(wide, "intermediate_size", 1), extra=2 * h)
    middle, on = f.dim("projection_hidden_dim"), f.flag("projector_bias")
    merged = linear(middle, h * f.dim("spatial_merge_size") ** 2, on) + linear(f.dim("text_hidden_size"), middle, on)
    return patch(f, h, bias=False) + f.dim("posemb_grid_size") ** 2 * h + 2 * h + 2 * h + layers + merged


def _experts(f: Fields, n: int) -> list[int]:
    """Experts of each layer, 0 for a dense one: a pyramid as released, else mlp_layer_types and per_layer_config as saved."""
    types, listed = f.items("mlp_layer_types"), f.data.get("pyramid_num_routed")
    if listed is None and types is None:
        listed = _PYRAMID
    stored: Any = f.data.get("per_layer_config")
    if listed is not None and not isinstance(stored, dict):
        found = listed if isinstance(listed, list) else []
        if len(found) < n or any(isinstance(v, bool) or not isinstance(v, int) for v in found):
            raise f.fault("pyramid_num_routed", f"must be a whole number for each of {n} layers")
        return [f.whole(max(v, 0), "pyramid_num_routed") for v in found[:n]]
    if listed is not None:
        types = ["sparse" if isinstance(v, int) and v > 0 else "dense" for v in listed]
    if types is None or len(types) < n:
        raise f.fault("mlp_layer_types", f"must say dense or sparse for each of {n} layers")
    stored = stored if isinstance(stored, dict) else {}
    own = [stored.get(str(i), stored.get(i, {})) for i in range(n)]
    if any(not isinstance(v, dict) or v.keys() - {"num_local_experts", "num_experts_per_tok"} for v in own):
        raise f.fault("per_layer_config", "layers that differ in more than their experts are not modelled")
    usual = f.dim("num_local_experts")
    return [f.whole(v.get("num_local_experts", usual), "num_local_experts", 1) if kind == "sparse" else 0
            for kind, v in zip(types, own, strict=False)]  # fmt: skip


def dots3_note(f: Fields) -> int:
    """RMS norms, norms on Q and K, more and more experts with depth; a merger to the text's width."""
    f = f.named({"hidden_size": ("embed_dim", "hidden_size"), "num_attention_heads": ("num_heads", "num_attention_heads"),
                 "attention_bias": ("use_bias", "attention_bias")}, {})  # fmt: skip
    h, n, on = f.dim("hidden_size"), f.dim("num_hidden_layers"), f.flag("attention_bias")
    head, width, narrow, biased = f.divided("hidden_size", "num_attention_heads"), f.dim("intermediate_size"), 0, f.flag("mlp_bias")
    each = linear(3 * h, h, on) + linear(h, h, on) + 2 * head + 2 * h
    dense, narrow = 2 * linear(width, h, biased) + linear(h, width, biased), f.dim("moe_intermediate_size")
    networks = sum(experts * (3 * h * narrow + h) if experts else dense for experts in _experts(f, n))
    wide = f.dim("adapter_in_dim") * f.dim("adapter_merge_size") ** 2
    merger = 2 * f.dim("adapter_in_dim") + linear(wide, wide) + linear(f.dim("adapter_out_dim"), wide)
    return patch(f, h) + h + n * each + networks + h + merger


#: Keys of dots3-note's sound as released, in a dictionary like Whisper's -> the class's own.
_WHISPER = {"d_model": "hidden_size", "encoder_layers": "num_hidden_layers", "encoder_ffn_dim": "intermediate_size",
            "num_mel_bins": "feature_size"}  # fmt: skip


def dots3_note_audio(f: Fields) -> int:
    """Three strided convolutions, gated layers with biases but for keys, an adapter of two linears."""
    older: Any = f.data.get("whisper_config")
    older = older if isinstance(older, dict) else {}
    h, n, w, bins = (f.whole(older.get(old, f.raw(key)), key, 1) for old, key in _WHISPER.items())
    out = next((f.data[k] for k in ("whisper_adapter_out_dim", "adapter_output_size") if k in f.data), f.raw("adapter_out_dim"))
    into, out = f.whole(f.data.get("whisper_adapter_in_dim", f.raw("adapter_input_size")), "adapter_input_size", 1), f.whole(
        out, "adapter_out_dim", 1)  # fmt: skip
    c, on = f.dim("downsample_hidden_size"), f.flag("attention_bias")
    front = linear(c, 9) + 2 * linear(c, 9 * c) + h * c * ((bins + 7) // 8)
    layer = 3 * linear(h, h, on) + h * h + linear(2 * w, h) + linear(h, w) + 2 * h
    return front + n * layer + h + 2 * into + linear(out, into) + linear(out, out)


def _stack(f: Fields, *, normed: bool) -> int:
    """Layers of attention with a bias behind it alone, norms on Q and K or none; norms before and after all."""
    h, heads, w = f.dim("hidden_size"), f.dim("num_attention_heads"), f.dim("intermediate_size")
    kv = f.dim_or("num_key_value_heads", heads)
    if heads % kv or kv != heads:
        raise f.fault("num_key_value_heads", "grouped KV heads are not modelled in this encoder")
    layer = 3 * h * h + linear(h, h) + linear(w, h) + linear(h, w) + 4 * h + (4 * (h // heads) if normed else 0)
    return f.dim("num_hidden_layers") * layer + 4 * h


def nemotron_transcribe(f: Fields) -> int:
    """A speech encoder over stacked frames, beside it one that tells speakers apart."""
    asr, who = f.part("asr_config", "nemotron3_5_transcribe_asr_audio"), f.part("diarization_config", "nemotron3_diarization")
    voice, head = who.part("audio_config", "nemotron3_diarization_audio"), who.part("head_config", "nemotron3_diarization_head")
    h, speakers, frames = head.dim("hidden_size"), head.dim("num_speakers"), head.dim("subsampling_factor")
    first = sum(part.dim("subsampling_factor") * part.dim("num_mel_bins") * part.dim("hidden_size") for part in (asr, voice))
    own = linear(h, head.dim("audio_hidden_size")) + linear(frames * h, 3 * h) + linear(h, h) + linear(speakers, h)
    norms = 2 * asr.dim("hidden_size") + 2 * speakers
    return first + _stack(asr, normed=True) + _stack(voice, normed=False) + voice.dim("hidden_size") + own + norms


def nemotron_timestamps(f: Fields) -> int:
    """The encoder and head that date words: frames made more by a transposed convolution."""
    h, rows = f.dim("hidden_size"), f.dim("vocab_size")
    return h * h * f.dim("upsampling_factor") + h + _stack(f, normed=True) + linear(rows, h)


JOINED: dict[str, Callable[[Fields], int]] = {
    "inkling2_vision": inkling2, "dots3_note_vision_encoder": dots3_note, "dots3_note_audio_encoder": dots3_note_audio,
    "nemotron3_5_transcribe_audio": nemotron_transcribe, "nemotron3_5_transcribe_word_timestamp": nemotron_timestamps,
}  # fmt: skip
