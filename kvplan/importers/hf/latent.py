"""Multi-head latent attention: DeepSeek V2 to V3.2, Kimi, GLM-5, MiniCPM3, LongCat; and DeepSeek-V4's compressed attention."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.importers.hf import mtp
from kvplan.importers.hf.attention import kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, shared_biases, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Experts
from kvplan.importers.hf.stack import Block, block, weight

DEEPSEEK_EXPERTS = Experts(n="n_routed_experts", where="first_dense", shared_count="n_shared_experts")


class Latent(NamedTuple):
    """sparse: an indexer on every layer. mlp_bias: a flag of that name gives dense networks biases."""

    experts: Experts | None = DEEPSEEK_EXPERTS._replace(bias="buffer")
    sparse: bool = False
    mtp: str | None = "deepseek"
    mlp_bias: bool = False


def mla(f: Fields, *, sparse: bool = False) -> dict[str, Any]:
    """The latent attention of one layer."""
    rank = f.opt("q_lora_rank")
    made: dict[str, Any] = {"kind": "mla_sparse" if sparse else "mla", "heads": f.dim("num_attention_heads")}
    if rank is not None:
        made["q_lora_rank"] = f.whole(rank, "q_lora_rank", 1)
    made |= {
        "kv_lora_rank": f.dim("kv_lora_rank"),
        "qk_nope_head_dim": f.dim("qk_nope_head_dim"),
        "qk_rope_head_dim": f.count("qk_rope_head_dim"),
        "v_head_dim": f.dim("v_head_dim"),
    }
    if f.flag("attention_bias"):
        made["bias"] = True
    if sparse:
        made |= {"index_heads": f.dim("index_n_heads"), "index_head_dim": f.dim("index_head_dim"), "index_topk": f.dim("index_topk")}
    return made


def indexers(f: Fields, t: Latent, n: int) -> list[bool]:
    """Which layers have an indexer; the others take the choice of the layer before them (GLM-5.2: index_topk_freq, indexer_types)."""
    if not t.sparse:
        return [False] * n
    types = f.items("indexer_types", n)
    pattern = f.text("index_topk_pattern")
    if types is None and pattern is not None:
        types = ["shared" if letter == "S" else "full" for letter in pattern]
    if types is None:
        every, offset = max(f.count("index_topk_freq"), 1), f.opt("index_skip_topk_offset")
        first = 2 if offset is None else f.whole(offset, "index_skip_topk_offset")
        return [max(i - first + 1, 0) % every == 0 for i in range(n)]
    if len(types) != n or set(types) - {"full", "shared"}:
        raise f.fault("indexer_types", f"must say full or shared for each of {n} layers")
    return [kind == "full" for kind in types]


def deepseek(f: Fields, t: Latent) -> Stack:
    """Latent attention in every layer; dense feed-forward first, experts after."""
    n = f.dim("num_hidden_layers")
    plain = f.opt("use_mla") is False or (f.opt("qk_nope_head_dim") == 0 and f.opt("qk_rope_head_dim") == 0)
    if plain:  # DeepSeek-OCR, DeepSeek-VL2 tiny: usual attention in the same stack
        usual = softmax(f.dim("num_attention_heads"), kv_heads(f), f.divided("hidden_size", "num_attention_heads"))
    dense = dense_of(f.dim("intermediate_size"), bias=t.mlp_bias and f.flag("mlp_bias"))
    extra = shared_biases(f, t.experts) if t.experts and f.count(t.experts.n) else []
    layers = [
        block([usual if plain else mla(f, sparse=own)], [moe(f, t.experts) if has and t.experts else dense], 2, extra if has else [])
        for has, own in zip(where(f, t.experts, n), indexers(f, t, n), strict=True)
    ]
    draft = {**layers[-1], "mixers": [mla(f, sparse=True)]} if t.sparse and not plain else layers[-1]  # with an indexer of its own
    return model(f, layers, **_stated_head_dim(f), **_listed(f)) | mtp.declared(f, t.mtp, draft)


def _listed(f: Fields) -> dict[str, Any]:
    """Layers that are named as sparse in layer_types, a name that transformers 5.6 to 5.8 do not know (ALLOWED_LAYER_TYPES)."""
    named = f.data.get("layer_types") if f.model_type == "glm_moe_dsa" else None
    return {"listed_layers": True} if isinstance(named, list) and "deepseek_sparse_attention" in named else {}


def _stated_head_dim(f: Fields) -> dict[str, Any]:
    """GLM-5.2's head_dim, which transformers 5.6 to 5.8 take for qk_rope_head_dim (GlmMoeDsaConfig.attribute_map)."""
    stated = f.data.get("head_dim") if f.model_type == "glm_moe_dsa" else None
    return {"stated_head_dim": stated} if type(stated) is int and stated > 0 and stated != f.opt("qk_rope_head_dim") else {}


