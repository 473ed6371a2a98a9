"""Where each number of a plan comes from: a formula with the values in it, and its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import FORMATS, row_bytes
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.planner.plan import Plan
from kvplan.tensors import Cache, CacheTensor, Curve, Layer, Lowered, Role, tensor_curve
from kvplan.weights import model_tensors, stored_bytes, total_bytes, weight_line


class Line(NamedTuple):
    """One number: what it is, its value, `formula` with numbers in it (equal to the value), and where the formula comes from."""

    name: str
    value: int
    unit: str
    formula: str
    source: str


def explain(settled: Settled, plan: Plan) -> tuple[Line, ...]:
    """Every figure of a plan, from tensor shapes up."""
    d = settled.question
    return (*_cache(d, settled.layers, plan), *_weights(d, settled.model), *_drafter(settled), *_ledger(plan))


def _drafter(settled: Settled) -> Iterator[Line]:
    """What drafts: the spec or file that it is read from."""
    found = settled.drafter
    if found is None:
        return
    elems = sum(w.elems for w in found.weights)
    size = total_bytes(found.weights, found.formats)
    yield Line("drafter", size, "B", f"{found.name}: {elems:,} elements in {len(found.layers)} layers, as it is loaded", found.source)


def _cache(d: Deployment, layers: Sequence[Layer], plan: Plan) -> Iterator[Line]:
    counts: dict[Cache, int] = {}
    for layer in layers:
        for cache in layer.caches:
            counts[cache] = counts.get(cache, 0) + 1
    parts = []
    for cache, n in counts.items():
        if not cache.tensors:
            yield Line(f"cache {cache.kind}", 0, "B", f"{n} layers x 0 B", cache.source)
        for t in cache.tensors:
            line = _tensor(t, n, cache, d)
            parts.append(line.value)
            yield line
    total = " + ".join(f"{part:,}" for part in parts) or "0"
    yield Line("cache per sequence", plan.cache.bytes_per_sequence, "B", total, "the tensors above")
    yield Line(
        "cache of all sequences",
        plan.cache.total_bytes,
        "B",
        f"{d.batch:,} x {plan.cache.bytes_per_sequence:,} B",
        "whole and unreplicated",
    )


def _tensor(t: CacheTensor, n_layers: int, cache: Cache, d: Deployment) -> Line:
    curve: Curve = tensor_curve(t, encoder_tokens=d.encoder_tokens)
    one = curve.at(d.context or 1)
    states, row = one // t.bytes_per_state, row_bytes(t.dtype, t.elems_per_state)
    what = "state" if t.tokens_per_state is None else f"kept of {d.context:,} tokens, keep {t.keep}"
    if t.tokens_per_state and t.tokens_per_state > 1:
        what += f", {t.tokens_per_state} tokens each"
    formula = f"{n_layers} layers x {t.heads} heads x {row} B ({t.elems_per_state} elements in {t.dtype}) x {states:,} states ({what})"
    source = cache.source + ("" if t.dtype in ("f32", "f16", "bf16") else f"; {FORMATS[t.dtype].source}")
    return Line(f"cache {cache.kind} {t.name}", n_layers * one, "B", formula, source)


def _weights(d: Deployment, model: Lowered) -> Iterator[Line]:
    formats = weight_formats(d)
    sums: dict[tuple[Role, str], tuple[int, int]] = {}
    tensors = model_tensors(model)
    stored = any(w.stored is not None for w in tensors)
    for w in tensors:
        key = (w.role, formats.of(w))
        elems, n_bytes = sums.get(key, (0, 0))
        sums[key] = (elems + w.elems, n_bytes + stored_bytes(w, formats))
    for (role, name), (elems, n_bytes) in sums.items():
        own = name == formats[role]
        source = weight_line(role, n_bytes, formats, stored=stored).source if own else f"declared tensor shapes; {formats.said}"
        what = f"weights {role}" if own else f"weights {role} in {name}"
        yield Line(what, n_bytes, "B", f"{elems:,} elements in {name}, scales included", source)


def _ledger(plan: Plan) -> Iterator[Line]:
    for ledger in plan.ledgers:
        parts = " + ".join(f"{entry.bytes:,}" for entry in ledger.entries)
        yield Line(f"rank {ledger.ranks[0]} total", ledger.total_bytes, "B", parts, "its ledger")
        if ledger.limit_bytes is not None:
            left = ledger.limit_bytes - ledger.total_bytes
            formula = f"{ledger.limit_bytes:,} - {ledger.total_bytes:,}"
            yield Line(f"rank {ledger.ranks[0]} left", left, "B", formula, f"memory of {ledger.device}")
