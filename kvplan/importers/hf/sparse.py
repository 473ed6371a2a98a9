"""MiniMax-M3: grouped attention whose queries choose blocks through an indexer, dense layers first and experts after.

transformers 5.23 modeling_minimax_m3_vl.py; vLLM 0.32 models/minimax_m3.
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import block

_SPARSE = {
    "index_n_heads": "sparse_num_index_heads", "index_head_dim": "sparse_index_dim", "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
}  # fmt: skip


def minimax_m3(f: Fields, t: Decoder) -> Stack:
    """Sparse layers by layer_types or sparse_attention_config.sparse_attention_freq; expert layers by mlp_layer_types or moe_layer_freq."""
    n = f.dim("num_hidden_layers")
    inner = f.part("sparse_attention_config") if isinstance(f.data.get("sparse_attention_config"), dict) else None
    sparse = _sparse(f, inner, n)
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), qk_norm="head")
    indexed: dict[str, Any] = {**attention, "kind": "gqa_indexed", "kv_heads": kv_heads(f)}
    if any(sparse):
        sizes = {key: inner.dim(old) if inner and old in inner.data else f.dim(key) for key, old in _SPARSE.items()}
        indexed |= {"index_heads": sizes["index_n_heads"], "index_head_dim": sizes["index_head_dim"],
                    "index_topk": sizes["index_topk_blocks"] * sizes["index_block_size"]}  # fmt: skip
    experts = Experts(
        n="num_local_experts", width="intermediate_size", where="first_dense", shared="shared_intermediate_size", bias="buffer"
    )
    dense = dense_of(f.dim("dense_intermediate_size"))
    layers = [
        block([indexed if chooses else attention], [moe(f, experts) if has else dense])
        for chooses, has in zip(sparse, where(f, experts, n), strict=True)
    ]
    return model(f, layers)


def _sparse(f: Fields, inner: Fields | None, n: int) -> list[bool]:
    types = f.items("layer_types", n)
    if types is not None:
        unknown = [kind for kind in types if kind not in ("full_attention", "minimax_m3_sparse")]
        if unknown:
            raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is not a layer this architecture has")
        return [kind == "minimax_m3_sparse" for kind in types]
    flags = inner.items("sparse_attention_freq", n) if inner else None
    if flags is None:
        f.assumed[f.dotted("layer_types")] = "full attention in every layer"
        return [False] * n
    return [bool(flag) for flag in flags]
