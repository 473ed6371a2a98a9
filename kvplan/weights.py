"""Parameters and weight bytes from declared tensor shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvplan.dtypes import matrix_bytes
from kvplan.tensors import Lowered, Role, WeightTensor
from kvplan.units import cdiv

WeightFormats = Mapping[Role, str]
"""Role -> checkpoint format; every role is there."""

ROLES: tuple[Role, ...] = (
    "attention", "mlp", "experts", "shared_experts", "router", "norm", "embedding", "head", "state", "tower", "buffer", "other",
)  # fmt: skip
#: The roles that a checkpoint quantises when only a format is named: the matrices of the layers.
MATRICES: tuple[Role, ...] = ("attention", "mlp", "experts", "shared_experts")


class Parameters(NamedTuple):
    """Counts of parameters: towers in, draft modules apart, tied tensors once, buffers out."""

    total: int
    active: int
    embedding: int
    draft: int


def model_tensors(model: Lowered) -> list[WeightTensor]:
    """Every tensor of the model but its draft modules, tied ones once."""
    tensors = [*model.first, *model.last]
    if model.embedding:
        tensors.append(model.embedding)
    for layer in model.layers:
        tensors += layer.weights
    return tensors


def count(model: Lowered) -> Parameters:
    """Parameter counts. `active` leaves out the experts that do not serve a token, and nothing else."""
    total = active = 0
    for w in model_tensors(model):
        if w.role == "buffer":
            continue
        total += w.elems
        active += w.elems // w.experts * w.active if w.experts else w.elems
    draft = sum(w.elems for layer in model.draft for w in layer.weights if w.role != "buffer")
    return Parameters(total, active, model.embedding.elems if model.embedding else 0, draft)


def stored_bytes(w: WeightTensor, formats: WeightFormats) -> int:
    """Bytes of one whole tensor in its checkpoint format: scales per matrix, vectors and convolutions as 16 or 32 bit rows."""
    return _bytes(w.shape, formats[w.role])


def rank_bytes(w: WeightTensor, formats: WeightFormats, *, tp: int, ep: int) -> int:
    """Bytes of the fullest rank's share of one tensor.

    Units that do not divide are dealt out by ceiling; beyond one unit a rank the unit is replicated. With ep > 1 whole experts are
    dealt out; without it every expert is split like any other matrix.
    """
    if w.experts and ep > 1:
        return _bytes((cdiv(w.experts, ep), *w.shape[1:]), formats[w.role])
    if w.units == 1 or tp == 1:
        return stored_bytes(w, formats)
    return cdiv(stored_bytes(w, formats) * max(1, cdiv(w.units, tp)), w.units)


def total_bytes(tensors: Iterable[WeightTensor], formats: WeightFormats) -> int:
    """Bytes of whole tensors."""
    return sum(stored_bytes(w, formats) for w in tensors)


def _bytes(shape: tuple[int, ...], format_name: str) -> int:
    if len(shape) < 2:
        return matrix_bytes(format_name, 1, shape[0])
    matrices = 1
    for n in shape[:-2]:
        matrices *= n
    return matrices * matrix_bytes(format_name, shape[-2], shape[-1])


def role_formats(base: str, quantized: Mapping[Role, str]) -> dict[Role, str]:
    """Role -> format: `base`, but for the roles that are quantised."""
    return {role: quantized.get(role, base) for role in ROLES}
