"""Random models of llama.cpp as GGUF files: metadata that decides the cache, and tensors of the shapes that it implies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Geometry = dict[str, Any]
Tensors = Iterator[tuple[str, tuple[int, ...]]]
VOCAB = 4096


def draw(arch: str, number: int, seed: int = 1) -> Geometry:
    """The keys of a GGUF file without the architecture before them: `block_count`, `attention.head_count_kv` and so on."""
    r = random.Random(f"{seed}|{arch}|{number}")
    kv = r.choice([1, 2, 4, 8])
    n = r.randint(2, 16)
    if arch == "mamba2":
        heads, dim = r.choice([4, 8]), 64
        return {
            "block_count": n, "embedding_length": heads * dim // 2, "feed_forward_length": 0, "attention.head_count": 0,
            "attention.head_count_kv": 0, "attention.layer_norm_rms_epsilon": 1e-6, "context_length": 1 << 20, "vocab_size": VOCAB,
            "ssm.conv_kernel": 4, "ssm.inner_size": heads * dim, "ssm.state_size": r.choice([32, 64, 128]), "ssm.time_step_rank": heads,
            "ssm.group_count": r.choice([1, 2]),
        }  # fmt: skip
    if arch == "mamba":
        width = r.choice([64, 128])
        return {
            "block_count": n, "embedding_length": width, "feed_forward_length": 0, "attention.head_count": 0, "attention.head_count_kv": 0,
            "attention.layer_norm_rms_epsilon": 1e-6, "context_length": 1 << 20, "vocab_size": VOCAB, "ssm.conv_kernel": 4,
            "ssm.inner_size": 2 * width, "ssm.state_size": r.choice([16, 32]), "ssm.time_step_rank": 8,
        }  # fmt: skip
    k_dim = r.choice([64, 96, 128, 256])
    made = {
        "block_count": n, "embedding_length": r.choice([128, 256]), "feed_forward_length": 128,
        "attention.head_count": kv * r.choice([1, 2, 4]), "attention.head_count_kv": kv, "attention.key_length": k_dim,
        "attention.value_length": k_dim if r.random() < 0.8 else 64,
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": k_dim, "context_length": r.choice([4096, 32768, 131072]),
        "vocab_size": VOCAB,
    }  # fmt: skip
    if arch in ("gemma2", "gemma3"):
        made["attention.sliding_window"] = r.choice([128, 512, 1024, 4096])
        made["attention.value_length"] = k_dim
    if arch in ("qwen2", "qwen3"):
        made["attention.value_length"] = k_dim
    if arch == "qwen2":
        made["embedding_length"] = made["attention.head_count"] * k_dim
    return made


ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3", "mamba", "mamba2")


def tensors(arch: str, g: Geometry) -> Tensors:
    """(name, shape in GGUF's order) of every weight that llama.cpp asks the file for."""
    width, n = g["embedding_length"], g["block_count"]
    yield "token_embd.weight", (width, VOCAB)
    yield "output_norm.weight", (width,)
    if arch not in ("gemma2", "gemma3"):
        yield "output.weight", (width, VOCAB)
    for i in range(n):
        yield from ((f"blk.{i}.{name}", shape) for name, shape in (_state(arch, g) if arch.startswith("mamba") else _attention(arch, g)))


def _attention(arch: str, g: Geometry) -> Tensors:
    width, inner = g["embedding_length"], g["feed_forward_length"]
    q, k = (g[f"attention.head_count{end}"] * g["attention.key_length"] for end in ("", "_kv"))
    v, out = (g[f"attention.head_count{end}"] * g["attention.value_length"] for end in ("_kv", ""))
    yield "attn_norm.weight", (width,)
    yield from (("attn_q.weight", (width, q)), ("attn_k.weight", (width, k)), ("attn_v.weight", (width, v)))
    yield "attn_output.weight", (out, width)
    if arch == "qwen2":
        yield from (("attn_q.bias", (q,)), ("attn_k.bias", (k,)), ("attn_v.bias", (v,)))
    if arch in ("qwen3", "gemma3"):
        yield from ((f"attn_{x}_norm.weight", (g["attention.key_length"],)) for x in "qk")
    if arch in ("gemma2", "gemma3"):
        yield from ((f"post_{x}_norm.weight", (width,)) for x in ("attention", "ffw"))
    yield "ffn_norm.weight", (width,)
    yield from (("ffn_gate.weight", (width, inner)), ("ffn_up.weight", (width, inner)), ("ffn_down.weight", (inner, width)))


def _state(arch: str, g: Geometry) -> Tensors:
    width, inner, state, rank = g["embedding_length"], g["ssm.inner_size"], g["ssm.state_size"], g["ssm.time_step_rank"]
    yield "attn_norm.weight", (width,)
    yield "ssm_out.weight", (inner, width)
    if arch == "mamba":
        yield from (("ssm_in.weight", (width, 2 * inner)), ("ssm_conv1d.weight", (4, inner)), ("ssm_conv1d.bias", (inner,)))
        yield from (("ssm_x.weight", (inner, rank + 2 * state)), ("ssm_dt.weight", (rank, inner)), ("ssm_dt.bias", (inner,)))
        yield from (("ssm_a", (state, inner)), ("ssm_d", (inner,)))
        return
    groups = g["ssm.group_count"]
    mixed = inner + 2 * groups * state
    yield from (("ssm_in.weight", (width, inner + mixed + rank)), ("ssm_conv1d.weight", (4, mixed)), ("ssm_conv1d.bias", (mixed,)))
    yield from (("ssm_dt.bias", (rank,)), ("ssm_a", (1, rank)), ("ssm_d", (1, rank)), ("ssm_norm.weight", (inner // groups, groups)))
