"""Which tensors of which layers a quantised checkpoint stores otherwise than most of their role: counted one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.importers.hf.module_names import Patterns, modules
from kvplan.importers.hf.weight_schemes import group_format, is_mlx, module_format, whole_format
from kvplan.packed import MATRICES, Formats
from kvplan.tensors import Lowered, WeightTensor

EXCLUSIONS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "exclude", "llm_int8_skip_modules", "skip_modules")


#: A key of AutoRound's that is a regular expression and no name (vLLM 0.33, layers/quantization/inc.py, REGEX_SPECIAL_CHARS).
_EXPRESSION = re.compile(r"[*+?^$()\[\]{}|\\]")


class Rules(NamedTuple):
    """left: patterns of what is not quantised. groups: pattern -> format, for what has its own. only: nothing else is quantised.

    rest: the format of all that no group names; None where nothing else is.
    """

    left: Patterns
    groups: Patterns
    rest: str | None


def rules(data: Mapping[str, Any], rest: str | None) -> Rules:
    """The patterns of one quantisation config, whose one format (for what no pattern names) is `rest`."""
    left: list[tuple[str, object]] = [(str(name), None) for key in EXCLUSIONS for name in _names(data.get(key))]
    groups: list[tuple[str, object]] = []
    for name, own in (data.get("extra_config") or {}).items() if isinstance(data.get("extra_config"), dict) else ():
        pattern = f"+:{name}" if _EXPRESSION.search(str(name)) else str(name)
        if isinstance(own, dict) and own.get("bits") == 16:  # AutoRound
            left.append((pattern, None))
        elif isinstance(own, dict) and "bits" in own:
            groups.append((pattern, whole_format({**data, **own})))
    for name, own in (data.get("layer_quant_config") or {}).items() if isinstance(data.get("layer_quant_config"), dict) else ():
        if isinstance(own, dict) and own.get("weight"):  # Quark
            groups.append((str(name), whole_format({**data, "global_quant_config": own})))
        elif isinstance(own, dict):
            left.append((str(name), None))
    for name, own in (data.get("dynamic") or {}).items() if isinstance(data.get("dynamic"), dict) else ():
        if str(name).startswith("-:"):  # GPTQModel
            left.append((str(name), None))
        elif isinstance(own, dict):
            groups.append((name if str(name).startswith("+:") else f"+:{name}", whole_format({**data, **own})))
    if is_mlx(data):
        for name, own in data.items():
            if own is False:
                left.append((name, None))
            elif isinstance(own, dict) and "bits" in own:
                groups.append((name, whole_format({**data, **own})))
    only = data.get("modules_in_block_to_quantize")
    if isinstance(only, list) and only:
        flat = [str(name) for group in only for name in (group if isinstance(group, list) else [group])]
        groups, rest = [*groups, *((name, rest) for name in flat)], None
    layers = data.get("quantized_layers")
    if isinstance(layers, dict) and layers:
        groups += [(str(name), module_format(own.get("quant_algo"))) for name, own in layers.items() if isinstance(own, dict)]
        rest = None
        if data.get("quant_method") == "fp8":  # ModelOpt over an FP8 release: what it left out is as that release has it
            left, rest = [], whole_format({**data, "quant_algo": None, "config_groups": None})
    else:
        listed, by_class = _config_groups(data)
        if listed:
            groups, rest = [*groups, *listed], by_class
    return Rules(Patterns(left), Patterns(groups), rest)


def _names(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) and value else []


def _config_groups(data: Mapping[str, Any]) -> tuple[list[tuple[str, object]], str | None]:
    """compressed-tensors' groups by target, and the format of the group that is for a class of modules."""
    groups = data.get("config_groups")
    listed: list[tuple[str, object]] = []
    by_class: str | None = None
    for group in groups.values() if isinstance(groups, dict) else ():
        made = group_format(group.get("weights"), group.get("format") or data.get("format")) if isinstance(group, dict) else None
        for target in _names(group.get("targets")) if isinstance(group, dict) else ():
            if re.fullmatch(r"[A-Z]\w*", str(target)):
                by_class = made
            else:
                listed.append((str(target), made))
    return listed, by_class


def assign(model: Lowered, made: Rules, whole: Mapping[str, str]) -> Formats:
    """(layer, place in it) -> format, for the tensors of the matrices' roles; None: not quantised.

    `whole`: role -> format where the config says that a role is in one of its own (experts in FP4).
    """
    found: Formats = {}
    places: dict[int, list[tuple[int, WeightTensor, tuple[str, ...]]]] = {}
    for i, layer in enumerate((*model.layers, *model.draft)):
        if id(layer) not in places:
            kinds = [cache.kind for cache in layer.caches]
            beside = [w.name for w in layer.weights].count("mlp_up") == 1
            matrices = [(at, w) for at, w in enumerate(layer.weights) if w.role in MATRICES and len(w.shape) > 1]
            places[id(layer)] = [(at, w, modules(w.name, w.role, kinds, beside=beside)) for at, w in matrices]
        for at, w, names in places[id(layer)]:
            draft = i >= len(model.layers)
            out, _ = made.left.find(i, names, draft=draft)
            inside, own = made.groups.find(i, names, draft=draft)
            found[i, at] = None if out else (str(own) if own else None) if inside else whole.get(w.role, made.rest)
    return found
