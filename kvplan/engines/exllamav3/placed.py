"""What exllamav3 loads onto which card, and what it leaves in host memory or in its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvplan.engines.common.grouped_keys import TABLE
from kvplan.engines.common.settling import without_towers
from kvplan.parallel import split_layers
from kvplan.tensors import Layer, Lowered, WeightTensor, distinct
from kvplan.units import longest
from kvplan.weights import WeightFormats, rank_bytes


def on_devices(model: Lowered, towers: bool, beside: int) -> tuple[Lowered, list[tuple[WeightTensor, int]]]:
    """What is loaded onto devices, and what host memory has, with how often: embeddings, and the experts of the first `beside` layers
    with any. A file has an output of its own, whether the model is tied or not; towers are a model of their own, loaded for images."""
    off = [(model.embedding, 1)] if model.embedding else []
    layers = [replace(x, weights=tuple(w for w in x.weights if w.name != TABLE)) if has_table(x) else x for x in model.layers]
    for at in [i for i, layer in enumerate(layers) if any(w.experts for w in layer.weights)][:beside]:
        off += [(w, 1) for w in layers[at].weights if w.experts]
        layers[at] = replace(layers[at], weights=tuple(w for w in layers[at].weights if not w.experts))
    last = model.last
    if model.tied and model.embedding:
        last = (model.embedding._replace(name="lm_head", role="head"), *last)
    kept = model if towers else without_towers(model)
    return replace(kept, layers=tuple(layers), embedding=None, last=last, tied=False), off


def has_table(layer: Layer) -> bool:
    """Whether a layer looks n-grams up in a table."""
    return any(w.name == TABLE for w in layer.weights)


def stages(model: Lowered, formats: WeightFormats, cached: Callable[[Layer], int], pp: int) -> list[range]:
    """Layers in order over cards, so that the fullest holds least: a load fills one card after the other, and fits where this does.

    cached  layer -> bytes of its cache
    """
    split_layers(len(model.layers), pp, "first")  # refuses more cards than layers

    def size(weights: tuple[WeightTensor, ...]) -> int:
        return sum(rank_bytes(w, formats, tp=1, ep=1) for w in weights)

    known = {id(layer): size(layer.weights) + cached(layer) for layer in distinct(model.layers)}
    sizes = [known[id(layer)] for layer in model.layers]
    sizes[-1] += size(model.last)

    def cut(most: int) -> list[range]:
        found: list[range] = []
        start = filled = 0
        for i, n_bytes in enumerate(sizes):
            if i > start and (filled + n_bytes > most or len(sizes) - i < pp - len(found)):
                found.append(range(start, i))
                start, filled = i, 0
            filled += n_bytes
        return [*found, range(start, len(sizes))]

    return cut(longest(lambda most: most < max(sizes) or len(cut(most)) > pp, sum(sizes)) + 1)
