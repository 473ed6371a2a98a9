"""RWKV 4 (transformers), 5 and 6 (modeling_rwkv5.py and modeling_rwkv6.py of the RWKV checkpoints)."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.encoder_heads import norm
from kvplan.importers.hf.experts import dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import block, weight


def rwkv4(f: Fields, t: Decoder) -> Stack:
    """Time mix and channel mix, five vectors of state per layer."""
    n, hidden = f.dim("num_hidden_layers"), f.dim("hidden_size")
    inner, width = f.dim_or("attention_hidden_size", hidden), f.dim_or("intermediate_size", 4 * hidden)
    mixer: dict[str, Any] = {"kind": "rwkv", "state_vectors": 3}
    if inner != hidden:
        mixer["attention_size"] = inner
    extra = [weight(f"time_{x}", inner, role="state") for x in ("decay", "first")]
    extra += [weight(f"time_mix_{x}", hidden, role="state") for x in ("key", "value", "receptance", "ffn_key", "ffn_receptance")]
    extra.append(weight("ffn_receptance", hidden, hidden, role="mlp"))
    layers = [block([mixer], [dense_of(width, gated=False)], 2, extra)] * n
    return model(f, layers, norm="layer", weights=norm("pre_norm", hidden))


def _matrix_state(f: Fields) -> tuple[int, int, int, int, int]:
    """Layers, hidden size, heads, head size, and the channel mix's width (3.5 hidden sizes in whole 32s)."""
    n, hidden, size = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("head_size")
    inner = f.dim_or("attention_hidden_size", hidden)
    if inner != hidden or hidden % size:
        raise f.fault("attention_hidden_size", f"must be hidden_size ({hidden}) and a whole number of heads of {size}")
    return n, hidden, hidden // size, size, f.dim_or("intermediate_size", int(hidden * 3.5) // 32 * 32)


def rwkv5(f: Fields, t: Decoder) -> Stack:
    """Eagle: a matrix state per head, a gate beside receptance, key, value and output."""
    n, hidden, heads, size, width = _matrix_state(f)
    mixer = {"kind": "rwkv", "heads": heads, "head_dim": size, "projections": 5}
    extra = [weight(f"time_{x}", heads, size, role="state") for x in ("decay", "faaaa")]
    extra += [weight(f"time_mix_{x}", hidden, role="state") for x in ("key", "value", "receptance", "gate", "ffn_key", "ffn_receptance")]
    extra += [weight("ffn_receptance", hidden, hidden, role="mlp"), *norm("ln_x", hidden)]
    return model(f, [block([mixer], [dense_of(width, gated=False)], 2, extra)] * n, norm="layer", weights=norm("pre_norm", hidden))


def rwkv6(f: Fields, t: Decoder) -> Stack:
    """Finch: mixing and decay depend on the data through small low-rank maps (32 and 64 wide; 64 and 128 from hidden size 4096 on)."""
    n, hidden, heads, size, width = _matrix_state(f)
    mix, decay = (64, 128) if hidden >= 4096 else (32, 64)
    mixer = {"kind": "rwkv", "heads": heads, "head_dim": size, "projections": 5}
    extra = [weight("time_faaaa", heads, size, role="state"), weight("time_decay", hidden, role="state")]
    extra += [weight(f"time_maa_{x}", hidden, role="state") for x in ("x", "w", "k", "v", "r", "g", "ffn_k", "ffn_r")]
    extra += [weight("time_maa_w1", hidden, 5 * mix, role="state"), weight("time_maa_w2", 5, mix, hidden, role="state")]
    extra += [weight("time_decay_w1", hidden, decay, role="state"), weight("time_decay_w2", decay, hidden, role="state")]
    extra += [weight("ffn_receptance", hidden, hidden, role="mlp"), *norm("ln_x", hidden)]
    return model(f, [block([mixer], [dense_of(width, gated=False)], 2, extra)] * n, norm="layer", weights=norm("pre_norm", hidden))
