"""Conditions of a settled question that several engines check before they start, as the numbers of their texts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import WEIGHT_FORMATS, canonical, weight_scheme
from kvplan.engines.common.lines import query_heads
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import format_of, stored_plain, weight_formats
from kvplan.spec import ModelSpec
from kvplan.tensors import KEPT_MODELS, Layer, Lowered, Same, WeightTensor, distinct

#: Matrices whose inputs tensor parallelism splits: the others split their outputs.
ROW_PARALLEL = ("o", "mlp_down", "shared_down", "expert_down")

#: Matrices that checkpoints quantise in blocks; the small ones of linear attention (decays, gates) stay as they are.
BLOCKED = frozenset({
    "q", "k", "v", "o", "q_b", "kv_b", "mlp_up", "mlp_gate", "mlp_down", "shared_up", "shared_gate", "shared_down",
    "expert_up", "expert_gate", "expert_down",
})  # fmt: skip


def capability(d: Deployment) -> int | None:
    """The device's, as one number (8.9 -> 89); None where it is not known."""
    return d.device.capability if d.device else None


def encodes(model: ModelSpec) -> bool:
    """Whether it is an encoder alone: whatever its head is, nothing is generated."""
    mixers = [mixer for block in model.blocks.values() for mixer in block.mixers]
    return bool(mixers) and all(mixer.kind == "encoder" for mixer in mixers)


def may_be_nvidia(d: Deployment) -> bool:
    """Whether the GPU is NVIDIA's, or not known."""
    return d.device is None or d.device.vendor == "nvidia"


def version_of(number: int) -> str:
    """89 -> 8.9"""
    return f"{number // 10}.{number % 10}"


def uneven_heads(model: Lowered, tp: int) -> Mapping[str, object] | None:
    """Query heads that tensor parallelism can not deal out evenly."""
    heads = query_heads(model)
    return {"heads": heads, "tp": tp} if heads > 1 and heads % tp else None


def uneven_kv_heads(model: Lowered, tp: int) -> Mapping[str, object] | None:
    """KV heads that are neither dealt out nor copied evenly: one number must divide the other."""
    for heads in sorted(kv_heads(model)):
        if max(heads, tp) % min(heads, tp):
            return {"kv_heads": heads, "tp": tp}
    return None


def kv_heads(model: Lowered) -> set[int]:
    """The numbers of KV heads of attention layers that keep K and V."""
    caches = (cache for layer in _distinct(model) for cache in layer.caches)
    return {t.heads for cache in caches for t in cache.tensors if t.name == "k"}


def latent(settled: Settled) -> bool:
    """Whether a layer keeps a latent."""
    return any(cache.form.startswith("latent") for layer in settled.layers for cache in layer.caches)


def experts(model: Lowered) -> int:
    """The most routed experts of a layer."""
    return max((w.experts for layer in _distinct(model) for w in layer.weights), default=0)


class Part(NamedTuple):
    """One rank's part of a matrix: the sizes of its inputs and outputs, and which of them were split."""

    name: str
    inputs: int
    outputs: int
    row: bool
    split: bool
    format: str


def parts(settled: Settled, tp: int, *, experts_whole: bool = False) -> Iterator[Part]:
    """The parts of every attention and feed-forward matrix that tensor parallelism splits, with the format it is stored in."""
    formats = weight_formats(settled.question)
    for w in _matrices(settled.model):
        row = w.name in ROW_PARALLEL
        outputs, inputs = w.shape[-2:]
        n = 1 if w.experts and experts_whole else tp
        split = n > 1 and w.units > 1
        ranks = min(n, w.units) if split else 1
        yield Part(w.name, inputs // ranks if row else inputs, outputs if row else outputs // ranks, row, split, formats.of(w))


def _distinct(model: Lowered) -> Iterable[Layer]:
    """Layers that differ; equal ones are mostly one object, which is cheaper to see than to hash."""
    return dict.fromkeys(distinct(model.layers))


def _matrices(model: Lowered) -> tuple[WeightTensor, ...]:
    return _matrices_of(Same(model))


@lru_cache(maxsize=KEPT_MODELS)
def _matrices_of(same: Same[Lowered]) -> tuple[WeightTensor, ...]:
    layers = _distinct(same.it)
    roles = ("attention", "mlp", "shared_experts", "experts")
    return tuple(dict.fromkeys(w for layer in layers for w in layer.weights if len(w.shape) >= 2 and w.role in roles))


def uneven_widths(model: Lowered, tp: int, *, experts_whole: bool, of: tuple[str, ...]) -> Mapping[str, object] | None:
    """Feed-forward widths that tp does not divide."""
    for w in _matrices(model):
        width = w.shape[-1]
        if w.name in of and width % tp and not (w.experts and experts_whole):
            return {"width": width, "tp": tp}
    return None


def scheme_of(settled: Settled) -> tuple[str, str]:
    """The checkpoint's quantisation of its layers' matrices: format and family; both empty where there is none."""
    formats = weight_formats(settled.question)
    for name in dict.fromkeys(formats.of(w) for w in _matrices(settled.model)):
        if (scheme := weight_scheme(name)) not in ("plain", "unknown"):
            return name, scheme
    return "", ""


def too_old(settled: Settled, least: int) -> Mapping[str, object] | None:
    """A GPU below a compute capability (75 is 7.5)."""
    has = capability(settled.question)
    return {"least": least, "has": has} if has is not None and has < least else None


def computes_in(settled: Settled, name: str) -> bool:
    return canonical(settled.question.dtype or settled.question.model.dtype, "dtype") == name


def quantised_below(settled: Settled, methods: Mapping[str, tuple[str, int]]) -> Mapping[str, object] | None:
    """A GPU too old for the checkpoint's format. `methods`: format or family -> the engine's name of it, the capability it needs."""
    name, scheme = scheme_of(settled)
    method, least = methods.get(name) or methods.get(scheme) or ("", 0)
    found = too_old(settled, least)
    return {"method": method, **found} if found else None


def without_settings(
    settled: Settled, needs: Container[str], of: ModelSpec | None = None, option: str = "quantization"
) -> Mapping[str, object] | None:
    """A checkpoint of plain weights under a method (`--quantization`) that reads its settings from the checkpoint's own files alone.

    needs  such methods
    of     a model beside the question's, whose method another option says
    """
    d = settled.question
    own, asked = format_of(of or d.model), Options(d).text(option)
    plain = stored_plain(own) and (of is not None or d.weight_dtype in (None, own))
    return {"method": asked, "own": own} if plain and asked in needs else None


def split_blocks(settled: Settled, tp: int, *, block: int, format_: str, experts_whole: bool) -> Iterator[tuple[Part, int]]:
    """Parts of matrices quantised in square blocks whose split side is no whole number of them, with that side."""
    for part in parts(settled, tp, experts_whole=experts_whole):
        side = part.inputs if part.row else part.outputs
        if part.name in BLOCKED and part.format == format_ and part.split and side % block:
            yield part, side


def split_groups(settled: Settled, tp: int, schemes: tuple[str, ...]) -> Iterator[tuple[Part, int]]:
    """Row-parallel parts of matrices quantised in groups whose inputs are no whole number of groups, with the size of a group."""
    for part in parts(settled, tp):
        if not (part.row and part.split) or part.name == "expert_down" or weight_scheme(part.format) not in schemes:
            continue
        groups = (32, 64, 128) if part.format.endswith("_any") else (WEIGHT_FORMATS[part.format].group,)
        if all(group and part.inputs % group for group in groups):
            yield part, groups[-1]
