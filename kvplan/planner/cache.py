"""The model's cache for people: whole, unreplicated, layer kind by layer kind, and what paging adds."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.deployment import Deployment
from kvplan.planner.plan import CacheLayers, CacheReport
from kvplan.tensors import Cache, Curve, Layer, layer_counts, tensor_curve, total

MAX_PAGE = 1 << 16


def report(d: Deployment, layers: Sequence[Layer]) -> CacheReport:
    """Bytes of the settled question's sequences, before any engine, layout or replication."""
    counts: dict[Cache, int] = {}
    for layer, n in layer_counts(layers):
        for cache in layer.caches:
            if cache.tensors:
                counts[cache] = counts.get(cache, 0) + n
    context, batch = d.context or 1, d.batch or 1
    curve = total(cache_curve(cache, d.encoder_tokens).times(n) for cache, n in counts.items())
    per_sequence = curve.at(context)
    return CacheReport(
        total_bytes=batch * per_sequence,
        bytes_per_sequence=per_sequence,
        bytes_per_token=curve.slope(context),
        average_bytes_per_token=per_sequence / context,
        layers=tuple(_layers(cache, n, d) for cache, n in counts.items()),
        curve=tuple(segment._asdict() for segment in curve.segments()),
        pages=_pages(d, counts, curve) if d.block_size else None,
    )


def cache_curve(cache: Cache, encoder_tokens: int | None, block_size: int | None = None) -> Curve:
    """Bytes of one layer's cache over the length of one sequence."""
    return total(tensor_curve(t, encoder_tokens=encoder_tokens, block_size=block_size) for t in cache.tensors)


def _layers(cache: Cache, n: int, d: Deployment) -> CacheLayers:
    keeps = dict.fromkeys("state" if t.tokens_per_state is None else str(t.keep) for t in cache.tensors)
    return CacheLayers(
        kind=cache.kind,
        layers=n,
        keep=", ".join(keeps),
        bytes_per_sequence=n * cache_curve(cache, d.encoder_tokens).at(d.context or 1),
        tensors=tuple(
            {
                "name": t.name,
                "heads": t.heads,
                "elems": t.elems_per_state,
                "dtype": t.dtype,
                "bytes_per_state": t.bytes_per_state,
                "tokens_per_state": t.tokens_per_state,
            }
            for t in cache.tensors
        ),
        source=cache.source,
    )


def _pages(d: Deployment, counts: dict[Cache, int], exact: Curve) -> dict[str, int | float]:
    """Pages against exact tensors: waste at this context, and its worst and mean over the lengths that end in the same page."""
    context, block = d.context or 1, min(d.block_size or 1, MAX_PAGE)
    paged = total(cache_curve(cache, d.encoder_tokens, d.block_size).times(n) for cache, n in counts.items())
    first = (context - 1) // block * block
    waste = [paged.at(n) - exact.at(n) for n in range(first + 1, first + block + 1)]
    return {
        "block_tokens": d.block_size or 1,
        "bytes_per_sequence": paged.at(context),
        "waste_bytes": paged.at(context) - exact.at(context),
        "worst_waste_bytes": max(waste),
        "mean_waste_bytes": sum(waste) / len(waste),
    }