def longcat(f: Fields, t: Latent) -> Stack:
    """LongCat-Flash: two attentions and two dense networks per layer beside the experts; zero experts cost the router alone."""
    total, parts = f.opt("qk_head_dim"), f.dim("qk_nope_head_dim") + f.count("qk_rope_head_dim")
    if total is not None and total != parts:
        raise f.fault("qk_head_dim", f"is not the sum of qk_nope_head_dim and qk_rope_head_dim ({parts})")
    if {"num_layers", "num_hidden_layers"} <= f.file.keys() and f.file["num_hidden_layers"] != 2 * f.dim("num_layers"):
        raise f.fault("num_hidden_layers", "the class counts two for each of num_layers, and they do not agree; take one of them out")
    made = moe(f, Experts(n="n_routed_experts", top_k="moe_topk", width="expert_ffn_hidden_size", bias="buffer"))
    zero = weight("router_zero_experts", f.dim("zero_expert_num"), f.dim("hidden_size"))
    dense = dense_of(f.dim("ffn_hidden_size"))
    layer = block([mla(f), mla(f)], [made, dense, dense], 4, [zero])
    return model(f, [layer] * f.dim("num_hidden_layers"))


# DeepSeek-V4 ----------------------------------------------------------------------------------------------------------------------

_RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}


def ratios(f: Fields, n: int) -> list[int]:
    """Tokens per compressed row of each layer, 0 for none. `compress_ratios` may go on for the draft modules."""
    listed = f.items("compress_ratios")
    if listed is None:
        types = f.items("layer_types", n)
        if types is None or any(kind not in _RATIOS for kind in types):
            raise f.fault("compress_ratios", "missing; a DeepSeek-V4 config states the compression of each layer")
        rates = f.data.get("compress_rates")
        return [rates[kind] if isinstance(rates, dict) and isinstance(rates.get(kind), int) else _RATIOS[kind] for kind in types]
    drafts = stages(f, len(listed) - n) or f.count("num_nextn_predict_layers")
    if len(listed) not in (n, n + drafts):
        raise f.fault("compress_ratios", f"has {len(listed)} entries for {n} layers and {drafts} draft modules")
    found = [f.whole(ratio, "compress_ratios") for ratio in listed]
    small = [ratio for ratio in found if ratio]
    if len(set(small)) > 2:
        raise f.fault("compress_ratios", f"{len(set(small))} different ratios; two are modelled, the smaller one with an indexer")
    return found


def stages(f: Fields, beyond: int) -> int:
    """DSpark stages that a release ships in place of the draft module it counts (3 of DeepSeek-V4-Flash-0731, which counts 1).

    Those that have a ratio of their own, else n_mtp_layers, 3 where it is not stated (vLLM models/deepseek_v4/nvidia/dspark.py).
    """
    if f.data.get("dspark_target_layer_ids") is None:
        return 0
    return beyond if beyond > 0 else f.dim_or("n_mtp_layers", 3)


def beside_stages(f: Fields) -> list[dict[str, Any]]:
    """What DSpark's stages have once: the projection of the hidden states they read, stored as the model's own matrices are; norms; the
    tables that correct a word by the one before, every rank's own; the one row that says how sure a word is.

    Source: vLLM 0.28 models/deepseek_v4/nvidia/dspark.py DSparkDeepseekV4Model, models/qwen3_dspark.py DSparkMarkovHead.
    """
    hidden, words, rank = f.dim("hidden_size"), f.dim("vocab_size"), f.dim("dspark_markov_rank")
    read = f.items("dspark_target_layer_ids") or []
    norms = [weight(name, hidden, role="norm") for name in ("main_norm", "norm")]
    tables = [weight("markov_w1", words, rank), weight("markov_w2", f.dim_or("draft_vocab_size", words), rank)]
    sure = [weight("confidence", 1, hidden + rank)] if f.data.get("enable_confidence_head") is not False else []
    return [weight("main_proj", hidden, len(read) * hidden, role="mlp"), *norms, *tables, *sure]


