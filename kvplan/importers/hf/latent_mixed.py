"""Latent attention with more beside it: A.X-K1 and K2, Hunyuan 4, GLM-5-Next, Ling 2.5 and 3, Mistral Large 4, openPangu.

Shapes follow transformers 5.23 (modeling_axk1, axk2, hy_v4, glm5_next, bailing_hybrid, mistral_large4) and vLLM 0.32
(bailing_moe_linear.py, openpangu.py).
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf import mtp
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.hybrid import pinned
from kvplan.importers.hf.latent import DEEPSEEK_EXPERTS, Latent, indexers, mla, streams
from kvplan.importers.hf.rows import Experts
from kvplan.importers.hf.stack import Block, block, weight

FULL, LINEAR = "full_attention", "linear_attention"
_EXPERTS = DEEPSEEK_EXPERTS._replace(bias="buffer")


def axk1(f: Fields, t: Latent) -> Stack:
    """A.X-K1: DeepSeek-V3 with one more norm behind the experts."""
    n = f.dim("num_hidden_layers")
    sparse, dense = block([mla(f)], [moe(f, _EXPERTS)], 3), block([mla(f)], [dense_of(f.dim("intermediate_size"))])
    layers = [sparse if has else dense for has in where(f, _EXPERTS, n)]
    return model(f, layers) | mtp.declared(f, t.mtp, layers[-1])


def axk2(f: Fields, t: Latent) -> Stack:
    """A.X-K2: an indexer on every layer, a gate on the values from twice the query latent, low-rank gates on norms."""
    n, hidden, rank = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("gated_norm_rank")
    attention = mla(f, sparse=True)
    heads, latent, head = attention["heads"], attention["q_lora_rank"], attention["qk_nope_head_dim"] + attention["qk_rope_head_dim"]
    gate = weight("q_gate_beyond_q", heads * head + 2 * heads * attention["v_head_dim"], latent, role="attention")
    norm = [[weight(f"{name}_gate_down", rank, hidden), weight(f"{name}_gate_up", hidden, rank)] for name in ("input", "post")]
    sparse = block([attention], [moe(f, _EXPERTS)], 2, [gate, *norm[0], *norm[1]])
    dense = block([attention], [dense_of(f.dim("intermediate_size"))], 2, [gate, *norm[0]])
    return model(f, [sparse if has else dense for has in where(f, _EXPERTS, n)])


def hy_v4(f: Fields, t: Latent) -> Stack:
    """Hunyuan 4: sparse latent attention with sinks and a gate, indexers on some layers, residual streams."""
    n, hidden, m = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("hc_mult")
    mixing = [
        weight(f"{name}_{part}", *shape)
        for name in ("attn_hc", "ffn_hc")
        for part, shape in (("fn", (2 * m, m * hidden)), ("base", (2 * m,)), ("scale", (2,)))
    ]
    types = f.items("indexer_types", n)
    own = indexers(f, t, n) if types is not None else [i == 0 or (i - 1) % 4 == 0 for i in range(n)]
    on = {"output_gate": "element", "sinks": True}
    dense = dense_of(f.dim("intermediate_size"))
    layers = [
        block([mla(f, sparse=index) | on], [moe(f, _EXPERTS) if has else dense], 2, mixing)
        for has, index in zip(where(f, _EXPERTS, n), own, strict=True)
    ]
    head = [weight("hc_head_fn", m, m * hidden), weight("hc_head_base", m), weight("hc_head_scale", 1)]
    return model(f, layers, weights=head)


def glm5_next(f: Fields, t: Latent) -> Stack:
    """GLM-5-Next: three Kimi delta attentions to one latent attention without RoPE; its indexer keeps one key per index_kpool tokens."""
    n, hidden = f.dim("num_hidden_layers"), f.dim("hidden_size")
    types = f.listed("layer_types", n, [LINEAR if i % 4 != 3 else FULL for i in range(n)])
    unknown = [kind for kind in types if kind not in (FULL, LINEAR, "indexed_attention", "deepseek_sparse_attention")]
    if unknown:
        raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is not a layer this architecture has")
    inner = f.part("linear_attn_config") if isinstance(f.data.get("linear_attn_config"), dict) else None
    delta = _kda(inner, ("num_heads", "head_dim", "short_conv_kernel_size")) if inner else _kda(
        f, ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"))  # fmt: skip
    pool, width = f.dim("index_kpool"), f.dim("index_head_dim")
    pooled = [weight("index_pool_positions", pool, width), weight("index_pool_gate", width, hidden, role="attention")]
    mixing = [*streams(f, "attn_hc"), *streams(f, "ffn_hc")]
    dense = dense_of(f.dim("intermediate_size"))
    layers: list[Block] = []
    for kind, has, own in zip(types, where(f, _EXPERTS, n), indexers(f, t, n), strict=True):
        mlp = moe(f, _EXPERTS) if has else dense
        if kind == LINEAR:
            layers.append(block([delta | pinned(f)], [mlp], 2, mixing))
        elif own:
            layers.append(block([mla(f, sparse=True) | {"index_pool": pool}], [mlp], 2, [*mixing, *pooled]))
        else:
            layers.append(block([mla(f)], [mlp], 2, mixing))
    draft = block([mla(f, sparse=True) | {"index_pool": pool}], [moe(f, _EXPERTS)], 2, pooled)
    return model(f, layers) | mtp.declared(f, t.mtp, draft)


def _kda(f: Fields, names: tuple[str, str, str]) -> dict[str, Any]:
    heads, head, conv = (f.dim(name) for name in names)
    return {"kind": "kda", "heads": heads, "head_dim": head, "d_conv": conv}


def grouped_kinds(f: Fields, n: int) -> list[str]:
    """layer_types, else every layer_group_size-th layer full; a rest shorter than a group is full in Ling (vLLM bailing_moe_linear.py)."""
    types = f.items("layer_types", n)
    if types is not None:
        unknown = [kind for kind in types if kind not in (FULL, LINEAR)]
        if unknown:
            raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is not a layer this architecture has")
        return types
    group = f.dim("layer_group_size")
    return [FULL if (i + 1) % group == 0 or i >= n // group * group else LINEAR for i in range(n)]


def ling3(f: Fields, t: Latent) -> Stack:
    """Ling 3: Kimi delta attention with full-rank gates, every layer_group_size-th layer latent attention with a gate per head."""
    n = f.dim("num_hidden_layers")
    width = {"shared": "moe_shared_expert_intermediate_size"} if f.opt("moe_shared_expert_intermediate_size") is not None else {}
    experts = Experts(n="num_local_experts", where="first_dense", shared_count="n_shared_experts", bias="buffer", **width)  # type: ignore[arg-type]
    head = f.dim_or("linear_head_dim", f.dim("head_dim"))  # a config saved by transformers has its rotary width in head_dim
    delta = {"kind": "kda", "heads": f.dim_or("linear_num_heads", f.dim("num_attention_heads")), "head_dim": head,
             "d_conv": f.dim_or("linear_conv_kernel_dim", f.dim("short_conv_kernel_size")),
             "low_rank_decay": False, "low_rank_gate": False, **pinned(f)}  # fmt: skip
    mixers = {FULL: mla(f) | {"output_gate": "head"}, LINEAR: delta}
    dense = dense_of(f.dim("intermediate_size"))
    layers = [
        block([mixers[kind]], [moe(f, experts) if has else dense])
        for kind, has in zip(grouped_kinds(f, n), where(f, experts, n), strict=True)
    ]
    return model(f, layers) | mtp.declared(f, t.mtp, block([mixers[FULL]], layers[-1]["mlps"]))


def mistral_large4(f: Fields, t: Latent) -> Stack:
    """Mistral Large 4: sparse latent attention; kv_source_layers read another layer's latent, every fourth layer has no RoPE."""
    n, hidden = f.dim("num_hidden_layers"), f.dim("hidden_size")
    rope = f.listed(
        "no_rope_layers", n, [int((i + 1) % f.dim_or("no_rope_layer_interval", 4) != 0) for i in range(n)], by="no_rope_layer_interval"
    )
    source = [f.whole(i, "kv_source_layers") for i in f.items("kv_source_layers", n) or range(n)]
    if any(s > i or source[s] != s for i, s in enumerate(source)):
        raise f.fault("kv_source_layers", "a layer reads the cache of one that is later or keeps none")
    attention = mla(f, sparse=True)
    heads, index_heads = attention["heads"], attention["index_heads"]
    turned = attention["qk_nope_head_dim"] + attention["qk_rope_head_dim"]
    base = {key: value for key, value in attention.items() if key != "q_lora_rank"}
    scaling = [weight(f"softmax_{part}", heads) for part in ("scale", "bias")]
    index = [weight(f"index_softmax_{part}", index_heads) for part in ("scale", "bias")]
    index += [weight(f"index_q_norm{part}", hidden, role="norm") for part in ("", "_bias")]
    experts = DEEPSEEK_EXPERTS
    dense = dense_of(f.dim("intermediate_size"))
    layers: list[Block] = []
    for i, (has, own) in enumerate(zip(where(f, experts, n), indexers(f, t, n), strict=True)):
        mixer = dict(base)
        if not rope[i]:
            mixer |= {"qk_nope_head_dim": turned, "qk_rope_head_dim": 0}
        if source[i] != i:
            mixer["own_latent"] = False
        if not own:
            mixer = {key: v for key, v in mixer.items() if not key.startswith("index_")} | {"kind": "mla"}
        layers.append(block([mixer], [moe(f, experts) if has else dense], 2, [*scaling, *(index if own else [])]))
    return model(f, layers, weights=[weight("rotary_alpha", f.dim("qk_rope_head_dim") // 2, role="buffer")])


def pangu_ultra(f: Fields, t: Latent) -> Stack:
    """openPangu Ultra: DeepSeek-V3's layers with four norms where sandwich_norm."""
    n = f.dim("num_hidden_layers")
    if f.count("param_sink_number"):
        raise f.fault("param_sink_number", "learned KV sinks are not modelled; declare the model as a spec file")
    experts = _EXPERTS if f.flag("router_enable_expert_bias") else DEEPSEEK_EXPERTS
    norms = 4 if f.flag("sandwich_norm") else 2
    dense = dense_of(f.dim("intermediate_size"))
    layers = [block([mla(f)], [moe(f, experts) if has else dense], norms) for has in where(f, experts, n)]
    return model(f, layers) | mtp.declared(f, t.mtp, layers[-1])


def ling2_5(f: Fields, t: Latent) -> Stack:
    """Ling 2.5: lightning attention with Q and K norms, every layer_group_size-th layer latent attention."""
    n, head = f.dim("num_hidden_layers"), f.dim("head_dim")
    if f.flag("use_bias") or f.flag("use_qkv_bias"):
        raise f.fault("use_qkv_bias", "biases on linear attention are not modelled; declare the model as a spec file")
    experts = Experts(where="first_dense", shared_count="num_shared_experts",
                      bias="buffer" if f.flag("moe_router_enable_expert_bias") else "none")  # fmt: skip
    norms = [weight(f"{x}_norm", head, role="norm") for x in "qk"] if f.flag("use_qk_norm") else []
    mixers: dict[str, Any] = {
        FULL: mla(f),
        LINEAR: {"kind": "lightning", "heads": f.dim("num_attention_heads"), "head_dim": head, **pinned(f)},
    }
    dense = dense_of(f.dim("intermediate_size"))
    layers = [
        block([mixers[kind]], [moe(f, experts) if has else dense], 2, norms if kind == LINEAR else [])
        for kind, has in zip(grouped_kinds(f, n), where(f, experts, n), strict=True)
    ]
    return model(f, layers) | mtp.declared(f, t.mtp, block([mixers[FULL]], layers[-1]["mlps"]))


#: What a sliding layer of dots3-note has where the file does not say.
_NARROW = {"num_attention_heads": 64, "q_lora_rank": 1024, "kv_lora_rank": 1024, "head_dim": 256, "qk_nope_head_dim": 192,
           "v_head_dim": 128}  # fmt: skip


def dots3_note(f: Fields, t: Latent) -> Stack:
    """dots3-note: latent attention with an indexer and, in a window, with sizes of its own (`swa_*`); a gate for each head."""
    n, kinds = f.dim("num_hidden_layers"), f.items("layer_types") or []
    stored = f.data.get("per_layer_config")
    own = next((v for i, v in stored.items() if isinstance(v, dict) and "kv_lora_rank" in v), {}) if isinstance(stored, dict) else {}
    sizes = {key: f.whole(own.get(key, f.data.get(f"swa_{key}", usual)), f"swa_{key}", 1) for key, usual in _NARROW.items()}
    rope = own.get("qk_rope_head_dim", f.data.get("swa_qk_rope_head_dim", sizes["head_dim"] - sizes["qk_nope_head_dim"]))
    gate = {"output_gate": "head"}
    narrow: dict[str, Any] = {"kind": "mla", "heads": sizes["num_attention_heads"], "q_lora_rank": sizes["q_lora_rank"],
                              "kv_lora_rank": sizes["kv_lora_rank"], "qk_nope_head_dim": sizes["qk_nope_head_dim"],
                              "qk_rope_head_dim": f.whole(rope, "swa_qk_rope_head_dim"), "v_head_dim": sizes["v_head_dim"],
                              "window": f.dim("sliding_window")}  # fmt: skip
    if f.flag("attention_bias"):
        narrow["bias"] = True
    mixers = {
        "sliding_attention": narrow | gate,
        "indexed_attention": mla(f, sparse=True) | gate | {"index_dtype": "f32"},
        FULL: mla(f) | gate,
    }
    if len(kinds) != n or set(kinds) - mixers.keys():
        raise f.fault("layer_types", f"must name sliding_attention, full_attention or indexed_attention for each of {n} layers")
    e, dense = t.experts or Experts(), dense_of(f.dim("intermediate_size"))
    layers = []
    for kind, has in zip(kinds, where(f, e, n), strict=True):
        norm = weight("k_rope_norm", mixers[kind]["qk_rope_head_dim"], role="norm")
        layers.append(block([mixers[kind]], [moe(f, e) if has else dense], 2, [norm]))
    made = model(f, layers)
    note = "the indexer's keys in f32, as transformers 5.23 keeps them"
    return {**made, "notes": [*made.get("notes", []), *([note] if "indexed_attention" in kinds else [])]}
