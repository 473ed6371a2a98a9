"""transformers' configuration classes as tables: their defaults, their nested parts, and a config read beside them.

The tables are written by tools/class_defaults.py from transformers 5.24.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
Made = dict[str, Any]


def in_words(kinds: Sequence[Any]) -> str:
    """The kind of each layer as runs, a period once: `5 sliding_attention, 1 full_attention, in turn over 26 layers`."""
    if any(isinstance(kind, int) for kind in kinds):  # numbers of layers, or a flag for each
        return json.dumps(kinds)[:200]
    period = next(p for p in range(1, len(kinds) + 1) if all(kind == kinds[i % p] for i, kind in enumerate(kinds))) if kinds else 0
    if period == 1:
        return f"{kinds[0]} in all {len(kinds)} layers"
    runs = ", ".join(f"{len(list(run))} {kind}" for kind, run in groupby(kinds[:period]))
    return runs[:400] + (f", in turn over {len(kinds)} layers" if period < len(kinds) else "")


@cache
def table(name: str) -> dict[str, Any]:
    """One of the tables that tools/class_defaults.py writes."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return loaded


def class_defaults() -> dict[str, dict[str, Any]]:
    """Model type -> the defaults of its configuration class."""
    return table("class_defaults.json")


def class_part(model_type: str, key: str) -> tuple[str, bool, bool, dict[str, Any]] | None:
    """A nested config: its model type, whether the file may choose another, whether it may be absent, what it is where absent."""
    found = table("class_parts.json").get(model_type, {}).get(key)
    return tuple(found) if found else None


#: Lists that say the kind of each layer, and the keys from which classes make them: of attention, and of experts.
_ATTENTION = frozenset((
    "compress_ratios", "cross_attention_layers", "full_attention_interval", "full_attn_idxs", "global_attn_every_n_layers",
    "layer_group_size", "linear_attn_config", "local_layer_ids", "max_window_layers", "no_rope_layer_interval", "no_rope_layers",
    "prefix_dense_sliding_window_pattern", "sliding_window_pattern", "sparse_attention_config", "use_sliding_window",
))  # fmt: skip
_EXPERTS = frozenset(("dense_mlp_idx", "first_k_dense_replace", "interleave_moe_layer_step", "moe_layer_freq", "num_hash_layers"))
_LISTS = {"layer_types": _ATTENTION, "layers_block_type": _ATTENTION, "cross_attention_layers": _ATTENTION,
          "mlp_layer_types": _EXPERTS, "moe_layers": _EXPERTS}  # fmt: skip


class Read:
    """Keys of the file, else class defaults; `asked` holds the keys that were looked up and what was taken."""

    def __init__(self, data: Mapping[str, Any], model_type: str) -> None:
        self.data, self.model_type, self.defaults = data, model_type, class_defaults().get(model_type, {})
        self.asked: dict[str, Any] = {}

    def __call__(self, key: str, otherwise: Any = None) -> Any:
        """The value, or the class default; `otherwise` where the class has no such key and the file neither."""
        self.asked[key] = self.data[key] if key in self.data else self.defaults.get(key, otherwise)
        return self.asked[key]

    def taken(self, made: Made) -> dict[str, str]:
        """The lists of layers in `made` that rest on defaults of the class and not on what the file says, each in words."""
        found = {}
        for key, kinds in made.items():
            if key not in _LISTS or self.data.get(key) is not None or not isinstance(kinds, list):
                continue
            keys = sorted(self.asked.keys() & _LISTS[key])
            rest = {k: self.asked[k] for k in keys if k not in self.data and isinstance(self.asked[k], int | str | list)}
            if not any(self.data.get(k) is not None for k in keys) or (rest and len(set(map(str, kinds))) > 1):
                because = ", ".join(f"{k} = {json.dumps(value)[:60]}" for k, value in rest.items())
                found[key] = in_words(kinds) + (f" ({because})" if because else "")
        return found

    def layers(self, kind: Callable[[int, int], str], key: str = "layer_types") -> Made:
        """`key` by a rule of layer number and number of layers, where the file has none."""
        n = self("num_hidden_layers")
        if self(key) is not None or not isinstance(n, int) or isinstance(n, bool) or not 0 < n < 4096:
            return {}
        return {key: [kind(i, n) for i in range(n)]}

    def every(self, period: Any, other: str = SLIDING) -> Made:
        """Every `period`-th layer full."""
        if not isinstance(period, int) or isinstance(period, bool) or period < 1:
            return {}
        return self.layers(lambda i, n: other if (i + 1) % period else FULL)

    def first_dense(self, dense: Any, step: Any = 1) -> Made:
        """mlp_layer_types: dense first, then experts (every `step`-th layer)."""
        if not isinstance(dense, int) or not isinstance(step, int) or step < 1:
            return {}
        return self.layers(lambda i, n: "sparse" if i >= dense and i % step == 0 else "dense", "mlp_layer_types")

    def split(self, key: str = "head_dim") -> Made:
        """hidden size / heads: whatever the file says of a declared field, else where it says nothing."""
        if key not in self.defaults and self.data.get(key) is not None:
            return {}
        hidden, heads = self("hidden_size"), self("num_attention_heads")
        return {key: hidden // heads} if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 else {}
