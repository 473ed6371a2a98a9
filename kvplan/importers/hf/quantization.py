"""quantization_config -> the spec's weight formats by role, and the cache format that a checkpoint pins.

A role (attention, mlp, experts, shared_experts, head) counts as quantised when most of its modules are; what deviates is said in notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.weight_schemes import group_format, is_mlx, module_format, packs_weights, whole_format

MATRICES = ("attention", "mlp", "experts", "shared_experts")
_EXCLUSIONS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "exclude", "llm_int8_skip_modules", "skip_modules")
_CACHES = {"FP8": "fp8_e4m3", "NVFP4": "nvfp4", "INT8": "int8"}
#: Where a module name belongs; the first that matches. None: nothing that a role counts.
_PLACES: tuple[tuple[str, str | None], ...] = (
    (r"norm|correction_bias|indexer|rotary|conv1d|\bmtp\b|nextn|eh_proj", None),
    (r"vision|visual|audio|multi_modal|mm_proj|patch_embed|projector", "tower"),
    (r"lm_head|(^|\.)head$|output_layer", "head"), (r"embed|wte", "embedding"), (r"shared_?expert_gate|(^|\.)gate$|router", "router"),
    (r"shared_?(expert|mlp)", "shared_experts"), (r"experts", "experts"), (r"attn|attention|mamba|mixer\b|kv_b_proj|kv_a_proj",
        "attention"),
    (r"mlp|feed_forward|ffn", "mlp"),
)  # fmt: skip


def read_quantization(f: Fields) -> tuple[dict[str, Any], list[str]]:
    """`quantization` and `kv_dtype` of the spec, and notes. Raises SpecError where the block is no mapping."""
    config = _block(f)
    if config is None:
        return {}, []
    part = Fields(config, f.source, path=f.dotted("quantization_config"))
    notes: list[str] = []
    formats = _mixed(part) or _uniform(part, f, notes)
    dropped = _excluded(part, notes)
    if formats and not _mixed(part):
        formats = {role: name for role, name in formats.items() if role not in dropped}
    made: dict[str, Any] = {}
    by_format: dict[str, list[str]] = {}
    for role, name in formats.items():
        by_format.setdefault(name, []).append(role)
    if by_format:
        made["quantization"] = [{"format": name, "roles": roles} for name, roles in by_format.items()]
    cache = _cache(part, notes)
    if cache:
        made["kv_dtype"] = cache
    return made, notes


def _block(f: Fields) -> dict[str, Any] | None:
    for data in (f.data, *(f.data[key] for key in ("text_config", "llm_config", "language_config") if isinstance(f.data.get(key), dict))):
        for key in ("quantization_config", "compression_config"):
            found = data.get(key)
            if isinstance(found, dict) and found:
                return found
            if found not in (None, {}):
                raise f.fault(key, "must be a mapping")
        if is_mlx(own := data.get("quantization")):
            return dict(own)
    return None


def _uniform(q: Fields, f: Fields, notes: list[str]) -> dict[str, str]:
    """One format for all matrices; DeepSeek-V4's experts may be in another."""
    if not packs_weights(q.data):
        return {}
    name = _format(q, notes)
    if name == "mxfp4" and q.data.get("quant_method") == "mxfp4":
        return {"experts": name}
    if is_mlx(q.data):
        return dict.fromkeys((*MATRICES, "router", "embedding", "head"), name)
    formats = dict.fromkeys(MATRICES, name)
    only = q.data.get("modules_in_block_to_quantize")
    if isinstance(only, list) and only:
        listed = {place(str(module)) for group in only for module in (group if isinstance(group, list) else [group])}
        formats = {role: name for role in MATRICES if role in listed}
    if q.data.get("dynamic"):
        notes.append("some modules are quantised in another way (`dynamic`); they are counted like the rest")
    if str(f.data.get("expert_dtype") or q.data.get("expert_dtype")) == "fp4":
        formats["experts"] = "mxfp4"
    if q.data.get("lm_head") is True:
        formats["head"] = name
    return formats


def _format(q: Fields, notes: list[str]) -> str:
    """The format of the whole checkpoint; one that nothing here has counts as 16 bits, which the ledger shows as an upper end."""
    found = whole_format(q.data)
    if found is None:
        method = str(q.data.get("quant_method") or q.data.get("quant_algo") or "unnamed")
        notes.append(f"checkpoint quantisation {method[:60]!r} is not modelled: its weights are counted as 16 bits, and take less")
    return found or "unknown"


