"""Drafters that are models of their own: their layers' caches join the target's, their weights are loaded beside it."""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.settling import weight_formats
from kvplan.errors import SpecError
from kvplan.spec import lower
from kvplan.tensors import CacheFormats, Layer, Lowered
from kvplan.weights import stored_bytes

#: Speculative methods with such a drafter (vllm/config/speculative.py).
DRAFTERS: tuple[str, ...] = ("draft_model", "dflash", "dspark")


def with_drafter(model: Lowered, d: Deployment, formats: CacheFormats, method: str) -> Lowered:
    """The model with the layers of a drafter of its own in place of draft modules, their weights as that checkpoint stores them.

    A draft model brings its embedding and head; the others share the target's. Raises SpecError where its size is not known.
    """
    if d.drafter is None:
        raise SpecError("speculative", [("", f"how large the {method} drafter is: name its model as {method}:TOKENS:MODEL, or off")])
    drafter = lower(d.drafter, formats)
    stored_as = weight_formats(replace(d, model=d.drafter, weight_dtype=None, stored=None))
    own = [*drafter.first, *drafter.last, *([drafter.embedding] if drafter.embedding else [])] if method == "draft_model" else []
    layers = [*drafter.layers, Layer(caches=(), weights=tuple(own))]
    kept = [replace(layer, weights=tuple(w._replace(stored=stored_bytes(w, stored_as)) for w in layer.weights)) for layer in layers]
    return replace(model, draft=tuple(kept))
