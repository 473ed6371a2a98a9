"""quantization_config -> the spec's weight formats by role, what single tensors have instead, and the cache format a checkpoint pins.

A role (attention, mlp, experts, shared_experts) is in the format of most of its elements; the rest is listed tensor by tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kvplan.importers.hf.deviations import Rules, assign, rules
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.weight_schemes import exllama, is_mlx, packs_weights, unread_block, whole_format
from kvplan.packed import MATRICES, by_role, deviations
from kvplan.tensors import Lowered

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


def read_quantization(f: Fields, lowered: Callable[[], Lowered]) -> tuple[dict[str, Any], list[str]]:
    """`quantization`, `deviations` and `kv_dtype` of the spec, and notes. Raises SpecError where the block is no mapping.

    lowered  the model's tensors, asked for only where the config speaks of single modules
    """
    config = _block(f)
    if config is None:
        return {}, []
    part = Fields(config, f.source, path=f.dotted("quantization_config"))
    notes: list[str] = []
    made: dict[str, Any] = {}
    if beside := config.get("written_beside"):
        notes.append(f"how its weights are stored is from {beside}, not config.json: an engine may have to be told (--quantization)")
    if packs_weights(config):
        formats, made = _formats(part, f, lowered, notes)
        by_format: dict[str, list[str]] = {}
        for role, name in formats.items():
            by_format.setdefault(name, []).append(role)
        if by_format:
            made["quantization"] = [{"format": name, "roles": roles} for name, roles in by_format.items()]
        named = config.get("quant_method") or ("none" if config.get("quant_algo") else "mlx" if is_mlx(config) else None)
        made |= {"method": str(named).lower().replace("_", "-")[:60]} if named else {}
    elif unread := unread_block(config):
        notes.append(f"{unread}: its weights are counted as 16 bits")
    cache = _cache(part, notes)
    if cache:
        made["kv_dtype"] = cache
    return made, notes


_OTHER_EXPERT = re.compile(r"\bexperts\.[1-9]\d*\.")  # of a stack of experts the first stands for all


def _block(f: Fields) -> dict[str, Any] | None:
    for data in (f.data, *(f.data[key] for key in ("text_config", "llm_config", "language_config") if isinstance(f.data.get(key), dict))):
        for key in ("quantization_config", "compression_config"):
            found = data.get(key)
            if isinstance(found, dict) and found:
                nested = found.get("quantization")  # as ModelOpt's hf_quant_config.json has it; vLLM's modelopt.py reads both
                return {**found, **nested} if isinstance(nested, dict) else found
            if found not in (None, {}):
                raise f.fault(key, "must be a mapping")
        if is_mlx(own := data.get("quantization")):
            return dict(own)
        if isinstance(own, dict) and "bits" in own and not isinstance(own["bits"], int):
            raise f.fault("quantization.bits", f"must be a whole number (is {own['bits']!r:.40})")
    return None


def _formats(q: Fields, f: Fields, lowered: Callable[[], Lowered], notes: list[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Role -> format, and the deviations from it."""
    method = q.data.get("quant_method")
    name = whole_format(q.data)
    whole: dict[str, str] = {}
    experts = str(f.data.get("expert_dtype") or q.data.get("expert_dtype") or q.data.get("store_dtype"))
    if experts in ("fp4", "mxfp4") and not q.data.get("quantized_layers"):  # vLLM 0.33 quantization/fp8.py: the experts alone
        whole = {"experts": "mxfp4"}
    if name == "w4afp8":
        whole, name = {"experts": name}, "fp8_block128"
    if name == "mxfp4" and method == "mxfp4":  # only the experts, whatever is named
        return {"experts": name}, {}
    made = rules(q.data, name)
    if not _any_format(made, whole):
        named = str(method or q.data.get("quant_algo") or "unnamed")
        notes.append(f"checkpoint quantisation {named[:60]!r} is not modelled: its weights are counted as 16 bits, and take less")
        made = made._replace(rest="unknown")
    extra = _outside(q, made, name)
    if unread := made.left.unread + made.groups.unread:
        notes.append(f"{len(unread)} patterns of the quantisation can not be read: {unread[0][:60]!r}")
    if not made.left.named and not made.groups.named:
        return {role: whole.get(role, str(made.rest)) for role in MATRICES} | extra, {}
    model = lowered()
    found = assign(model, made, whole)
    usual = by_role(model, found)
    silent = [p for p in sorted(made.left.silent | made.groups.silent) if place(p) in MATRICES and not _OTHER_EXPERT.search(p)]
    if silent:
        notes.append(f"{len(silent)} patterns of the quantisation meet no tensor here, {silent[0][:60]!r} among them")
    rows = deviations(model, found, usual)
    absent = {role: made.rest for role in MATRICES if role not in usual and made.rest}
    formats = {role: name for role, name in (absent | usual).items() if name}
    return {role: formats[role] for role in MATRICES if role in formats} | extra, {"deviations": rows} if rows else {}


def _any_format(made: Rules, whole: dict[str, str]) -> bool:
    return bool(made.rest or whole or any(made.groups.values))


def _outside(q: Fields, made: Rules, name: str | None) -> dict[str, str]:
    """Formats of what is outside the layers: MLX packs embedding, head and routers too, each in bits of its own where it is named; EXL2
    and EXL3 the head, in 6 bits where nothing else is said (convert.py --head_bits); others a head that is named."""
    if is_mlx(q.data):
        left = {place(pattern) for pattern in made.left.named}
        own = {place(pattern): str(format_) for pattern, format_ in made.groups.rows if format_}
        return {role: own.get(role, str(name)) for role in ("embedding", "head") if role not in left} | {"router": str(name)}
    if name and (head := exllama(q.data.get("quant_method"), q.data.get("head_bits", 6))):
        return {"head": head}
    if q.data.get("lm_head") is True and name:
        return {"head": name}
    heads = [str(own) for pattern, own in made.groups.rows if own and place(pattern) == "head"]
    return {"head": heads[0]} if heads else {}


def place(module: str) -> str | None:
    """The role that a module name or pattern speaks of."""
    name = re.sub(r"^re:", "", module).replace("\\.", ".").strip("^$*.")
    return next((role for pattern, role in _PLACES if re.search(pattern, name)), "other" if name else None)


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
