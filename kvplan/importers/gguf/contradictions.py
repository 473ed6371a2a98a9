"""Metadata with which llama.cpp does not load a file, whatever its tensors are.

src/llama-model.cpp load_hparams, src/llama-vocab.cpp load and src/models/*.cpp load_arch_tensors, as in llama-cpp-python 0.3.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.importers.gguf.header import Long
from kvplan.importers.gguf.tensors import Table

#: Architectures whose heads turn whole (llama-model.cpp: "invalid n_rot").
_WHOLE_ROPE = frozenset({"llama", "deci", "falcon", "llama-embed"})
_EPSILONS = ("layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon")


def contradictions(metadata: Mapping[str, Any], table: Table) -> list[str]:
    """The first of them in the engine's words, as a note; none in a file without tensors."""
    if table.empty:
        return []
    found = next(_all(metadata, str(metadata.get("general.architecture")), table), None)
    return [f"llama.cpp does not load this file: {found}"] if found else []


def _all(metadata: Mapping[str, Any], arch: str, table: Table) -> Iterator[str]:
    def number(key: str) -> int:
        value = metadata.get(f"{arch}.{key}")
        return value if isinstance(value, int) else 0 if value is None else 1  # one for each layer

    if "tokenizer.ggml.model" not in metadata:
        yield "key not found in model: tokenizer.ggml.model"
    tokens, rows = _length(metadata.get("tokenizer.ggml.tokens")), table.shape("token_embd.weight")[1:]
    if tokens and rows and rows != (tokens,):
        yield f"tensor 'token_embd.weight' has wrong shape: {rows[0]:,} rows for {tokens:,} tokens"
    if not any(f"{arch}.attention.{name}" in metadata for name in _EPSILONS):
        yield f"key not found in model: {arch}.attention.layer_norm_rms_epsilon"
    if table.any("attn_q.weight") and not number("attention.head_count"):
        yield f"tensor 'blk.0.attn_q.weight' has wrong shape: {arch}.attention.head_count is missing or 0"
    if table.any("ffn_up.weight") and not number("feed_forward_length"):
        yield f"tensor 'blk.0.ffn_up.weight' has wrong shape: {arch}.feed_forward_length is missing or 0"
    if number("expert_used_count") > number("expert_count"):
        yield f"GGML_ASSERT(n_expert_used <= n_expert): {number('expert_used_count')} of {number('expert_count')} experts"
    heads, turned = number("attention.head_count"), number("rope.dimension_count")
    width = number("attention.key_length") or (number("embedding_length") // heads if heads > 1 else 0)
    if arch in _WHOLE_ROPE and turned and width and turned != width:
        yield f"invalid n_rot: {turned}, expected {width}"


def _length(value: Any) -> int:
    return value.length if isinstance(value, Long) else len(value) if isinstance(value, list | tuple) else 0
