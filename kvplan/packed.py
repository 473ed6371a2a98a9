"""What a quantised checkpoint packs, tensor by tensor, in the words of a spec; of uploads whose config is not at hand, by packed.tsv.

packed.tsv beside this file: name, parts, evidence, parted by tabs.

parts     `format: part part; format: part`: what is in which format, the rest in 16 bits; `mlp/56` are those of 56 layers, taken as the
          first. A part is a role, but for `attention`, the matrices of softmax attention, `mixers`, those of layers that keep a state in
          place of a cache, `mixers_out`, their outputs' alone, `draft`, the matrices of the model's own draft modules, and `draft_experts`,
          the routed experts' of those
evidence  a key of EVIDENCE; lines of `h` and `p` are written by `tools/packed_uploads.py`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from kvplan.rows import rows
from kvplan.spec import ModelSpec, lower
from kvplan.tensors import CacheFormats, Lowered, Role, WeightTensor
from kvplan.uploads import RECURRENT

MATRICES: tuple[Role, ...] = ("attention", "mlp", "experts", "shared_experts")
Formats = dict[tuple[int, int], str | None]
"""Layer, draft modules after the others, and place of a tensor in it -> its format; None: not quantised."""

EVIDENCE: dict[str, str] = {
    "h": "what of {name} is packed is by the Hub's count of its elements (llmfit 1.1.17)",
    "s": "what of {name} is packed is taken from its publisher's upload of the version before, by the Hub's count of that one's elements",
    "p": "what of {name} is packed is taken from its publisher's uploads of such models in such names, by the Hub's count of theirs",
    "b": "what of {name} is packed is by the Hub's count of its elements (llmfit 1.1.17) and by the bytes that its users state",
    "q": "what of {name} is packed is as its hf_quant_config.json says (ai-dynamo/aiconfigurator, commit 095f58a)",
    "l": "what of {name} is packed is by the bytes of weights that starts of vLLM logged",
}
#: What a part holds besides itself.
_WITHIN = (("draft", "draft_experts"), ("mixers", "mixers_out"))
#: A projection with fewer outputs stays in 16 bits in nearly all uploads (gates of mixers), as do convolutions.
SMALL = 256


@cache
def _lines() -> dict[str, tuple[str, str]]:
    return {name.lower(): (parts, evidence) for name, parts, evidence in rows("packed.tsv")}


def as_packed(spec: ModelSpec, name: str) -> dict[str, Any]:
    """`quantization`, `deviations` and notes of the upload `name` of a model; empty where it is not known what it packs."""
    line = _lines().get(name.lower())
    if line is None:
        return {}
    packed, evidence = line
    rules = [(form, part) for form, _, those in (each.partition(": ") for each in packed.split("; ")) for part in those.split()]
    model, parts = taken_apart(spec)
    found: Formats = {(i, at): next((form for form, those in rules if _holds(those, part, i)), None) for (i, at), part in parts.items()}
    usual = by_role(model, found)
    formats = {role: form for role, form in usual.items() if form}
    for form, part in rules:
        if part == "head":
            formats["head"] = form
    by_format: dict[str, list[Role]] = {}
    for role, form in formats.items():
        by_format.setdefault(form, []).append(role)
    return {
        "quantization": [{"format": form, "roles": roles} for form, roles in by_format.items()],
        "deviations": deviations(model, found, usual),
        "checkpoint": None,
        "notes": (EVIDENCE[evidence].format(name=name),),
    }


def taken_apart(spec: ModelSpec) -> tuple[Lowered, dict[tuple[int, int], str]]:
    """The model in 16 bits, and the part of every matrix of its layers and draft modules; of mixers `small` is what stays so."""
    plain = spec.changed(quantization=(), deviations=(), checkpoint=None)
    model = lower(plain, CacheFormats("bf16", "bf16", "bf16", conv="bf16", state="f32"))
    mixers = {block for block, made in spec.blocks.items() if any(mixer.kind in RECURRENT for mixer in made.mixers)}
    names = spec.layer_names
    parts: dict[tuple[int, int], str] = {}
    for i, layer in enumerate((*model.layers, *model.draft)):
        for at, w in enumerate(layer.weights):
            if len(w.shape) > 1 and w.role in MATRICES:
                drafted = "draft_experts" if w.role == "experts" else "draft"
                parts[i, at] = drafted if i >= len(names) else _part(w, mixer=names[i] in mixers)
    return model, parts


def _part(w: WeightTensor, *, mixer: bool) -> str:
    if w.role != "attention" or not mixer:
        return w.role
    if min(w.shape) <= SMALL or "conv" in w.name:
        return "small"
    return "mixers_out" if w.name.startswith("out") else "mixers"


def _holds(those: str, part: str, layer: int) -> bool:
    name, _, first = those.partition("/")
    return (name == part or (name, part) in _WITHIN) and (not first or layer < int(first))


def by_role(model: Lowered, found: Formats) -> dict[Role, str | None]:
    """Role -> the format of most of its elements; of two halves the quantised one."""
    counted: dict[Role, Counter[str | None]] = {}
    for (i, at), name in found.items():
        if i >= len(model.layers):
            continue
        w = model.layers[i].weights[at]
        counted.setdefault(w.role, Counter())[name] += w.elems
    return {role: max(names, key=lambda name: (names[name], name is not None)) for role, names in counted.items()}


def deviations(model: Lowered, found: Formats, usual: Mapping[Role, str | None]) -> list[dict[str, Any]]:
    """The spec's `deviations`: tensors in another format than most of their role, equal ones of several layers together."""
    each: dict[int, dict[str | None, list[str]]] = {}
    layers = (*model.layers, *model.draft)
    for (i, at), name in found.items():
        w = layers[i].weights[at]
        if name != usual.get(w.role):
            each.setdefault(i, {}).setdefault(name, []).append(w.name)
    rows: dict[tuple[str | None, tuple[str, ...]], list[int]] = {}
    for i, formats in each.items():
        for name, tensors in formats.items():
            rows.setdefault((name, tuple(dict.fromkeys(tensors))), []).append(i)
    return [
        {"layers": ranges(layers), "tensors": list(tensors)} | ({"format": name} if name else {})
        for (name, tensors), layers in rows.items()
    ]


def ranges(numbers: Iterable[int]) -> str:
    """`0-2,5`."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
