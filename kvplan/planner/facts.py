"""What a plan says of its model: counts as published, and every note of what was taken, assumed or left out."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical_weight, weight_scheme
from kvplan.engines.common.lines import weight_entries
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import format_of, weight_formats
from kvplan.planner.plan import ModelFacts
from kvplan.units import show_bytes
from kvplan.weights import all_bytes, count, model_tensors


def model_facts(settled: Settled) -> ModelFacts:
    spec, parameters = settled.question.model, count(settled.model)
    shown = (f"the cache is shown in {settled.question.dtype}: {settled.misfit}",) if settled.misfit else ()
    return ModelFacts(
        id=spec.id,
        name=spec.name,
        parameters=parameters.total,
        active_parameters=parameters.active,
        embedding_parameters=parameters.embedding,
        mtp_parameters=parameters.draft,
        weight_bytes=all_bytes(model_tensors(settled.model), weight_formats(settled.question)),
        known_as=spec.known_as,
        notes=(*_said(settled), *shown, *_another_release(settled.question), *_of_uploads(settled), *_calibration(settled.question)),
    )


#: The share of the weights by which uploads of a format may differ before a note says so.
WORTH_A_NOTE = 0.1


def _of_uploads(settled: Settled) -> tuple[str, ...]:
    """How far uploads in the format that is named differ by the roles that some of them keep in 16 bits, and what is exact."""
    d, formats = settled.question, weight_formats(settled.question)
    if not formats.unsure:
        return ()
    lines = weight_entries(model_tensors(settled.model), formats, tp=1, ep=1)
    low, point, high = (sum(getattr(line, end) for line in lines) for end in ("low", "bytes", "high"))
    if high - low < WORTH_A_NOTE * point:
        return ()
    roles = " and ".join(role.replace("_", " ") for role in formats.unsure)
    name = (d.weight_dtype or "").removesuffix("_any")
    kept = f"uploads in {name} differ in whether they pack {roles}"
    exactly = "its folder or config.json" if d.model.checkpoint else "the upload's id, folder or config.json"
    sizes = f"{show_bytes(low)} to {show_bytes(high)} of weights, {show_bytes(point)} counted"
    return (f"{kept}: {sizes}; exact: {exactly} as the model, without --weight-dtype",)


def _another_release(d: Deployment) -> tuple[str, ...]:
    """A packed checkpoint whose weights are asked for in another format: no engine makes one of the other, so it is another file."""
    if d.weight_dtype is None:
        return ()
    own, asked = ([canonical_weight(name) for name in several.split("+")] for several in (format_of(d.model), d.weight_dtype))
    schemes, others = ({weight_scheme(name) for name in names} for names in (own, asked))
    same = set(asked) <= set(own) or (schemes == others and ("fp8" in schemes or asked[0].endswith("_any")))
    if same or schemes & {"plain", "unknown"}:
        return ()
    stored = "+".join(own).removesuffix("_any")
    return (f"{d.model.name} is stored in {stored}: weights in {d.weight_dtype} are those of another release of it",)


def _said(settled: Settled) -> tuple[str, ...]:
    spec = settled.question.model
    device = settled.question.device
    taken = (device.taken,) if device is not None and device.taken else ()
    return (*spec.notes, *spec.uncounted, *taken, *settled.notes, *([settled.unknown] if settled.unknown else []))


def _calibration(d: Deployment) -> tuple[str, ...]:
    note = d.constants.note if d.constants is not None and d.device is not None else None
    return (note,) if note else ()