def compressed(f: Fields, ratio: int, overlap: bool) -> dict[str, Any]:
    """Attention over a short window, and over compressed rows where `ratio` > 0; the small ratio overlaps and has an indexer."""
    made: dict[str, Any] = {
        "kind": "compressed",
        "heads": f.dim("num_attention_heads"),
        "head_dim": f.dim("head_dim"),
        "rope_head_dim": f.dim_or("qk_rope_head_dim", 64),
        "q_lora_rank": f.dim("q_lora_rank"),
        "o_groups": f.dim("o_groups"),
        "o_lora_rank": f.dim("o_lora_rank"),
        "window": f.dim("sliding_window"),
    }
    if ratio:
        made["ratio"] = ratio
    if overlap:
        index = {"index_heads": f.dim("index_n_heads"), "index_head_dim": f.dim("index_head_dim"), "index_topk": f.dim("index_topk")}
        made |= {"overlap": True, **index}
    return made


def streams(f: Fields, name: str) -> list[dict[str, Any]]:
    """Weights that mix the `hc_mult` residual streams of one half layer."""
    m, hidden = f.dim("hc_mult"), f.dim("hidden_size")
    rows = m * m + 2 * m
    return [weight(f"{name}_fn", rows, m * hidden), weight(f"{name}_base", rows), weight(f"{name}_scale", 3)]


def deepseek_v4(f: Fields, t: Latent) -> Stack:
    """DeepSeek-V4: compressed attention, residual streams, experts in every layer, the first ones chosen by token id."""
    n, hidden, m = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("hc_mult")
    found = ratios(f, n)
    least = min((ratio for ratio in found if ratio and ratio < 128), default=0)
    mixing = [*streams(f, "attn_hc"), *streams(f, "ffn_hc")]
    experts = Experts(n="n_routed_experts", shared="moe_intermediate_size", bias="buffer")
    by_id = {**moe(f, experts._replace(bias="none"))}
    table = weight("expert_of_token_id", f.dim("vocab_size"), f.dim("num_experts_per_tok"), role="buffer")
    biases = shared_biases(f, experts._replace(shared_bias="mlp_bias"))
    types = f.items("mlp_layer_types", n)
    hashed = types.count("hash_moe") if types is not None else f.count("num_hash_layers")

    def layer(ratio: int, by_token: bool) -> Block:
        attention = compressed(f, ratio, bool(ratio) and ratio == least)
        return block([attention], [by_id if by_token else moe(f, experts)], 2, [*mixing, *biases, *([table] if by_token else [])])

    layers = [layer(ratio, i < hashed) for i, ratio in enumerate(found[:n])]
    head = [weight("hc_head_fn", m, m * hidden), weight("hc_head_base", m), weight("hc_head_scale", 1)]
    made = model(f, layers, weights=head)
    at = layer(found[n] if len(found) > n else 0, False)
    shipped = stages(f, len(found) - n)
    if shipped and f.opt("dspark_markov_rank") is None:
        said = f"dspark_markov_rank: missing, so that its {shipped} DSpark stages, which dspark drafts with, are not counted"
        return {**made, "notes": [*made.get("notes", []), said]}
    if shipped:
        return made | {"mtp": {"modules": shipped, "block": at, "method": "dspark", "beside": [*beside_stages(f), *head]}}
    modules = f.count("num_nextn_predict_layers")
    if modules:
        norms = [weight(name, hidden, role="norm") for name in ("enorm", "hnorm", "norm")]
        own = [*norms, weight("e_proj", hidden, hidden), weight("h_proj", hidden, hidden), *head]
        made["mtp"] = {"modules": modules, "block": at, "weights": own}
    return made
