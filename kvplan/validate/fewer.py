"""A smaller config of the same model: full width, fewer layers, at least one of every kind. Both sides then read the same config."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers")
#: keys that give a repeating order of kinds, or where the first layers differ: enough layers are kept to see every kind
_PERIODS = ("sliding_window_pattern", "full_attention_interval", "attn_layer_period", "expert_layer_period", "attention_period")
_STARTS = ("first_k_dense_replace", "attn_layer_offset", "expert_layer_offset", "max_window_layers")
_TEXT = ("text_config", "llm_config", "language_config")


def n_layers(config: dict[str, Any]) -> int:
    """Layers of the text model; 0 where the config does not say."""
    text = _text(config)
    return next((text[key] for key in _COUNTS if isinstance(text.get(key), int)), 0)


def fewer(config: dict[str, Any], n: int) -> dict[str, Any]:
    """The config with about `n` layers: the first n of each kind where the config lists kinds, else the first n that show every kind."""
    made = deepcopy(config)
    text, every = _text(made), n_layers(config)
    lists = {key: v for key, v in text.items() if isinstance(v, list) and len(v) == every and every > 1}
    kinds = [tuple(str(v[i]) for v in lists.values() if isinstance(v[0], str | int)) for i in range(every)]
    if any(len(set(map(str, v))) > 1 for v in lists.values()):
        taken: dict[tuple[str, ...], int] = {}
        keep = []
        for i, kind in enumerate(kinds):
            taken[kind] = taken.get(kind, 0) + 1
            if taken[kind] <= n:
                keep.append(i)
    else:
        period = max((text[key] for key in _PERIODS if isinstance(text.get(key), int)), default=1)
        first = max((text[key] + 1 for key in _STARTS if isinstance(text.get(key), int)), default=1)
        keep = list(range(min(every, max(n, first, period))))
    for key, values in lists.items():
        text[key] = [values[i] for i in keep]
    for key in _COUNTS:
        if isinstance(text.get(key), int):
            text[key] = len(keep)
    return made


def _text(config: dict[str, Any]) -> dict[str, Any]:
    for key in _TEXT:
        if isinstance(config.get(key), dict):
            inner: dict[str, Any] = config[key]
            return inner
    return config
