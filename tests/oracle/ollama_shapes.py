"""GGUF headers of whole models, tensor by tensor, as converters write them: what Ollama's own code and kvplan are both given."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.header_files import gguf, model

#: Type -> GGUF's number, elements of a block, bytes of a block (ggml-common.h).
TYPES = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "q4_K": (12, 256, 144), "q6_K": (14, 256, 210),
    "mxfp4": (39, 32, 17),
}  # fmt: skip
#: Name, shape in GGUF's order, type's number, bytes.
Tensor = tuple[str, tuple[int, ...], int, int]
Model = tuple[str, dict[str, Any], list[Tensor], int]
TWO_NORMS = ("post_attention_norm", "post_ffw_norm")


def tensor(name: str, kind: str, *shape: int) -> Tensor:
    number, block, n_bytes = TYPES[kind]
    assert shape[0] % block == 0, (name, kind, shape)
    elems = 1
    for n in shape:
        elems *= n
    return name, shape, number, elems // block * n_bytes


def write(path: Path, shape: Model) -> Path:
    """A header with the tensors' places; their data are a hole in the file."""
    arch, geometry, tensors, vocab = shape
    metadata = model(arch, {**geometry, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"] * vocab})
    out, at = gguf(metadata), 0
    out = out[:8] + struct.pack("<Q", len(tensors)) + out[16:]
    for name, dims, number, n_bytes in tensors:
        raw = name.encode()
        out += struct.pack("<Q", len(raw)) + raw + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at)
        at += -(-n_bytes // 32) * 32
    out += bytes(-len(out) % 32)
    with path.open("wb") as file:
        file.write(out)
        file.truncate(len(out) + at)
    return path


def _geometry(layers: int, e: int, heads: int, kv: Any, ff: int, context: int, **more: Any) -> dict[str, Any]:
    return {
        "general.file_type": 15, "block_count": layers, "context_length": context, "embedding_length": e, "feed_forward_length": ff,
        "attention.head_count": heads, "attention.head_count_kv": kv, "attention.layer_norm_rms_epsilon": 1e-5,
        "attention.layer_norm_epsilon": 1e-5, "rope.freq_base": 500000.0, **{k.replace("__", "."): v for k, v in more.items()},
    }  # fmt: skip


def _ends(e: int, vocab: int, *, embedding: str = "q4_K", output: str | None = "q6_K") -> list[Tensor]:
    made = [tensor("token_embd.weight", embedding, e, vocab), tensor("output_norm.weight", "f32", e)]
    return made + ([tensor("output.weight", output, e, vocab)] if output else [])


def _attention(
    i: int, e: int, heads: int, kv: int, hd: int, *, kind: str, v: str, norms: Iterable[str], ffn_norm: bool, bias: bool, fused: bool
) -> list[Tensor]:
    b, widths = f"blk.{i}.", {"q": hd * heads, "k": hd * kv, "v": hd * kv}
    made = [tensor(b + "attn_norm.weight", "f32", e), tensor(b + "attn_output.weight", kind, hd * heads, e)]
    made += [tensor(b + "ffn_norm.weight", "f32", e)] if ffn_norm else []
    made += [tensor(f"{b}{name}.weight", "f32", e if name in TWO_NORMS else hd) for name in norms]
    if fused:
        widths = {"qkv": sum(widths.values())}
    made += [tensor(f"{b}attn_{x}.weight", v if x == "v" else kind, e, n) for x, n in widths.items()]
    return made + ([tensor(f"{b}attn_{x}.bias", "f32", n) for x, n in widths.items()] if bias else [])


def dense(
    layers: int, e: int, heads: int, kv: int, hd: int, ff: int, *, kind: str = "q4_K", other: str = "q6_K", norms: Iterable[str] = (),
    ffn_norm: bool = True, bias: bool = False, fused: bool = False, gated: str = "gate", experts: int = 0, apart: bool = False,
) -> list[Tensor]:  # fmt: skip
    """Layers; every third in two types. `gated`: a gate of its own, within `up`, or `no`."""
    made: list[Tensor] = []
    for i in range(layers):
        b, mixed = f"blk.{i}.", other if i % 3 == 0 else kind
        made += _attention(i, e, heads, kv, hd, kind=kind, v=mixed, norms=norms, ffn_norm=ffn_norm, bias=bias, fused=fused)
        if not experts:
            made += [tensor(b + "ffn_gate.weight", kind, e, ff)] if gated == "gate" else []
            made += [tensor(b + "ffn_up.weight", kind, e, 2 * ff if gated == "up" else ff), tensor(b + "ffn_down.weight", mixed, ff, e)]
            continue
        made.append(tensor(b + "ffn_gate_inp.weight", "f32", e, experts))
        parts = [("gate", kind, e, ff), ("up", kind, e, ff), ("down", other, ff, e)]
        if apart:
            made += [tensor(f"{b}ffn_{name}.{x}.weight", *shape) for x in range(experts) for name, *shape in parts]
        else:
            made += [tensor(f"{b}ffn_{name}_exps.weight", *shape, experts) for name, *shape in parts]
    return made


def _deepseek_2() -> list[Tensor]:
    """DeepSeek-V2-Lite: latents of 512 + 64, heads of 192 and 128, the first layer dense."""
    e, heads, made = 2048, 16, _ends(2048, 102400)
    for i in range(27):
        b = f"blk.{i}."
        made += [tensor(b + "attn_norm.weight", "f32", e), tensor(b + "ffn_norm.weight", "f32", e)]
        made += [tensor(b + "attn_q.weight", "q4_K", e, heads * 192), tensor(b + "attn_kv_a_mqa.weight", "q4_K", e, 576)]
        made += [tensor(b + "attn_kv_a_norm.weight", "f32", 512), tensor(b + "attn_kv_b.weight", "q4_K", 512, heads * 256)]
        made += [tensor(b + "attn_output.weight", "q4_K", heads * 128, e)]
        for name, ff in (("", 10944),) if i == 0 else (("_exps", 1408), ("_shexp", 2816)):
            stack = (64,) if name == "_exps" else ()
            made += [tensor(f"{b}ffn_{x}{name}.weight", "q4_K", e, ff, *stack) for x in ("gate", "up")]
            made.append(tensor(f"{b}ffn_down{name}.weight", "q8_0", ff, e, *stack))
        made += [tensor(b + "ffn_gate_inp.weight", "f32", e, 64)] if i else []
    return made


def _gpt_oss() -> list[Tensor]:
    e, ff, experts, made = 2880, 2880, 32, _ends(2880, 201088, embedding="f16", output="f16")
    for i in range(24):
        b = f"blk.{i}."
        made += _attention(i, e, 64, 8, 64, kind="f16", v="f16", norms=("post_attention_norm",), ffn_norm=False, bias=True, fused=False)
        made += [tensor(b + "attn_output.bias", "f32", e), tensor(b + "attn_sinks.weight", "f32", 64)]
        made += [tensor(b + "ffn_gate_inp.weight", "f32", e, experts), tensor(b + "ffn_gate_inp.bias", "f32", experts)]
        for name in ("gate", "up", "down"):
            made += [tensor(f"{b}ffn_{name}_exps.weight", "mxfp4", e, ff, experts), tensor(f"{b}ffn_{name}_exps.bias", "f32", ff, experts)]
    return made


def _tower() -> list[Tensor]:
    """Gemma 3's, SigLIP of 27 layers; the projector beside it."""
    w, ff = 1152, 4304
    made = [tensor("v.patch_embedding.weight", "f16", 14, 14, 3, w), tensor("v.position_embedding.weight", "f32", w, 4096)]
    for i in range(27):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            made += [tensor(f"v.blk.{i}.{name}.weight", "f16", w, w), tensor(f"v.blk.{i}.{name}.bias", "f32", w)]
        made += [tensor(f"v.blk.{i}.mlp.fc1.weight", "f16", w, ff), tensor(f"v.blk.{i}.mlp.fc2.weight", "f16", ff, w)]
    return [*made, tensor("mm.mm_input_projection.weight", "f16", w, 3840), tensor("mm.mm_soft_emb_norm.weight", "f32", w)]


def _granite() -> list[Tensor]:
    """A hybrid of 40 layers, attention in four of them, the rest Mamba 2."""
    e, inner, heads, made = 2048, 4096, 64, _ends(2048, 100352, embedding="q6_K", output=None)
    for i in range(40):
        b = f"blk.{i}."
        if i in GRANITE_ATTENTION:
            made += _attention(i, e, 32, 8, 64, kind="q4_K", v="q6_K", norms=(), ffn_norm=True, bias=False, fused=False)
        else:
            made += [tensor(b + "attn_norm.weight", "f32", e), tensor(b + "ffn_norm.weight", "f32", e)]
            made += [tensor(b + "ssm_in.weight", "q4_K", e, 2 * inner + 2 * 128 + heads), tensor(b + "ssm_out.weight", "q4_K", inner, e)]
            made += [tensor(b + "ssm_conv1d.weight", "f32", 4, inner + 256), tensor(b + "ssm_conv1d.bias", "f32", inner + 256)]
            made += [tensor(b + "ssm_a", "f32", 1, heads), tensor(b + "ssm_d", "f32", 1, heads), tensor(b + "ssm_dt.bias", "f32", heads)]
            made.append(tensor(b + "ssm_norm.weight", "f32", inner))
        made += [tensor(f"{b}ffn_{x}.weight", "q4_K", e, 8192) for x in ("gate", "up")] + [tensor(b + "ffn_down.weight", "q6_K", 8192, e)]
    return made


GRANITE_ATTENTION = (5, 15, 25, 35)
_K128, _K256 = ({"attention.key_length": n, "attention.value_length": n} for n in (128, 256))
_QK = ("attn_q_norm", "attn_k_norm")
_GEMMA_3 = _geometry(48, 3840, 16, 8, 15360, 131072, **_K256, attention__sliding_window=1024)
_GEMMA_3_LAYERS = _ends(3840, 262144, embedding="q6_K", output=None) + dense(48, 3840, 16, 8, 256, 15360, norms=(*TWO_NORMS, *_QK))
_MIXTRAL = _geometry(32, 4096, 32, 8, 14336, 32768, expert_count=8, expert_used_count=2, rope__dimension_count=128)
#: Name -> architecture, its keys, its tensors, rows of the vocabulary.
SHAPES: dict[str, Model] = {
    "llama 8b": ("llama", _geometry(32, 4096, 32, 8, 14336, 131072), _ends(4096, 128256) + dense(32, 4096, 32, 8, 128, 14336), 128256),
    "llama 3b": (
        "llama", _geometry(28, 3072, 24, 8, 8192, 131072, **_K128),
        _ends(3072, 128256, embedding="q6_K", output=None) + dense(28, 3072, 24, 8, 128, 8192), 128256,
    ),
    "mixtral": ("llama", _MIXTRAL, _ends(4096, 32000) + dense(32, 4096, 32, 8, 128, 14336, experts=8), 32000),
    "mixtral, old": ("llama", _MIXTRAL, _ends(4096, 32000) + dense(32, 4096, 32, 8, 128, 14336, experts=8, apart=True), 32000),
    "qwen2 7b": (
        "qwen2", _geometry(28, 3584, 28, 4, 18944, 131072), _ends(3584, 152064) + dense(28, 3584, 28, 4, 128, 18944, bias=True), 152064,
    ),
    "qwen3 8b": (
        "qwen3", _geometry(36, 4096, 32, 8, 12288, 40960, **_K128), _ends(4096, 151936) + dense(36, 4096, 32, 8, 128, 12288, norms=_QK),
        151936,
    ),
    "qwen3 30b": (
        "qwen3moe",
        _geometry(48, 2048, 32, 4, 6144, 40960, **_K128, expert_count=128, expert_used_count=8, expert_feed_forward_length=768),
        _ends(2048, 151936) + dense(48, 2048, 32, 4, 128, 768, norms=_QK, experts=128), 151936,
    ),
    "gemma 7b": (
        "gemma", _geometry(28, 3072, 16, 16, 24576, 8192, **_K256),
        _ends(3072, 256000, embedding="q6_K", output=None) + dense(28, 3072, 16, 16, 256, 24576), 256000,
    ),
    "gemma2 9b": (
        "gemma2", _geometry(42, 3584, 16, 8, 14336, 8192, **_K256, attention__sliding_window=4096),
        _ends(3584, 256000, embedding="q6_K", output=None) + dense(42, 3584, 16, 8, 256, 14336, norms=TWO_NORMS), 256000,
    ),
    "gemma3 12b": ("gemma3", _GEMMA_3, _GEMMA_3_LAYERS, 262144),
    "gemma3 12b, images": (
        "gemma3",
        _GEMMA_3 | {"vision.block_count": 27, "vision.image_size": 896, "vision.patch_size": 14, "vision.num_channels": 3,
                    "vision.attention.head_count": 16, "vision.embedding_length": 1152},
        _GEMMA_3_LAYERS + _tower(), 262144,
    ),
    "command-r": (
        "command-r", _geometry(40, 8192, 64, 64, 22528, 131072),
        _ends(8192, 256000, embedding="q6_K", output=None) + dense(40, 8192, 64, 64, 128, 22528, ffn_norm=False), 256000,
    ),
    "phi2": (
        "phi2", _geometry(32, 2560, 32, 32, 10240, 2048),
        _ends(2560, 51200) + dense(32, 2560, 32, 32, 80, 10240, fused=True, bias=True, gated="no", ffn_norm=False), 51200,
    ),
    "phi3 14b": (
        "phi3", _geometry(40, 5120, 40, 10, 17920, 131072, attention__sliding_window=131072),
        _ends(5120, 32064) + dense(40, 5120, 40, 10, 128, 17920, fused=True, gated="up"), 32064,
    ),
    "stablelm": ("stablelm", _geometry(24, 2048, 32, 32, 5632, 4096), _ends(2048, 50304) + dense(24, 2048, 32, 32, 64, 5632), 50304),
    "chatglm": (
        "chatglm", _geometry(40, 4096, 32, 2, 13696, 131072, rope__dimension_count=64),
        _ends(4096, 151552, embedding="q4_0", output="q8_0")
        + dense(40, 4096, 32, 2, 128, 13696, kind="q4_0", other="q8_0", fused=True, bias=True, gated="up"), 151552,
    ),
    "deepseek2 lite": (
        "deepseek2",
        _geometry(27, 2048, 16, 16, 10944, 163840, attention__key_length=192, attention__value_length=128, attention__kv_lora_rank=512,
                  rope__dimension_count=64, expert_count=64, expert_used_count=6, expert_shared_count=2,
                  expert_feed_forward_length=1408, leading_dense_block_count=1),
        _deepseek_2(), 102400,
    ),
    "gpt-oss 20b": (
        "gpt-oss",
        _geometry(24, 2880, 64, 8, 2880, 131072, attention__key_length=64, attention__value_length=64, attention__sliding_window=128,
                  expert_count=32, expert_used_count=4, expert_feed_forward_length=2880),
        _gpt_oss(), 201088,
    ),
    "granite hybrid": (
        "granitehybrid",
        _geometry(40, 2048, 32, [8 if i in GRANITE_ATTENTION else 0 for i in range(40)], 8192, 131072, ssm__conv_kernel=4,
                  ssm__state_size=128, ssm__group_count=1, ssm__inner_size=4096, ssm__time_step_rank=64),
        _granite(), 100352,
    ),
}  # fmt: skip
