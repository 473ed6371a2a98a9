"""Feed-forward layers from config keys: dense ones, experts, and which layers have experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.importers.hf.attention import bias
from kvplan.importers.hf.classes import class_defaults
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import weight

Mlp = dict[str, Any]


def _sparse_step(f: Fields, n: int) -> list[bool]:
    """Every decoder_sparse_step-th layer, but for mlp_only_layers."""
    dense, step = f.items("mlp_only_layers") or [], f.dim_or("decoder_sparse_step", 1)
    return [i not in dense and (i + 1) % step == 0 for i in range(n)]


def _first_dense(f: Fields, n: int) -> list[bool]:
    """After the first first_k_dense_replace layers, every moe_layer_freq-th (or a list of 0 and 1)."""
    first = f.count("first_k_dense_replace")
    freq = None if f.model_type in class_defaults() else f.opt("moe_layer_freq")  # of remote code: transformers reads past it
    if isinstance(freq, list):
        if len(freq) != n:
            raise f.fault("moe_layer_freq", f"has {len(freq)} entries for {n} layers")
        return [bool(flag) for flag in freq]
    step = 1 if freq is None else f.whole(freq, "moe_layer_freq", 1)
    return [i >= first and i % step == 0 for i in range(n)]


def _interleave(f: Fields, n: int) -> list[bool]:
    """Llama 4: moe_layers where listed, else every interleave_moe_layer_step-th."""
    listed = f.items("moe_layers")
    if listed is not None:
        return [i in listed for i in range(n)]
    step = f.count("interleave_moe_layer_step")
    return [bool(step) and (i + 1) % step == 0 for i in range(n)]


def _numbers(f: Fields, value: Any, key: str) -> list[int]:
    """A whole number or a list of them (text and image experts)."""
    return [f.whole(v, key) for v in value] if isinstance(value, list) and value else [f.whole(value, key)]


def _range(f: Fields, n: int) -> list[bool]:
    """ERNIE: from moe_layer_start_index to moe_layer_end_index (-1: the last), every moe_layer_interval-th."""
    start, last, step = f.opt("moe_layer_start_index"), f.opt("moe_layer_end_index"), f.dim_or("moe_layer_interval", 1)
    start = min(_numbers(f, start or 0, "moe_layer_start_index"))
    last = max(_numbers(f, last, "moe_layer_end_index")) if isinstance(last, list) else last
    end = n - 1 if last in (None, -1) else f.whole(last, "moe_layer_end_index")
    return [(i + 1) % step == 0 and start <= i <= end for i in range(n)]


def _period(f: Fields, n: int) -> list[bool]:
    """Jamba: every expert_layer_period-th from expert_layer_offset on, where there is more than one expert."""
    period, offset, several = f.dim("expert_layer_period"), f.count("expert_layer_offset"), f.dim("num_experts") > 1
    return [several and i % period == offset for i in range(n)]


def _dense_count(f: Fields, n: int) -> list[bool]:
    dense = f.count("num_dense_layers")
    return [i >= dense for i in range(n)]


WHERE: dict[str, Callable[[Fields, int], list[bool]]] = {
    "sparse_step": _sparse_step, "first_dense": _first_dense, "interleave": _interleave, "range": _range,
    "period": _period, "dense_count": _dense_count,
    "all": lambda f, n: [True] * n,
}  # fmt: skip


def where(f: Fields, e: Experts | None, n: int) -> list[bool]:
    """Which layers have experts: mlp_layer_types where the config has them, else the rule of the class."""
    if e is None or not f.count(e.n):
        return [False] * n
    types = f.items("mlp_layer_types", n) if "mlp_layer_types" in f.data else None
    if types is not None:
        return [kind not in ("dense", "mlp") for kind in types]
    return WHERE[e.where](f, n)


def first_width(f: Fields, key: str) -> int:
    """A width, the first of a list of equal ones where the config writes one per expert group."""
    value = f.raw(key)
    if isinstance(value, list):
        if not value or any(v != value[0] for v in value):
            raise f.fault(key, "widths that differ from one expert to the next are not modelled")
        value = value[0]
    return f.whole(value, key, 1)


def moe(f: Fields, e: Experts) -> Mlp:
    """One mixture-of-experts layer."""
    width = first_width(f, e.width)
    made: Mlp = {"kind": "moe", "experts": f.dim(e.n), "experts_per_token": f.dim(e.top_k), "intermediate_size": width}
    if made["experts_per_token"] > made["experts"]:
        raise f.fault(f.name_of(e.top_k), f"{made['experts_per_token']} of {made['experts']} experts")
    shared = f.count(e.shared) if e.shared else 0
    if e.shared_count:
        shared = f.count(e.shared_count) * (shared or width)
    on = {
        "gated": not e.gated and "no",
        "bias": bias(f, e.weight_bias),
        "shared_intermediate_size": shared,
        "shared_gate": bool(e.shared_gate and shared),
        "router_linear_bias": e.bias == "linear",
        "router_bias": e.bias == "buffer",
    }
    made |= {key: value for key, value in on.items() if value}
    if "gated" in made:
        made["gated"] = False
    return made


def shared_biases(f: Fields, e: Experts | None) -> list[dict[str, Any]]:
    """Biases of a shared network beside experts that have none.

    Of no width it still has its last bias: classes with `mlp_bias` always build it, Ernie (`use_bias`) only where it counts one.
    """
    if not e or not bias(f, e.shared_bias):
        return []
    width = moe(f, e).get("shared_intermediate_size", 0)
    up = [weight("shared_up_bias", 2 * width, role="norm")] if width else []
    down = [weight("shared_down_bias", f.dim("hidden_size"), role="norm")] if width or e.shared_bias == "mlp_bias" else []
    return up + down


def dense(f: Fields, t: Decoder) -> Mlp:
    """One dense feed-forward layer."""
    hidden = f.dim("hidden_size")
    if t.mlp_width == "4x":
        width = 4 * hidden
    elif t.mlp_width == "multiple":
        width = f.dim("intermediate_multiple_size") * hidden
    elif t.mlp_width == "as_or_4x":
        width = f.dim_or("intermediate_size", 4 * hidden)
    elif t.mlp_width == "prefix":
        width = f.dim_or("prefix_dense_intermediate_size", f.dim("intermediate_size"))
    else:
        width = f.dim("intermediate_size") // (2 if t.mlp_width == "half" else 1)
    return dense_of(width, gated=t.gated, bias=bias(f, t.mlp_bias))


def dense_of(width: int, *, gated: bool = True, bias: bool = False) -> Mlp:
    made: Mlp = {"kind": "dense", "intermediate_size": width}
    if not gated:
        made["gated"] = False
    return made | ({"bias": True} if bias else {})
