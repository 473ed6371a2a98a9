"""quantization_config -> the spec's weight formats by role, and the cache format that a checkpoint pins.

A role (attention, mlp, experts, shared_experts, head) counts as quantised when most of its modules are; what deviates is said in notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvplan.dtypes import WEIGHT_FORMATS
from kvplan.importers.hf.fields import Fields

MATRICES = ("attention", "mlp", "experts", "shared_experts")
_METHODS = {"modelopt_fp4": "nvfp4", "fbgemm_fp8": "fp8_channel", "ptpc_fp8": "fp8_channel", "experts_int8": "int8_channel"}
#: ModelOpt's quant_algo -> format.
_ALGORITHMS = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8_channel", "FP8_PB_WO": "fp8_block128", "FP8_BLOCK_SCALES": "fp8_block128",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "W4A16_AWQ": "int4_g128", "W4A8_AWQ": "int4_g128",
    "INT4_AWQ": "int4_g128",
    "MXFP8": "mxfp8", "W4A8_MXFP4_FP8": "mxfp4", "W8A8_SQ_PER_CHANNEL": "int8_channel", "W8A16": "int8_channel",
}  # fmt: skip
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
    return None


def _uniform(q: Fields, f: Fields, notes: list[str]) -> dict[str, str]:
    """One format for all matrices; DeepSeek-V4's experts may be in another."""
    name = _format(q, notes)
    if name is None:
        return {}
    if name == "mxfp4" and q.data.get("quant_method") == "mxfp4":
        return {"experts": name}
    formats = dict.fromkeys(MATRICES, name)
    if str(f.data.get("expert_dtype") or q.data.get("expert_dtype")) == "fp4":
        formats["experts"] = "mxfp4"
    if q.data.get("lm_head") is True:
        formats["head"] = name
    return formats


def _format(q: Fields, notes: list[str]) -> str | None:
    """The format of the whole checkpoint by its method."""
    data = q.data
    method = str(data.get("quant_method") or "").lower()
    algorithm = str(data.get("quant_algo") or "").upper()
    found: str | None = None
    if algorithm and algorithm in _ALGORITHMS:
        found = _ALGORITHMS[algorithm]
    elif isinstance(data.get("config_groups"), dict) and data["config_groups"]:
        groups = {_group_format(g.get("weights")) for g in data["config_groups"].values() if isinstance(g, dict)}
        found = groups.pop() if len(groups) == 1 else None
    elif method == "fp8":
        found = _fp8(data.get("weight_block_size"))
    elif method in ("gptq", "auto-round", "auto_round", "awq", "autoawq", "gptq_marlin", "awq_marlin"):
        found = _grouped("awq" if "awq" in method else "gptq", data.get("bits", 4), data.get("group_size", 128))
    elif method == "bitsandbytes":
        found = "nf4" if data.get("load_in_4bit") or data.get("_load_in_4bit") else "int8"
    elif method in WEIGHT_FORMATS:
        found = method
    else:
        found = _METHODS.get(method)
    if found is None:
        notes.append(
            f"checkpoint quantisation {method or algorithm or 'unnamed'!r} is not modelled: weights are counted in the compute type"
        )
    return found


def _fp8(blocks: Any) -> str | None:
    return {None: "fp8", (128, 128): "fp8_block128", (1, 32): "mxfp8"}.get(tuple(blocks) if isinstance(blocks, list) else None)


def _grouped(family: str, bits: Any, group: Any) -> str | None:
    """`gptq_g128` and its like, where there is a row for it."""
    size = "channel" if group == -1 else f"g{group}"
    name = f"{family}{'' if bits == 4 else bits}_{size}"
    return name if name in WEIGHT_FORMATS else None


def _group_format(weights: Any) -> str | None:
    """A compressed-tensors or ModelOpt weight scheme."""
    if not isinstance(weights, dict):
        return None
    bits, kind, group = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    strategy = weights.get("strategy")
    if kind == "float" and bits == 4:
        return {16: "nvfp4", 32: "mxfp4"}.get(group) if isinstance(group, int) else None
    if kind == "float" and bits == 8:
        return "mxfp8" if group == 32 else {"channel": "fp8_channel", "block": "fp8_block128"}.get(str(strategy), "fp8")
    if kind == "int" and bits == 8:
        return f"int8_g{group}" if f"int8_g{group}" in WEIGHT_FORMATS else "int8_channel"
    if kind == "int" and bits == 4:
        return _grouped("int4" if weights.get("symmetric", True) else "awq", 4, group if group else -1)
    return None


def _mixed(q: Fields) -> dict[str, str]:
    """Formats by role where the checkpoint lists them by module: `quantized_layers`, or config_groups with module targets."""
    listed: list[tuple[str, str | None]] = []
    layers = q.data.get("quantized_layers")
    groups = q.data.get("config_groups")
    if isinstance(layers, dict) and layers:
        listed = [(name, _ALGORITHMS.get(str(v.get("quant_algo")).upper())) for name, v in layers.items() if isinstance(v, dict)]
    elif isinstance(groups, dict) and len(groups) > 1:
        for group in groups.values():
            targets = group.get("targets") if isinstance(group, dict) else None
            listed += [(str(t), _group_format(group.get("weights"))) for t in targets or []]
    counted: dict[str, Counter[str]] = {}
    for module, name in listed:
        role = place(module)
        if role in (*MATRICES, "head") and name:
            counted.setdefault(str(role), Counter())[name] += 1
    formats = {role: names.most_common(1)[0][0] for role, names in counted.items()}
    if formats and q.data.get("quant_method") == "fp8" and "attention" not in formats:
        rest = _fp8(q.data.get("weight_block_size"))
        formats |= {role: rest for role in MATRICES if role not in formats and rest}
    return formats


def place(module: str) -> str | None:
    """The role that a module name or pattern speaks of."""
    name = re.sub(r"^re:", "", module).replace("\\.", ".").strip("^$*.")
    return next((role for pattern, role in _PLACES if re.search(pattern, name)), "other" if name else None)


def _excluded(q: Fields, notes: list[str]) -> set[str]:
    """The roles that are left as they are, with a note for what is only partly so."""
    names: Iterable[Any] = next(
        (q.data[key] for key in ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "exclude") if q.data.get(key)), ()
    )
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