def _mixed(q: Fields) -> dict[str, str]:
    """Formats by role where the checkpoint lists them by module: `quantized_layers`, or config_groups with module targets."""
    listed: list[tuple[str, str | None]] = []
    layers = q.data.get("quantized_layers")
    groups = q.data.get("config_groups")
    if isinstance(layers, dict) and layers:
        listed = [(name, module_format(v.get("quant_algo"))) for name, v in layers.items() if isinstance(v, dict)]
    elif isinstance(groups, dict) and len(groups) > 1:
        for group in groups.values():
            targets = group.get("targets") if isinstance(group, dict) else None
            listed += [(str(t), group_format(group.get("weights"), q.data.get("format"))) for t in targets or []]
    counted: dict[str, Counter[str]] = {}
    rest: str | None = None
    for module, name in listed:
        role = place(module)
        if re.fullmatch(r"[A-Z]\w*", module):  # a class: all modules that no other group names
            rest = name
        elif role in (*MATRICES, "head") and name:
            counted.setdefault(str(role), Counter())[name] += 1
    formats = {role: names.most_common(1)[0][0] for role, names in counted.items()}
    if formats and q.data.get("quant_method") == "fp8" and "attention" not in formats:
        rest = whole_format({**q.data, "quant_algo": None, "config_groups": None})
    return formats | {role: rest for role in MATRICES if formats and rest and role not in formats}


def place(module: str) -> str | None:
    """The role that a module name or pattern speaks of."""
    name = re.sub(r"^re:", "", module).replace("\\.", ".").strip("^$*.")
    return next((role for pattern, role in _PLACES if re.search(pattern, name)), "other" if name else None)


def _excluded(q: Fields, notes: list[str]) -> set[str]:
    """The roles that are left as they are, with a note for what is only partly so."""
    names: Iterable[Any] = next((q.data[key] for key in _EXCLUSIONS if q.data.get(key)), ())
    if isinstance(extra := q.data.get("extra_config"), dict):  # AutoRound: bits of single modules
        names = [*names, *(name for name, own in extra.items() if isinstance(own, dict) and own.get("bits") == 16)]
    if not isinstance(names, list):
        return set()
    by_role: dict[str, set[str]] = {}
    layers: dict[str, set[str]] = {}
    whole: set[str] = set()
    for name in (str(n) for n in names):
        number = re.search(r"\.(\d+)(?=[.*]|$)", name)
        role = place(re.sub(r"\.\d+(?=[.*]|$)", ".N", name))
        if re.search(r"\bmtp\b|nextn", name):
            continue
        if number is not None and re.fullmatch(r".*\.\d+\.?\*?", name):
            whole.add(number[1])
            continue
        if role not in MATRICES:
            continue
        by_role.setdefault(str(role), set()).add(re.sub(r".*\.\d+\.", "", name))
        layers.setdefault(str(role), set()).add(number[1] if number else "*")
    dropped = {role for role in by_role if "*" in layers[role] or len(layers[role]) > 4}
    for role in sorted(by_role.keys() - dropped):
        notes.append(f"{role} of {len(layers[role])} layers is not quantised; it is counted as if it were")
    if whole:
        notes.append(f"{len(whole)} whole layers are not quantised; they are counted as if they were")
    partial = [role for role in dropped if role == "attention" and not _covers(by_role[role])]
    for role in partial:
        notes.append(f"only part of {role} is not quantised ({', '.join(sorted(by_role[role]))[:200]}); it is counted as quantised")
    return dropped - set(partial)


def _covers(names: set[str]) -> bool:
    """Whether these exclusions leave out an attention layer as a whole: all of it, or its output and its input projections."""
    text = " ".join(names)
    if any(re.search(r"(attn|attention|mixer|mamba)\W*$", name) for name in names):
        return True
    return bool(re.search(r"(o_proj|out_proj|o_b_proj)", text) and re.search(r"(q_proj|qkv|q_a_proj|q_b_proj|in_proj)", text))


def _cache(q: Fields, notes: list[str]) -> str | None:
    """The cache format the checkpoint pins."""
    scheme = q.data.get("kv_cache_scheme")
    algorithm = q.data.get("kv_cache_quant_algo") or (scheme if isinstance(scheme, str) else None)
    if isinstance(algorithm, str) and algorithm.lower() not in ("none", "auto"):
        if algorithm.upper() in _CACHES:
            return _CACHES[algorithm.upper()]
        notes.append(f"cache format {algorithm[:40]!r} of the checkpoint is not modelled: auto means the compute type")
    if isinstance(scheme, dict):
        return {"8 float": "fp8_e4m3", "4 float": "nvfp4", "8 int": "int8"}.get(f"{scheme.get('num_bits')} {scheme.get('type')}")
    return None
