"""Attention of decoder layers from config keys: heads, head dim, biases, and which layers slide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvplan.importers.hf.classes import FULL, SLIDING, class_defaults, in_words
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Bias, Decoder

Mixer = dict[str, Any]

#: What configs write in layer_types for softmax attention -> does it slide, or attend in chunks.
KINDS = {"full_attention": "full", "global": "full", "global_attention": "full", "attention": "full", "sliding_attention": "sliding",
         "local": "sliding", "local_attention": "sliding", "chunked_attention": "chunked"}  # fmt: skip


def bias(f: Fields, value: Bias) -> bool:
    """Whether there is one; a class that has no such flag reads past it."""
    if not isinstance(value, str):
        return value
    return f.flag(value) if f.model_type not in class_defaults() or value in f.defaults else False


def head_dim(f: Fields) -> int:
    """head_dim where the config or the class states one, else hidden size / heads, which must come out even."""
    value = f.opt("head_dim")
    return f.whole(value, "head_dim", 1) if value is not None else f.divided("hidden_size", "num_attention_heads")


def kv_heads(f: Fields) -> int:
    """KV heads; a class whose default is null has as many as heads."""
    heads = f.dim("num_attention_heads")
    value = f.opt("num_key_value_heads")
    if value is None:
        names = f.names.get("num_key_value_heads", ("num_key_value_heads",))
        if any(name in f.defaults for name in names) and not any(name in f.data for name in names):
            f.assumed.setdefault(f.dotted(f.name_of("num_key_value_heads")), heads)
        return heads
    found = f.whole(value, "num_key_value_heads", 1)
    if heads % found:
        raise f.fault(f.name_of("num_key_value_heads"), f"{found} does not divide {f.name_of('num_attention_heads')} ({heads})")
    return found


def flags(f: Fields, t: Decoder) -> Mixer:
    """The optional parts of an attention layer, only those that are on."""
    norm = t.qk_norm if t.qk_norm_if is None or f.flag(t.qk_norm_if) else "none"
    norm = "full" if f.data.get("qk_norm_type") == "olmo" else norm  # Molmo 2 on OLMo
    on: Mixer = {
        "q_bias": bias(f, t.q_bias),
        "kv_bias": bias(f, t.kv_bias),
        "o_bias": bias(f, t.o_bias),
        "sinks": t.sinks,
        "qk_norm": norm != "none" and norm,
        "qk_norm_bias": norm != "none" and t.qk_norm_bias,
        "output_gate": t.output_gate != "none" and t.output_gate,
    }
    return {key: value for key, value in on.items() if value}


def softmax(heads: int, kv: int, dim: int, *, window: int | None = None, chunk: int | None = None, **more: Any) -> Mixer:
    """One attention mixer under the name its head counts give it."""
    if window is not None:
        return {"kind": "sliding", "heads": heads, "kv_heads": kv, "head_dim": dim, "window": window, **more}
    if chunk is not None:
        return {"kind": "chunked", "heads": heads, "kv_heads": kv, "head_dim": dim, "chunk": chunk, **more}
    if kv == heads:
        return {"kind": "mha", "heads": heads, "head_dim": dim, **more}
    if kv == 1:
        return {"kind": "mqa", "heads": heads, "head_dim": dim, **more}
    return {"kind": "gqa", "heads": heads, "kv_heads": kv, "head_dim": dim, **more}


def _qwen(f: Fields, n: int) -> list[bool]:
    """Only with use_sliding_window, and from layer max_window_layers on."""
    if not f.flag("use_sliding_window"):
        return [False] * n
    first = f.count("max_window_layers")
    return [i >= first for i in range(n)]


def _pattern(f: Fields, n: int) -> list[bool]:
    """Every `sliding_window_pattern`-th layer is global; EXAONE writes the pattern out (`LLLG`)."""
    pattern = f.opt("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and set(pattern) <= set("LG"):
        return [pattern[i % len(pattern)] == "L" and i != n - 1 for i in range(n)]
    if pattern is None:
        return [False] * n
    every = f.whole(pattern, "sliding_window_pattern", 1)
    return [(i + 1) % every != 0 for i in range(n)]


def _flint(f: Fields, n: int) -> list[bool]:
    """Flint: the first two layers, every fourth from the second on, and the last are full."""
    return [not (i < 2 or i % 4 == 1 or i == n - 1) for i in range(n)]


def _gpt_neo(f: Fields, n: int) -> list[bool]:
    """`attention_layers` spelled out, or `attention_types` as [[kinds, times], ...]."""
    layers = f.items("attention_layers")
    if layers is None:
        layers = []
        for entry in f.items("attention_types") or []:
            if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)):
                raise f.fault("attention_types", "is a list of [kinds, times]")
            layers += entry[0] * f.whole(entry[1], "attention_types")
    if len(layers) != n or set(layers) - {"global", "local"}:
        raise f.fault("attention_types", f"must name global or local for each of {n} layers")
    return [kind == "local" for kind in layers]


WINDOWS: dict[str, Callable[[Fields, int], list[bool]]] = {
    "qwen": _qwen, "pattern": _pattern,
    "gpt_neo": _gpt_neo, "flint": _flint,
    "none": lambda f, n: [False] * n,
    "every": lambda f, n: [True] * n,
    "alternate": lambda f, n: [i % 2 == 0 for i in range(n)],
    "flagged": lambda f, n: [f.flag("use_sliding_window")] * n,
    "first_global": lambda f, n: [i % 4 != 0 for i in range(n)],  # Granite: one global layer, then three sliding ones
}  # fmt: skip


def windows(f: Fields, t: Decoder, n: int) -> list[str]:
    """`full`, `sliding` or `chunked` for each layer: layer_types where the config has them, else the rule of the class."""
    types = f.items("layer_types", n) if "layer_types" in f.data else None
    if types is not None:
        unknown = [kind for kind in types if kind not in KINDS]
        if unknown:
            raise f.fault("layer_types", f"{str(unknown[0])[:40]!r} is not an attention this architecture has")
        kinds = [KINDS[kind] for kind in types]
        pattern = f.data.get("sliding_window_pattern")
        if isinstance(pattern, int) and pattern > 0 and [(i + 1) % pattern != 0 for i in range(n)] != [k == "sliding" for k in kinds]:
            raise f.fault("sliding_window_pattern", f"{pattern} contradicts layer_types; take one of them out")
        if t.windows == "none" and "sliding" in kinds and f.opt("sliding_window") is None:
            raise f.fault("sliding_window", "missing; layer_types has sliding layers")
        return kinds
    if t.windows == "none" or f.opt("sliding_window") is None:
        if t.windows == "qwen" and f.flag("use_sliding_window"):
            raise f.fault("sliding_window", "missing; use_sliding_window is true")
        return ["full"] * n
    slides = WINDOWS[t.windows](f, n)
    if t.windows in ("alternate", "first_global", "flint"):  # rules of the class that no key moves
        f.assumed[f.dotted("layer_types")] = in_words([SLIDING if on else FULL for on in slides])
    return ["sliding" if on else "full" for on in slides]


def mixer(f: Fields, t: Decoder, kind: str) -> Mixer:
    """The attention of one layer of that kind."""
    size: dict[str, int] = {}
    if kind == "sliding":
        size["window"] = f.dim("sliding_window")
    elif kind == "chunked":
        size["chunk"] = f.dim("attention_chunk_size")
    return softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **size, **flags(f, t))
