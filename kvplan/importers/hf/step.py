"""Step-3 (factorised queries, one wide KV head), Step-3.5 and 3.7 (sliding and full layers with head counts of their own).

Shapes follow vLLM 0.32 step3_text.py and step3p5.py, and transformers 5.23 modeling_step3p7.py.
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf import mtp
from kvplan.importers.hf.attention import KINDS, bias, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, shared_biases
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import block


def listed(f: Fields, key: str, n: int, first: int) -> list[bool]:
    """Which layers have experts: a list of layer numbers, or text of them with commas; absent: all from `first` on."""
    value = f.opt(key)
    if value is None:
        f.assumed[f.dotted(key)] = f"layers from {first} on"
        return [i >= first for i in range(n)]
    try:
        numbers = {int(part) for part in (value.split(",") if isinstance(value, str) else value) if str(part).strip()}
    except (TypeError, ValueError):
        raise f.fault(key, f"must be layer numbers (is {value!r:.60})") from None
    if numbers and not 0 <= min(numbers) <= max(numbers) < n + f.count("num_nextn_predict_layers"):
        raise f.fault(key, f"names a layer beyond the {n} there are")
    return [i in numbers for i in range(n)]


def step3(f: Fields, t: Decoder) -> Stack:
    """Step-3 text: queries pass a normed latent of share_q_dim; K and V are one head of head_dim."""
    n = f.dim("num_hidden_layers")
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), f.dim("head_dim"), q_lora_rank=f.dim("share_q_dim"))
    sparse = moe(f, Experts(shared="share_expert_dim"))
    dense = dense_of(f.dim("intermediate_size"))
    return model(f, [block([attention], [sparse if has else dense]) for has in listed(f, "moe_layers_enum", n, 1)])


def step3p5(f: Fields, t: Decoder) -> Stack:
    """Step-3.5 and 3.7: layer_types may go on for the draft modules; attention_other_setting has the heads of sliding layers."""
    n, drafts = f.dim("num_hidden_layers"), f.count("num_nextn_predict_layers")
    types = f.items("layer_types") or ["full_attention"] * n
    if len(types) not in (n, n + drafts):
        raise f.fault("layer_types", f"has {len(types)} entries for {n} layers and {drafts} draft modules")
    if any(kind not in KINDS for kind in types):
        raise f.fault("layer_types", "an attention this architecture does not have")
    gate = {"output_gate": "head"} if f.opt("use_head_wise_attn_gate") is not False else {}
    on: dict[str, Any] = {"qk_norm": "head", **gate} | (
        {"q_bias": True, "kv_bias": True, "o_bias": True} if f.flag("attention_bias") else {}
    )
    heads, kv, head = f.dim("num_attention_heads"), kv_heads(f), head_dim(f)
    full = softmax(heads, kv, head, **on)
    slides = full
    if any(KINDS[kind] == "sliding" for kind in types):
        narrow = _sliding_heads(f, kv, head)
        slides = softmax(*narrow, window=f.dim("sliding_window"), **on)
    routed = Experts(shared="share_expert_dim", bias="buffer", shared_bias="mlp_bias")
    sparse, extra = moe(f, routed), shared_biases(f, routed)
    dense = dense_of(f.dim("intermediate_size"), bias=bias(f, "mlp_bias"))
    has = f.items("mlp_layer_types", n)
    experts = [kind == "sparse" for kind in has] if has is not None else listed(f, "moe_layers_enum", n, 3)
    mixers = [slides if KINDS[kind] == "sliding" else full for kind in types]
    layers = [
        block([mixer], [sparse], 2, extra) if has_experts else block([mixer], [dense])
        for mixer, has_experts in zip(mixers[:n], experts, strict=True)
    ]
    drafted = block([mixers[n] if len(types) > n else full], [dense])
    return model(f, layers) | mtp.declared(f, "deepseek", drafted)


def _sliding_heads(f: Fields, kv: int, head: int) -> tuple[int, int, int]:
    """Heads, KV heads and head dim of sliding layers."""
    if f.opt("num_sliding_attention_heads") is not None:
        return f.dim("num_sliding_attention_heads"), kv, head
    if not isinstance(f.data.get("attention_other_setting"), dict):
        raise f.fault("attention_other_setting", "missing, and so is num_sliding_attention_heads: how many heads sliding layers have")
    other = f.part("attention_other_setting")
    return other.dim("num_attention_heads"), other.dim_or("num_attention_groups", kv), other.dim_or("head_dim", head)
