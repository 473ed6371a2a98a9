"""Linear attention and short convolutions: Qwen3-Next and 3.5, Kimi Linear, MiniMax-01, LFM2, RecurrentGemma, OLMo Hybrid."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf import mtp
from kvplan.importers.hf.attention import flags, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.hybrid import pinned
from kvplan.importers.hf.latent import mla
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import block, weight

FULL, LINEAR, SLIDING = "full_attention", "linear_attention", "sliding_attention"


def layer_kinds(f: Fields, n: int, *others: str) -> list[str] | None:
    """layer_types where the config lists them: `full_attention` or one of `others`, which are linear attention where none is named."""
    types = f.items("layer_types", n)
    if types is None:
        return None
    unknown = [kind for kind in types if kind not in (FULL, *(others or (LINEAR,)))]
    if unknown:
        raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is not a layer this architecture has")
    return types


def delta_net(f: Fields) -> dict[str, Any]:
    """One gated delta net."""
    return {
        "kind": "gated_delta_net",
        "key_heads": f.dim("linear_num_key_heads"),
        "value_heads": f.dim("linear_num_value_heads"),
        "key_head_dim": f.dim("linear_key_head_dim"),
        "value_head_dim": f.dim("linear_value_head_dim"),
        "d_conv": f.dim("linear_conv_kernel_dim"),
        **pinned(f),
    }


def qwen_next(f: Fields, t: Decoder) -> Stack:
    """Qwen3-Next, 3.5 and 3.6: three gated delta nets to one gated full attention."""
    n = f.dim("num_hidden_layers")
    kinds = layer_kinds(f, n)
    if kinds is None:
        every = f.dim_or("full_attention_interval", 4)
        kinds = f.listed("layer_types", n, [LINEAR if (i + 1) % every else FULL for i in range(n)], by="full_attention_interval")
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t))
    mixers = {FULL: attention, LINEAR: delta_net(f)}
    width = f.dim("num_attention_heads") * head_dim(f)
    gate = {FULL: [weight("gate_bias", width, role="norm")] if f.flag("attention_bias") else [], LINEAR: []}
    layers = [
        block([mixers[kind]], [moe(f, t.experts) if has and t.experts else dense_of(f.dim("intermediate_size"))], 2, gate[kind])
        for kind, has in zip(kinds, where(f, t.experts, n), strict=True)
    ]
    drafted = block([attention], layers[-1]["mlps"])
    return model(f, layers) | mtp.declared(f, t.mtp, drafted)


def lara_mini(f: Fields, t: Decoder) -> Stack:
    """Lara 4 Mini: gated delta nets, sliding and full attention in turn, experts in every layer (transformers 5.24 models/lara_mini)."""
    n = f.dim("num_hidden_layers")
    kinds = layer_kinds(f, n, LINEAR, SLIDING)
    if kinds is None:
        kinds = f.listed("layer_types", n, [(LINEAR, SLIDING, LINEAR, FULL, SLIDING)[i % 5] for i in range(n)])
    sizes, on = (f.dim("num_attention_heads"), kv_heads(f), head_dim(f)), flags(f, t)
    mixers = {FULL: softmax(*sizes, **on), SLIDING: softmax(*sizes, window=f.dim("sliding_window"), **on), LINEAR: delta_net(f)}
    return model(f, [block([mixers[kind]], [moe(f, t.experts or Experts())]) for kind in kinds])


def olmo_hybrid(f: Fields, t: Decoder) -> Stack:
    """OLMo Hybrid: gated delta nets and full attention; both kinds of layer have two norms."""
    n = f.dim("num_hidden_layers")
    kinds = layer_kinds(f, n) or f.listed("layer_types", n, [LINEAR if (i + 1) % 4 else FULL for i in range(n)])
    mixers = {FULL: softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t)), LINEAR: delta_net(f)}
    return model(f, [block([mixers[kind]], [dense_of(f.dim("intermediate_size"))]) for kind in kinds])


def jet_nemotron(f: Fields, t: Decoder) -> Stack:
    """Jet-Nemotron: JetBlocks, gated delta nets whose kernels are made of their input, beside attention, some of it in a window (sglang
    0.5.23 models/jet_nemotron.py, configs/jet_nemotron.py)."""
    n, own = f.dim("num_hidden_layers"), f.part("efficient_attention_config")
    kinds, jet = f.items("layer_types", n), own.part("jet")
    if kinds is None or set(kinds) - {"jet", "attn", "swa"}:
        raise f.fault("layer_types", "must say jet, attn or swa for each layer")
    grown, heads, width = jet.raw("expand_v"), jet.dim("num_heads"), jet.dim("head_dim")
    if not isinstance(grown, int | float) or isinstance(grown, bool) or not 0 < grown < 64:
        raise jet.fault("expand_v", f"must be a positive number (is {grown!r:.40})")
    value = int(width * grown)
    block_of: dict[str, Any] = {
        "kind": "gated_delta_net", "key_heads": heads, "value_heads": heads, "key_head_dim": width, "value_head_dim": value,
        "d_conv": jet.dim("conv_size"), "generator": heads * value // jet.dim("dconv_generator_reduction"),
    }  # fmt: skip
    on, head = {"q_bias": True, "kv_bias": True}, f.divided("hidden_size", "num_attention_heads")
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head, **on)
    mixers = {"jet": block_of, "attn": attention}
    if "swa" in kinds:
        window = own.part("swa").dim("window_size")
        mixers["swa"] = softmax(f.dim("num_attention_heads"), kv_heads(f), head, window=window, **on)
    return model(f, [block([mixers[kind]], [dense_of(f.dim("intermediate_size"))]) for kind in kinds])


def kimi_linear(f: Fields, t: Decoder) -> Stack:
    """Kimi Linear and K3: Kimi delta attention beside MLA; layers counted from 1 in linear_attn_config.

    K3 adds a gate on MLA's output, experts in a latent space with a norm behind it, and residuals over blocks of layers, each with a
    norm and one vector (tensor names and shapes: the checkpoint's own; vLLM 0.32 models/kimi_k3).
    """
    n, hidden = f.dim("num_hidden_layers"), f.dim("hidden_size")
    kinds = layer_kinds(f, n)
    inner = f.part("linear_attn_config") if isinstance(f.data.get("linear_attn_config"), dict) else None
    delta: dict[str, Any] = {"kind": "kda"}
    if inner is not None:
        full, linear = inner.items("full_attn_layers") or [], inner.items("kda_layers") or []
        if sorted(full + linear) != list(range(1, n + 1)):
            raise inner.fault("kda_layers", f"with full_attn_layers must name each of the layers 1 to {n} once")
        kinds = [FULL if i + 1 in full else LINEAR for i in range(n)]
        delta |= {"heads": inner.dim("num_heads"), "head_dim": inner.dim("head_dim"), "d_conv": inner.dim("short_conv_kernel_size")}
        if inner.flag("use_full_rank_gate"):
            delta["low_rank_gate"] = False
    else:
        delta |= {"heads": f.dim("linear_num_heads"), "head_dim": f.dim("linear_head_dim"), "d_conv": f.dim("linear_conv_kernel_dim")}
        kinds = kinds or f.listed("layer_types", n, [FULL if i and i % 4 == 0 else LINEAR for i in range(n)])
    listed: dict[str, Any] = {} if inner is not None else {"listed_layers": True}
    gate = {"output_gate": "element"} if f.flag("mla_use_output_gate") else {}
    mixers = {FULL: mla(f) | gate, LINEAR: delta | pinned(f)}
    experts = Experts(n="num_local_experts", where="first_dense", shared_count="n_shared_experts", bias="buffer")
    dense = dense_of(f.dim("intermediate_size"))
    residuals = f.opt("attn_res_block_size") is not None
    extra = [weight(f"{x}_res_{part}", hidden, role="norm") for x in ("attention", "mlp") for part in ("norm", "proj") if residuals]
    latent: dict[str, Any] = {}
    routed = list(extra)
    if f.opt("routed_expert_hidden_size") is not None:
        latent["latent_size"] = f.dim("routed_expert_hidden_size")
        if f.flag("latent_moe_use_norm"):
            routed.append(weight("routed_expert_norm", f.dim("routed_expert_hidden_size"), role="norm"))
    layers = [
        block([mixers[k]], [moe(f, experts) | latent], 2, routed) if has else block([mixers[k]], [dense], 2, extra)
        for k, has in zip(kinds, where(f, experts, n), strict=True)
    ]
    return model(f, layers, weights=[weight(f"output_res_{part}", hidden, role="norm") for part in ("norm", "proj") if residuals]) | listed


def minimax(f: Fields, t: Decoder) -> Stack:
    """MiniMax-Text-01 and M1: lightning attention, every eighth layer softmax (attn_type_list: 0 and 1)."""
    n = f.dim("num_hidden_layers")
    kinds = layer_kinds(f, n)
    listed = f.items("attn_type_list", n)
    if listed is not None:
        kinds = [FULL if f.whole(kind, "attn_type_list") else LINEAR for kind in listed]
    if kinds is None:
        kinds = [FULL if i % 2 == 0 else LINEAR for i in range(n)]
        f.assumed[f.dotted("layer_types")] = "full and linear in turn"
    heads, head = f.dim("num_attention_heads"), head_dim(f)
    mixers = {FULL: softmax(heads, kv_heads(f), head), LINEAR: {"kind": "lightning", "heads": heads, "head_dim": head}}
    mlp = moe(f, Experts(n="num_local_experts", width="intermediate_size"))
    return model(f, [block([mixers[kind]], [mlp]) for kind in kinds])


def lfm2(f: Fields, t: Decoder) -> Stack:
    """LFM2: gated short convolutions and grouped attention; the dense width may be scaled down to 2/3 and rounded up."""
    n = f.dim("num_hidden_layers")
    kinds = layer_kinds(f, n, "conv")
    if kinds is None:
        indices = f.items("full_attn_idxs")
        if indices is None:
            raise f.fault("layer_types", "missing, and so is full_attn_idxs: which layers attend is not stated")
        kinds = [FULL if i in indices else "conv" for i in range(n)]
    width = f.dim("intermediate_size")
    if f.flag("block_auto_adjust_ff_dim"):
        width = 2 * width // 3
        factor, multiple = f.opt("block_ffn_dim_multiplier"), f.dim("block_multiple_of")
        if isinstance(factor, int | float) and not isinstance(factor, bool):
            width = int(factor * width)
        width = -(-width // multiple) * multiple
    conv: dict[str, Any] = {"kind": "short_conv", "d_conv": f.dim("conv_L_cache")}
    if f.flag("conv_bias"):
        conv["bias"] = True
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), f.divided("hidden_size", "num_attention_heads"), qk_norm="head")
    mixers = {FULL: attention, "conv": conv}
    dense = dense_of(width)
    layers = [
        block([mixers[kind]], [moe(f, t.experts) if has and t.experts else dense])
        for kind, has in zip(kinds, where(f, t.experts, n), strict=True)
    ]
    return model(f, layers)


def recurrent_gemma(f: Fields, t: Decoder) -> Stack:
    """RecurrentGemma (Griffin): block_types repeated over the layers; attention slides."""
    n, hidden = f.dim("num_hidden_layers"), f.dim("hidden_size")
    types = f.items("block_types")
    if not types:
        raise f.fault("block_types", "missing; which layers are recurrent is not stated")
    unknown = [kind for kind in types if kind not in ("recurrent", "attention")]
    if unknown:
        raise f.fault("block_types", f"{str(unknown[0])[:40]!r} is neither recurrent nor attention")
    heads = f.dim("num_attention_heads")
    width = f.dim_or("lru_width", hidden)
    mixers = {
        "attention": softmax(heads, kv_heads(f), head_dim(f), window=f.dim("attention_window_size"), o_bias=True, **flags(f, t)),
        "recurrent": {"kind": "rg_lru", "width": width, "heads": heads, "d_conv": f.dim("conv1d_width")},
    }
    mlp = dense_of(f.dim("intermediate_size") // 2, bias=True)
    return model(f, [block([mixers[types[i % len(types)]]], [mlp]) for i in range(n)])
