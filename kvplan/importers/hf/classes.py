"""transformers' configuration classes as tables: their defaults, their nested parts, and a config read beside them.

The tables are written by tools/class_defaults.py from transformers 5.24.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
Made = dict[str, Any]


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


class Read:
    """Keys of the file, else class defaults."""

    def __init__(self, data: Mapping[str, Any], model_type: str) -> None:
        self.data, self.model_type, self.defaults = data, model_type, class_defaults().get(model_type, {})

    def __call__(self, key: str, otherwise: Any = None) -> Any:
        """The value, or the class default; `otherwise` where the class has no such key and the file neither."""
        if key in self.data:
            return self.data[key]
        return self.defaults.get(key, otherwise)

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
