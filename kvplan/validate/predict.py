"""The predicting side: a question's plan as shapes to allocate, each with the bytes the plan says beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.engines.common.settling import cache_formats
from kvplan.errors import UnsupportedError
from kvplan.ledger import Ledger
from kvplan.parallel import heads_per_rank, split_layers
from kvplan.planner.evaluate import evaluate
from kvplan.spec import lower
from kvplan.tensors import Cache, CacheTensor, Keep, tensor_curve
from kvplan.validate.description import CacheShape, Layout


class Predicted(NamedTuple):
    """A shape and the bytes predicted for all its layers and sequences."""

    shape: CacheShape
    bytes: int


class Proposal(NamedTuple):
    """What one device is to hold: `total_bytes` is the cache of the plan's own ledger, `question` what was asked, as plain data."""

    name: str
    rows: tuple[Predicted, ...]
    total_bytes: int
    question: dict[str, object]


def predict(shape: CacheShape) -> int:
    """Bytes of a shape by the formula that plans use; raises SpecError for a row its format can not hold."""
    encoder = shape.tokens if shape.keep == "source" else None
    t = CacheTensor(
        name=shape.tensor,
        heads=shape.heads,
        elems_per_state=shape.width,
        dtype=shape.element,
        tokens_per_state=shape.tokens_per_entry,
        keep=Keep(shape.keep, shape.keep_tokens, shape.sinks),
    )
    block = shape.block_tokens if shape.layout == "paged" else None
    return tensor_curve(t, encoder_tokens=encoder, block_size=block).at(shape.tokens) * shape.layers * shape.sequences


def propose(d: Deployment, layout: Layout = "contiguous") -> Proposal:
    """What the fullest rank of a question's plan holds, tensor by tensor. Pages where the question has a block size.

    Raises UnsupportedError for engines whose pools are more than their tensors: those are compared with their own start-up logs.
    """
    d = replace(d, engine=d.engine or "ideal")
    if d.engine != "ideal":
        raise UnsupportedError(
            f"validate allocates what engine ideal plans (with --block-size: in pages); {d.engine}'s own pools are compared with its "
            "start-up log by `kvplan reconcile`"
        )
    plan = evaluate(d)
    settled = engines.settle(d)[1].question
    if (settled.dcp or 1) > 1:
        raise UnsupportedError("validate does not share the tokens of one sequence between ranks: leave dcp out")
    ledger = max(plan.ledgers, key=lambda ledger: ledger.cache_bytes)
    rows = [predicted for shape in _shapes(settled, ledger, layout) if (predicted := Predicted(shape, predict(shape))).bytes]
    return Proposal(d.model.id, tuple(rows), ledger.cache_bytes, plan.chosen | {"layout": layout})


def _shapes(d: Deployment, ledger: Ledger, layout: Layout) -> list[CacheShape]:
    model, tp = lower(d.model, cache_formats(d)), d.tp or 1
    stage = split_layers(len(model.layers), d.pp or 1, "first")[ledger.ranks[0] // tp % (d.pp or 1)]
    counts: dict[Cache, int] = {}
    for i in stage:
        for cache in model.layers[i].caches:
            counts[cache] = counts.get(cache, 0) + 1
    sequences = -(-(d.batch or 1) // (d.dp or 1))
    return [
        _shape(t, cache.kind, n, d, sequences, layout if d.block_size is None else "paged")._replace(heads=heads_per_rank(t.heads, tp))
        for cache, n in counts.items()
        for t in cache.tensors
    ]


def _shape(t: CacheTensor, kind: str, layers: int, d: Deployment, sequences: int, layout: Layout) -> CacheShape:
    context = d.context or 1
    source = t.keep.kind == "source"
    return CacheShape(
        line=kind,
        tensor=t.name,
        element=t.dtype,
        heads=t.heads,
        width=t.elems_per_state,
        tokens=(t.keep.tokens or d.encoder_tokens or context) if source else context,
        tokens_per_entry=t.tokens_per_state,
        keep=t.keep.kind,
        keep_tokens=0 if source else t.keep.tokens,
        sinks=t.keep.sinks,
        layout=layout,
        block_tokens=(d.block_size or 0) if layout == "paged" else 0,
        layers=layers,
        sequences=sequences,
    )


def fewer_layers(proposal: Proposal, limit_bytes: int) -> Proposal:
    """The same caches with as many layers of each as stay below a limit, at least one; the question says that it was done."""
    if proposal.total_bytes <= limit_bytes:
        return proposal
    rows = []
    for shape, n_bytes in proposal.rows:
        layers = max(1, shape.layers * limit_bytes // proposal.total_bytes)
        rows.append(Predicted(shape._replace(layers=layers), n_bytes // shape.layers * layers))
    cut = f"{sum(r.shape.layers for r in rows)} of {sum(r.shape.layers for r in proposal.rows)} tensors, full width"
    return proposal._replace(rows=tuple(rows), total_bytes=sum(r.bytes for r in rows), question=proposal.question | {"fewer_layers": cut})
