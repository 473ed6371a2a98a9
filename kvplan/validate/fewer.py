"""A smaller config of the same model: full width, fewer layers, at least one of every kind. Both sides then read the same config."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import import_config
from kvplan.spec import lower, parse_spec
from kvplan.tensors import CacheFormats, Layer

Config = dict[str, Any]

_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers", "encoder_layers")
#: an entry for each layer, where no count is given
_LISTS = ("layers_block_type", "layer_types", "hybrid_override_pattern")
#: how many of the first, or of the last, layers are different
_FIRST = ("first_k_dense_replace", "num_hash_layers", "num_dense_layers")
_LAST = ("num_kv_shared_layers",)
#: numbers of the layers that are different, counted from 0 or from 1
_NUMBERS = {
    "cross_attention_layers": 0, "mlp_only_layers": 0, "full_attn_idxs": 0, "attn_layer_indices": 0, "kda_layers": 1, "full_attn_layers": 1,
}  # fmt: skip
_WITH_DRAFTS = ("compress_ratios",)
_NESTED = ("linear_attn_config",)
_TEXT = ("text_config", "llm_config", "language_config", "decoder")


def n_layers(config: Config) -> int:
    """Layers of the text model; 0 where the config does not say."""
    text = _text(config)
    count = next((text[key] for key in _COUNTS if _is_count(text.get(key))), 0)
    return count or next((len(text[key]) for key in _LISTS if isinstance(text.get(key), list | str)), 0)


def fewer(config: Config, n: int) -> Config:
    """The config with n layers of each kind that it lists; where it has kinds by other rules, its first layers, until all have been seen.

    An encoder of a text model gets as many. The whole config comes back where nothing smaller has all its kinds.
    """
    every, whole = n_layers(config), _kinds(config)
    listed = _kept(_text(config), every, n)
    for keep in (listed, *(list(range(count)) for count in range(n, every))):
        made = _with(config, keep, every)
        if _kinds(made) == whole:
            return made
    return config


def _kinds(config: Config) -> set[Layer] | None:
    """The kinds of layers of a config: what they keep and what weights they have. None for a config that can not be read."""
    try:
        return set(lower(parse_spec(import_config(config, "config"), "config"), CacheFormats("bf16", "bf16", "bf16", "bf16")).layers)
    except KvplanError:
        return None


def _with(config: Config, keep: list[int], every: int) -> Config:
    """The config with those of its layers that are kept."""
    made = deepcopy(config)
    stacks = [_text(made)]
    if stacks[0] is not made and isinstance(made.get("encoder"), dict):
        stacks.append(made["encoder"])
    for text in stacks:
        for part in (text, *(text[key] for key in _NESTED if isinstance(text.get(key), dict))):
            for key, value in part.items():
                part[key] = _shorter(key, value, keep, every)
        for key in _COUNTS:
            if _is_count(text.get(key)):
                text[key] = min(text[key], len(keep))
    return made


def _kept(text: Config, every: int, n: int) -> list[int]:
    """The first n layers of each kind, as far as the config lists kinds."""
    kinds: list[tuple[str, ...]] = [() for _ in range(every)]
    for part in (text, *(text[key] for key in _NESTED if isinstance(text.get(key), dict))):
        for key, value in part.items():
            kinds = [(*kind, mark) for kind, mark in zip(kinds, _marks(key, value, every), strict=True)]
    return [i for i, kind in enumerate(kinds) if kinds[:i].count(kind) < n]


def _marks(key: str, value: Any, every: int) -> list[str]:
    """What a key says of each layer: equal texts, equal kinds."""
    if _each(key, value, every):
        return [str(one) for one in value[:every]]
    if key in _NUMBERS and isinstance(value, list):
        return [str(i + _NUMBERS[key] in value) for i in range(every)]
    if key in _FIRST and _is_count(value):
        return [str(i < value) for i in range(every)]
    if key in _LAST and _is_count(value):
        return [str(i >= every - value) for i in range(every)]
    return [""] * every


def _shorter(key: str, value: Any, keep: list[int], every: int) -> Any:
    if _each(key, value, every):
        kept = [value[i] for i in keep]
        return "".join(kept) if isinstance(value, str) else kept + value[every:]
    if key in _NUMBERS and isinstance(value, list):
        base = _NUMBERS[key]
        return [new + base for new, old in enumerate(keep) if old + base in value]
    if key in _FIRST and _is_count(value):
        return sum(i < value for i in keep)
    if key in _LAST and _is_count(value):
        return sum(i >= every - value for i in keep)
    return value


def _each(key: str, value: Any, every: int) -> bool:
    """Whether a value has an entry for each layer: a list (where drafts count, they come last), or a pattern of one letter a layer."""
    if isinstance(value, str):
        return "pattern" in key and len(value) == every
    if not isinstance(value, list) or every < 2 or "token" in key or not all(isinstance(one, str | int | float | dict) for one in value):
        return False
    return len(value) == every or (key in _WITH_DRAFTS and len(value) > every)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _text(config: Config) -> Config:
    for key in _TEXT:
        if isinstance(config.get(key), dict):
            inner: Config = config[key]
            return inner
    return config
