"""Zaya's convolved attention and xLSTM (transformers 5.23.0, models/zaya, models/xlstm)."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import bias, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import block, weight


def zaya(f: Fields, t: Decoder) -> Stack:
    """ZAYA: queries and keys through two causal convolutions, half of each value from the token before; a router of three linears.

    What the state keeps is the inputs of the convolutions and the late half of one value.
    """
    n, hidden, vocab = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("vocab_size")
    heads, kv, dim = f.dim("num_attention_heads"), kv_heads(f), f.dim("head_dim")
    first, second, inner, on = f.dim("cca_time0"), f.dim("cca_time1"), f.dim("router_hidden_size"), bias(f, "attention_bias")
    types = f.items("layer_types", n) or ["hybrid"] * n
    if set(types) - {"hybrid", "hybrid_sliding"}:
        raise f.fault("layer_types", "must say hybrid or hybrid_sliding for each layer")
    if first + second < 3:
        raise f.fault("cca_time0", "two convolutions of width 1 keep nothing; this layer is not modelled so")
    mixed: dict[str, Any] = {"kind": "convolved_qkv", "heads": heads, "kv_heads": kv, "head_dim": dim, "kernels": [first, second]}
    experts = moe(f, t.experts) | {"router": False} if t.experts else None
    classes = f.dim("num_experts") + 1  # one more: to skip the network
    router = [weight("router_down", inner, hidden), weight("router_norm", inner, role="norm"),
              weight("router_fc1", inner, inner), weight("router_fc2", inner, inner),
              weight("router_out", classes, inner), weight("router_biases", 3, inner, role="norm")]  # fmt: skip
    scales = [weight(f"{x}_scaling", 4, hidden, role="norm") for x in ("attention", "mlp")]
    late = weight("router_states_scale", inner, role="norm")
    layers = []
    for i, kind in enumerate(types):
        window = f.dim("sliding_window") if kind == "hybrid_sliding" else None
        attention = softmax(heads, kv, dim, window=window, **(dict.fromkeys(("q_bias", "kv_bias", "o_bias"), True) if on else {}))
        own = [*router, *scales, weight("key_scale", kv, role="norm"), weight("balancing_biases", classes, role="buffer")]
        layers.append(block([attention, mixed], [experts], 2, own + ([late] if i else [])))
    extra = [weight("input_scaling", 2, hidden, role="norm")]
    extra += [weight("lm_head_bias", vocab, role="head")] if f.flag("lm_head_bias") else []
    return model(f, layers, weights=extra)


def _factor(f: Fields, key: str) -> float:
    value = f.raw(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 64:
        raise f.fault(key, f"must be a number above 0 (is {value!r:.40})")
    return float(value)


def xlstm(f: Fields, t: Decoder) -> Stack:
    """xLSTM 7B: a matrix, a vector and a scalar of memory per head, four projections and two gates; a gated network after each."""
    n, hidden, heads = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("num_attention_heads")
    if f.dim_or("embedding_dim", hidden) != hidden:
        raise f.fault("embedding_dim", f"must be hidden_size ({hidden}); the class runs with no other")
    if f.dim_or("num_blocks", n) != n:
        raise f.fault("num_blocks", f"must be num_hidden_layers ({n}): the class builds the one and keeps states for the other")
    qk, v = int(hidden * _factor(f, "qk_dim_factor")), int(hidden * _factor(f, "v_dim_factor"))
    if qk % heads or v % heads:
        raise f.fault("num_heads", f"{heads} does not divide queries of {qk} and values of {v}")
    on, up = f.flag("use_bias"), f.dim("ffn_round_up_to_multiple_of")
    wide = hidden * _factor(f, "ffn_proj_factor")
    mlp = dense_of(int((wide + up - 1) // up) * up, bias=on)
    mixer: dict[str, Any] = {"kind": "mlstm", "heads": heads, "qk_head_dim": qk // heads, "v_head_dim": v // heads}
    if f.text("inference_state_dtype") not in (None, "float32"):
        raise f.fault("inference_state_dtype", "states of another type than float32 are not modelled; declare the model as a spec file")
    biases = [weight("norm_biases", 2, hidden, role="norm")] if on else []
    made = model(f, [block([mixer | ({"bias": True} if on else {})], [mlp], 2, biases)] * n)
    if not f.flag("add_out_norm"):
        made["notes"] = [*made.get("notes", []), "add_out_norm: transformers' class has the last norm all the same"]
    return made
