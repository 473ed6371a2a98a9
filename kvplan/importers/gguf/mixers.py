"""From hparams to the mixers of one layer, as a spec declares them. Shapes that llama.cpp's caches have, source by source:

K and V rows: src/llama-kv-cache.cpp; latents without V: hparams.is_mla; indexer keys: src/llama-kv-cache-dsa.cpp; recurrent rows:
src/llama-hparams.cpp n_embd_r, n_embd_s; DeepSeek-V4: src/models/deepseek4.cpp (all b11312).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.importers.gguf.hparams import Hparams
from kvplan.importers.gguf.tensors import Table

Mixer = dict[str, Any]


def mixers(h: Hparams, il: int, table: Table) -> list[Mixer]:
    """What layer `il` mixes tokens with; empty where it is feed-forward only."""
    rule = h.arch.recurrent
    if h.recurrent[il] and rule:
        state = RECURRENT[rule.kind](h, table)
        return [attention(h, il, table), state] if rule.where == "beside" else [state]
    if not h.kv_heads[il] or not h.heads[il] or (rule and rule.where == "no_kv_heads_no_ffn" and h.ffn[il]):
        return []
    if h.keys.get("attention.compress_ratios") is not None and h.keys.arch == "deepseek4":
        return [_compressed(h, il)]
    if h.keys.number("attention.key_length_mla", 0):
        return [_latent(h, il)]
    return [attention(h, il, table)]


def attention(h: Hparams, il: int, table: Table) -> Mixer:
    """Softmax attention over K and V of their own, of an earlier layer, or of a window."""
    heads, kv, k, v, window = h.heads[il], h.kv_heads[il], h.k_dim[il], h.v_dim[il], h.window[il]
    made: Mixer = {"kind": "mha" if kv == heads else "mqa" if kv == 1 else "gqa", "heads": heads, "head_dim": k}
    if not h.arch.cached:
        made["kind"] = "encoder"
    elif h.reuses[il]:
        made |= {"kind": "shared", "own_kv_weights": table.has(il, "attn_k.weight")}
    elif window and h.arch.swa:
        made |= {"kind": h.arch.swa.kind, {"sliding": "window", "chunked": "chunk"}[h.arch.swa.kind]: window}
    if made["kind"] not in ("mha", "mqa"):
        made["kv_heads"] = kv
    if v != k:
        made["v_head_dim"] = v
    return made | table.attention_traits(il, h.arch, heads, k)


def _latent(h: Hparams, il: int) -> Mixer:
    """MLA: one row of key_length elements; the indexer only where it is not shared."""
    keys, k = h.keys, h.k_dim[il]
    rank, k_mla = keys.need("attention.kv_lora_rank"), keys.need("attention.key_length_mla")
    rope = k - rank
    if h.kv_heads[il] != 1 or not 0 <= rope < k_mla:
        raise keys.fault("attention.key_length", f"{k} x {h.kv_heads[il]} KV heads is no latent of {rank} and its rotary part")
    made: Mixer = {
        "kind": "mla", "heads": h.heads[il], "kv_lora_rank": rank, "qk_nope_head_dim": k_mla - rope, "qk_rope_head_dim": rope,
        "v_head_dim": keys.need("attention.value_length_mla"),
    }  # fmt: skip
    if q_rank := keys.number("attention.q_lora_rank", 0):
        made["q_lora_rank"] = q_rank
    if keys.number("attention.indexer.top_k", 0) and il < h.n_layers and _full_indexer(h)[il]:
        made |= {
            "kind": "mla_sparse", "index_heads": keys.need("attention.indexer.head_count"),
            "index_head_dim": keys.need("attention.indexer.key_length"), "index_topk": keys.need("attention.indexer.top_k"),
            "index_dtype": "f16",
        }  # fmt: skip
    return made


def _full_indexer(h: Hparams) -> list[bool]:
    """Layers with an indexer of their own; GLM-5.2 (a context of 1 M) without the key: two, then one in four (glm-dsa.cpp)."""
    default = [True] * h.n_layers
    if h.keys.arch == "glm-dsa" and h.context >= 1 << 20:
        default = [il < 2 or il % 4 == 2 for il in range(h.n_layers)]
    elif h.keys.arch == "hy_v4":
        default = [False] * h.n_layers
    return [bool(flag) for flag in h.keys.layers("attention.indexer.types", h.n_layers, [int(flag) for flag in default])]


def _compressed(h: Hparams, il: int) -> Mixer:
    ratios, keys = h.keys.get("attention.compress_ratios"), h.keys
    if not isinstance(ratios, tuple) or len(ratios) < h.n_all:
        raise keys.fault("attention.compress_ratios", f"needs a value for each of {h.n_all} layers")
    ratio = int(ratios[il])
    made: Mixer = {
        "kind": "compressed", "heads": h.heads[il], "head_dim": h.k_dim[il], "rope_head_dim": keys.need("rope.dimension_count"),
        "q_lora_rank": keys.need("attention.q_lora_rank"), "o_groups": keys.need("attention.output_group_count"),
        "o_lora_rank": keys.need("attention.output_lora_rank"), "window": keys.need("attention.sliding_window"),
    }  # fmt: skip
    if ratio:
        made["ratio"] = ratio
    if ratio == 4:
        made |= {
            "overlap": True, "index_heads": keys.need("attention.indexer.head_count"),
            "index_head_dim": keys.need("attention.indexer.key_length"), "index_topk": keys.need("attention.indexer.top_k"),
        }  # fmt: skip
    return made


def _mamba1(h: Hparams, table: Table) -> Mixer:
    keys = h.keys
    return {
        "kind": "mamba1", "d_inner": keys.need("ssm.inner_size"), "d_state": keys.need("ssm.state_size"),
        "d_conv": keys.need("ssm.conv_kernel"), "dt_rank": keys.need("ssm.time_step_rank"), "inner_norms": table.any("ssm_dt_norm.weight"),
    }  # fmt: skip


def _mamba2(h: Hparams, table: Table) -> Mixer:
    keys = h.keys
    inner, heads = keys.need("ssm.inner_size"), keys.need("ssm.time_step_rank")
    if inner % heads:
        raise keys.fault("ssm.time_step_rank", f"{heads} heads do not divide ssm.inner_size {inner}")
    return {
        "kind": "mamba2", "heads": heads, "head_dim": inner // heads, "groups": keys.need("ssm.group_count"),
        "d_state": keys.need("ssm.state_size"), "d_conv": keys.need("ssm.conv_kernel"),
        "gate_norm": table.empty or table.any("ssm_norm.weight"),
    }  # fmt: skip


def _delta_net(h: Hparams, table: Table) -> Mixer:
    keys = h.keys
    inner, heads = keys.need("ssm.inner_size"), keys.need("ssm.time_step_rank")
    return {
        "kind": "gated_delta_net", "key_heads": keys.need("ssm.group_count"), "value_heads": heads,
        "key_head_dim": keys.need("ssm.state_size"), "value_head_dim": inner // heads, "d_conv": keys.need("ssm.conv_kernel"),
    }  # fmt: skip


def _kda(h: Hparams, table: Table) -> Mixer:
    heads = h.heads[0] or h.keys.need("attention.head_count")
    return {
        "kind": "kda", "heads": heads, "head_dim": h.keys.need("kda.head_dim"), "d_conv": h.keys.number("ssm.conv_kernel", 4) or 4,
    }  # fmt: skip


def _rwkv(h: Hparams, table: Table) -> Mixer:
    size = h.keys.need("wkv.head_size")
    if h.hidden % size:
        raise h.keys.fault("wkv.head_size", f"{size} does not divide embedding_length {h.hidden}")
    return {
        "kind": "rwkv", "heads": h.hidden // size, "head_dim": size, "token_shifts": h.keys.number("token_shift_count", 2) or 2,
    }  # fmt: skip


RECURRENT: dict[str, Callable[[Hparams, Table], Mixer]] = {
    "mamba1": _mamba1, "mamba2": _mamba2, "gated_delta_net": _delta_net, "kda": _kda,
    "rwkv": _rwkv,
    "lightning": lambda h, table: {"kind": "lightning", "heads": h.heads[0] or h.keys.need("attention.head_count"), "head_dim": h.k_dim[0]},
    "short_conv": lambda h, table: {"kind": "short_conv", "d_conv": h.keys.need("shortconv.l_cache")},
}  # fmt: skip
