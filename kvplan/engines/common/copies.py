"""Copies of experts that are dealt out beside them, so that busy ones are served by several ranks (expert parallel load balancing)."""

from __future__ import annotations

from dataclasses import replace

from kvplan.engines.common.lines import Span, modelled, weight_entries
from kvplan.engines.common.protocol import Drafter
from kvplan.ledger import Entry
from kvplan.tensors import Layer, Lowered, WeightTensor, changed
from kvplan.units import cdiv
from kvplan.weights import WeightFormats


def with_copies(model: Lowered, more: int) -> Lowered:
    """The model with so many copies of experts in every layer that has any; equal layers still share one object."""
    return changed(model, lambda layer: _layer(layer, more)) if more else model


def drafter_with_copies(found: Drafter | None, more: int) -> Drafter | None:
    """The same of what drafts beside it."""
    if found is None or not more:
        return found
    return found._replace(layers=tuple(_layer(x, more) for x in found.layers), weights=tuple(_grown(w, more) for w in found.weights))


def of_one_layer(layer: Layer, formats: WeightFormats, *, tp: int, ep: int) -> Entry:
    """The experts of one layer that a rank holds."""
    entries = weight_entries([(w, 1) for w in layer.weights if w.experts], formats, tp=tp, ep=ep)
    return entries[0]._replace(bytes=sum(e.bytes for e in entries), low=sum(e.low for e in entries), high=sum(e.high for e in entries))


def in_exchange(layer: Layer, formats: WeightFormats, *, tp: int, ep: int) -> Entry:
    """What dealing out anew takes in service: the experts of one layer once more."""
    n_bytes = of_one_layer(layer, formats, tp=tp, ep=ep).bytes
    return modelled("EPLB: experts in exchange", Span(n_bytes, 0, n_bytes), "one layer's experts of a rank", "transient")


def _layer(layer: Layer, more: int) -> Layer:
    weights = tuple(_grown(w, more) for w in layer.weights)
    return layer if weights == layer.weights else replace(layer, weights=weights)


def _grown(w: WeightTensor, more: int) -> WeightTensor:
    """A stack of experts with copies behind them; bytes known from headers grow with it."""
    if not w.experts:
        return w
    n = w.experts + more
    stored = None if w.stored is None else cdiv(w.stored * n, w.experts)
    return w._replace(experts=n, shape=(n, *w.shape[1:]), stored=stored)
