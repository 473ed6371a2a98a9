"""Gemma 3n and Gemma 4: layers that share the cache of earlier ones, two head dims, per-layer embeddings."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model, overrides
from kvplan.importers.hf.experts import dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, block, weight

SLIDING, FULL = "sliding_attention", "full_attention"


def kinds(f: Fields, n: int, every: int) -> list[str]:
    """layer_types, else every `every`-th layer global."""
    types = f.listed("layer_types", n, [SLIDING if (i + 1) % every else FULL for i in range(n)])
    unknown = [kind for kind in types if kind not in (SLIDING, FULL)]
    if unknown:
        raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is neither {SLIDING} nor {FULL}")
    return types


def shared_from(f: Fields, types: list[str]) -> int:
    """The first layer that reads an earlier layer's cache. Each kind must have a layer before it that keeps one."""
    n, shared = len(types), f.count("num_kv_shared_layers")
    if shared >= n or (shared and set(types[: n - shared]) != set(types)):
        raise f.fault("num_kv_shared_layers", f"{shared} of {n} layers share a cache that no layer before them keeps")
    return n - shared


def reader(attention: dict[str, Any]) -> dict[str, Any]:
    """The same attention without a cache and projections of its own."""
    kept = {key: value for key, value in attention.items() if key not in ("value", "kind")}
    return {"kind": "shared", **kept, "kv_heads": attention.get("kv_heads", attention["heads"] if attention["kind"] == "mha" else 1)}


def per_layer(f: Fields, n: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Per-layer embeddings: what each layer has, what the model has."""
    hidden, width = f.dim("hidden_size"), f.count("hidden_size_per_layer_input")
    if not width:
        return [], []
    layer = [weight("per_layer_input_gate", width, hidden), weight("per_layer_projection", hidden, width),
             weight("post_per_layer_input_norm", hidden, role="norm")]  # fmt: skip
    whole = [
        weight("embedding_per_layer", f.dim("vocab_size_per_layer_input"), n * width, role="embedding"),
        weight("per_layer_model_projection", n * width, hidden),
        weight("per_layer_projection_norm", width, role="norm"),
    ]
    return layer, whole


def _on(f: Fields) -> dict[str, Any]:
    biases = dict.fromkeys(("q_bias", "kv_bias", "o_bias"), True) if f.flag("attention_bias") else {}
    return {"qk_norm": "head", **biases}


def gemma3n(f: Fields, t: Decoder) -> Stack:
    """Gemma 3n text: alternating updates (AltUp) over several streams, LAuReL blocks, shared caches."""
    n, hidden, inputs, rank = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("altup_num_inputs"), f.dim("laurel_rank")
    types = kinds(f, n, 5)
    first = shared_from(f, types)
    if isinstance(f.raw("intermediate_size"), list):
        widths = [f.whole(width, "intermediate_size", 1) for width in f.items("intermediate_size", n) or []]
    else:
        widths = [f.dim("intermediate_size")] * n
    heads, kv, head = f.dim("num_attention_heads"), kv_heads(f), f.dim("head_dim")
    on = _on(f)
    attentions = {
        SLIDING: softmax(heads, kv, head, window=f.dim("sliding_window"), **on),
        FULL: softmax(heads, kv, head, **on),
    }
    layer_weights, model_weights = per_layer(f, n)
    layer_weights += [
        weight("altup_correct_output_scale", hidden), weight("altup_correction_coefs", inputs, inputs),
        weight("altup_prediction_coefs", inputs * inputs, inputs), weight("altup_modality_router", inputs, hidden),
        weight("altup_router_norm", hidden, role="norm"), weight("laurel_left", rank, hidden), weight("laurel_right", hidden, rank),
        weight("laurel_norm", hidden, role="norm"),
    ]  # fmt: skip
    model_weights += [weight(f"altup_{x}projections", inputs - 1, hidden, hidden) for x in ("", "unembed_") if inputs > 1]
    layers = [
        block([attentions[kind] if i < first else reader(attentions[kind])], [dense_of(widths[i])], 4, layer_weights)
        for i, kind in enumerate(types)
    ]
    return model(f, layers, weights=model_weights)


def gemma4(f: Fields, t: Decoder) -> Stack:
    """Gemma 4 text: wider global heads, K as V where attention_k_eq_v, experts beside the dense network where enabled."""
    n = f.dim("num_hidden_layers")
    types = kinds(f, n, 6)
    if types[-1] != FULL:
        types = [*types[:-1], FULL]
    first = shared_from(f, types)
    heads, kv, same = f.dim("num_attention_heads"), kv_heads(f), f.flag("attention_k_eq_v")
    wide = f.dim_or("num_global_key_value_heads", kv) if same else kv
    on = _on(f)
    stated, head = overrides(f, n, "head_dim", "num_key_value_heads"), f.dim("head_dim")

    def attention(i: int) -> dict[str, Any]:
        """As released, `global_*` is of the full layers; as transformers 5.24 saves it, each layer says what differs."""
        if stated is not None:
            own_kv, own_head = stated[i].get("num_key_value_heads", kv), stated[i].get("head_dim", head)
        else:
            own_kv, own_head = (kv, head) if types[i] == SLIDING else (wide, f.dim_or("global_head_dim", 512))
        if types[i] == SLIDING:
            return softmax(heads, own_kv, own_head, window=f.dim("sliding_window"), **on)
        return softmax(heads, own_kv, own_head, **(on | ({"value": "key"} if same else {})))

    layer_weights, model_weights = per_layer(f, n)
    width, double = f.dim("intermediate_size"), f.flag("use_double_wide_mlp")
    hidden = f.dim("hidden_size")
    norms, experts = 4, None
    if f.flag("enable_moe_block"):
        experts = {"kind": "moe", "experts": f.dim("num_experts"), "experts_per_token": f.dim("top_k_experts"),
                   "intermediate_size": f.dim("moe_intermediate_size")}  # fmt: skip
        norms = 7
        layer_weights += [weight("router_scale", hidden), weight("router_per_expert_scale", f.dim("num_experts"))]
    layer_weights.append(weight("layer_scalar", 1, role="buffer"))

    def layer(i: int) -> Block:
        shares = i >= first
        dense = dense_of(width * (2 if shares and double else 1))
        return block([reader(attention(i)) if shares else attention(i)], [dense, experts], norms, layer_weights)

    return model(f, [layer(i) for i in range(n)], weights=model_weights)
