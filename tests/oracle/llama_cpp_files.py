"""GGUF files of small models of any size: the header alone, the rest a hole, so that a placement can be asked of it."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from tools.header_files import gguf_header, model

#: Type -> number in a file, elements of a block, bytes of a block (ggml.h).
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "q4_K": (12, 256, 144), "q6_K": (14, 256, 210)}


class Sizes(NamedTuple):
    """A drawn model: layers `n`, widths, `q` the type of its matrices and `down` of ffn_down where it is another; experts; a window."""

    arch: str
    n: int
    d: int
    heads: int
    kv: int
    hd: int
    vocab: int
    ctx: int
    q: str
    ff: int = 0
    down: str = ""
    tied: bool = False
    exp: int = 0
    used: int = 0
    eff: int = 0
    shexp: int = 0
    window: int = 0


def metadata(m: Sizes) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "block_count": m.n, "context_length": m.ctx, "embedding_length": m.d, "feed_forward_length": m.ff or m.eff,
        "attention.head_count": m.heads, "attention.head_count_kv": m.kv, "attention.key_length": m.hd, "attention.value_length": m.hd,
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": m.hd, "vocab_size": m.vocab, "tokenizer.ggml.model": "no_vocab",
    }  # fmt: skip
    if m.exp:
        keys |= {"expert_count": m.exp, "expert_used_count": m.used, "expert_feed_forward_length": m.eff}
    if m.shexp:
        keys["expert_shared_feed_forward_length"] = m.shexp
    if m.window:
        keys["attention.sliding_window"] = m.window
    return model(m.arch, keys)


def tensors(m: Sizes) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape with the row length first, type) of every tensor."""
    found = [("token_embd.weight", (m.d, m.vocab), m.q), ("output_norm.weight", (m.d,), "f32")]
    if not m.tied:
        found.append(("output.weight", (m.d, m.vocab), "q6_K" if m.d % 256 == 0 else m.q))
    for i in range(m.n):
        found += [(f"blk.{i}.{name}", shape, kind) for name, shape, kind in _layer(m)]
    return found


def _layer(m: Sizes) -> list[tuple[str, tuple[int, ...], str]]:
    q, kv, down = m.heads * m.hd, m.kv * m.hd, m.down or m.q
    found: list[tuple[str, tuple[int, ...], str]] = [
        ("attn_q.weight", (m.d, q), m.q), ("attn_k.weight", (m.d, kv), m.q), ("attn_v.weight", (m.d, kv), m.q),
        ("attn_output.weight", (q, m.d), m.q), ("attn_norm.weight", (m.d,), "f32"),
        ("post_attention_norm.weight" if m.arch == "gpt-oss" else "ffn_norm.weight", (m.d,), "f32"),
    ]  # fmt: skip
    if m.arch in ("qwen3", "qwen3moe", "gemma3"):
        found += [("attn_q_norm.weight", (m.hd,), "f32"), ("attn_k_norm.weight", (m.hd,), "f32")]
    if m.arch == "gemma3":
        found += [("post_attention_norm.weight", (m.d,), "f32"), ("post_ffw_norm.weight", (m.d,), "f32")]
    if m.arch in ("qwen2moe", "gpt-oss"):
        found += [(f"attn_{name}.bias", (width,), "f32") for name, width in (("q", q), ("k", kv), ("v", kv))]
    if not m.exp:
        return [*found, ("ffn_gate.weight", (m.d, m.ff), m.q), ("ffn_down.weight", (m.ff, m.d), down), ("ffn_up.weight", (m.d, m.ff), m.q)]
    found += [
        ("ffn_gate_inp.weight", (m.d, m.exp), "f32"), ("ffn_gate_exps.weight", (m.d, m.eff, m.exp), m.q),
        ("ffn_down_exps.weight", (m.eff, m.d, m.exp), down), ("ffn_up_exps.weight", (m.d, m.eff, m.exp), m.q),
    ]  # fmt: skip
    if m.arch == "gpt-oss":
        biases = (("gate_inp", (m.exp,)), ("gate_exps", (m.eff, m.exp)), ("up_exps", (m.eff, m.exp)), ("down_exps", (m.d, m.exp)))
        found += [("attn_output.bias", (m.d,), "f32"), ("attn_sinks.weight", (m.heads,), "f32")]
        found += [(f"ffn_{name}.bias", shape, "f32") for name, shape in biases]
    if m.shexp:
        found += [
            ("ffn_gate_inp_shexp.weight", (m.d,), "f32"), ("ffn_gate_shexp.weight", (m.d, m.shexp), m.q),
            ("ffn_down_shexp.weight", (m.shexp, m.d), down), ("ffn_up_shexp.weight", (m.d, m.shexp), m.q),
        ]  # fmt: skip
    return found


def write(path: Path, m: Sizes) -> Path:
    """The file, a hole where its weights would be."""
    sized = []
    for name, shape, kind in tensors(m):
        number, block, n_bytes = TYPES[kind]
        sized.append((name, shape, number, prod(shape) // block * n_bytes))
    header, data_bytes = gguf_header(metadata(m), sized)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + data_bytes)
    return path
