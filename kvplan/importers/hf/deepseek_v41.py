"""DeepSeek-V4.1: four layers compress for all the others, tables of n-grams beside two layers.

Shapes follow vLLM 0.33 (models/deepseek_v41: attention.py, compressor.py, common/engram.py; models/deepseek_v4/common/vision.py)
and the tensors that the release has.
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import moe
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.latent import Latent, beside_stages, compressed, stages, streams
from kvplan.importers.hf.rows import Experts
from kvplan.importers.hf.stack import Block, block, weight

_EXPERTS = Experts(n="n_routed_experts", shared_count="n_shared_experts", bias="buffer")
#: A stage's own, where the config says so (vLLM 0.33 models/deepseek_v41/nvidia/model.py DeepseekV4MoE).
_STAGE = _EXPERTS._replace(n="dspark_n_routed_experts", top_k="dspark_num_experts_per_tok")


def deepseek_v41(f: Fields, t: Latent) -> Stack:
    """40 layers with a window each; `compress_ratios` say which rows a layer reads, `kv_source_layer_ids` which layers make such rows."""
    n = f.dim("num_hidden_layers")
    ratios = [f.whole(ratio, "compress_ratios") for ratio in f.items("compress_ratios") or []]
    makers, choosers, engrams = (_ids(f, key, n) for key in ("kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids"))
    shipped = stages(f, len(ratios) - n)
    if len(ratios) not in (n, n + shipped):
        raise f.fault("compress_ratios", f"has {len(ratios)} entries for {n} layers and {shipped} DSpark stages")
    for i, ratio in enumerate(ratios[:n]):
        read = max((maker for maker in makers if maker <= i), default=None)
        if ratio not in (0, 1, 2) or (ratio and (read is None or ratios[read] != ratio)) or (not ratio and i in (*makers, *choosers)):
            raise f.fault("compress_ratios", f"layer {i}: {ratio} is not the ratio (1 or 2) of the layer whose rows it reads")
    mixing = [*streams(f, "attn_hc"), *streams(f, "ffn_hc")]

    def layer(i: int, experts: Experts = _EXPERTS) -> Block:
        tables = _engram(f, engrams.index(i)) if i in engrams else []
        biases = [weight("router_bias_vl", f.dim(experts.n), role="buffer")]
        ratio = ratios[i] if i < len(ratios) else 0
        return block([_attention(f, ratio, i in makers, i in choosers)], [moe(f, experts)], 2, [*mixing, *biases, *tables])

    made = model(f, [layer(i) for i in range(n)])
    if not shipped:
        return made
    if f.opt("dspark_markov_rank") is None:
        said = f"dspark_markov_rank: missing, so that its {shipped} DSpark stages, which dspark drafts with, are not counted"
        return {**made, "notes": [*made.get("notes", []), said]}
    own = _STAGE if f.opt("dspark_n_routed_experts") else _EXPERTS
    return made | {"mtp": {"modules": shipped, "block": layer(n, own), "method": "dspark", "beside": beside_stages(f)}}


def _ids(f: Fields, key: str, n: int) -> list[int]:
    """Layer numbers, in order."""
    found = [f.whole(i, key) for i in f.items(key) or []]
    if sorted(set(found)) != found or any(i >= n for i in found):
        raise f.fault(key, f"must be numbers of {n} layers, in order")
    return found


def _attention(f: Fields, ratio: int, makes: bool, chooses: bool) -> dict[str, Any]:
    made = compressed(f, ratio, False) | {"shared": True}
    if not makes:
        made["own_rows"] = False
    elif not chooses:
        made["index_head_dim"] = f.dim("index_head_dim")
    if chooses:
        made |= {"index_heads": f.dim("index_n_heads"), "index_head_dim": f.dim("index_head_dim"), "index_topk": f.dim("index_topk")}
    return made


def _engram(f: Fields, number: int) -> list[dict[str, Any]]:
    """What a layer adds of n-grams: a table for each head and each length from 2 on, and what mixes their rows into the streams."""
    listed = f.items("engram_num_embeddings") or []
    if number >= len(listed):
        raise f.fault("engram_num_embeddings", "must have one number for each of engram_layer_ids")
    heads, width, hidden, m = f.dim("engram_n_heads"), f.dim("engram_head_dim"), f.dim("hidden_size"), f.dim("hc_mult")
    tables, rows = heads * (f.dim("engram_max_ngram_size") - 1), listed[number]
    if not isinstance(rows, int) or isinstance(rows, bool) or not 0 < rows < 1 << 40 or not tables:
        raise f.fault("engram_num_embeddings", "must be positive whole numbers, and engram_max_ngram_size at least 2")
    sizes = [rows // tables + (i < rows % tables) for i in range(tables)]
    kept = [weight(f"engram_rows_{i}", size, width, role="embedding") | {"own": "mxfp8"} for i, size in enumerate(sizes)]
    mixed = [weight(f"engram_{name}", m, hidden) for name in ("q_weight", "k_weight")]
    return [*kept, weight("engram_kv", hidden * (m + 1), tables * width, role="attention"), *mixed]
