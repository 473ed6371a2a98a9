"""What exllamav3 loads onto which card, and what it leaves in host memory or in its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan.engines.common.grouped_keys import TABLE
from kvplan.engines.common.lines import Span, modelled, weight_entries
from kvplan.engines.common.settling import without_towers
from kvplan.engines.exllamav3.releases import Rules
from kvplan.ledger import Entry
from kvplan.parallel import split_layers
from kvplan.tensors import Layer, Lowered, WeightTensor, distinct
from kvplan.units import MIB, longest
from kvplan.weights import Tensors, WeightFormats, rank_bytes

#: Sides of a stack of matrices.
MATRICES = 3


class Beside(NamedTuple):
    """What stays in host memory: experts of the first `layers` layers with any (moe_cpu_offload), or the last `experts` of each layer
    (moe_cpu_split); tables of n-grams (ngram_ram); towers (vision_pinned)."""

    layers: int = 0
    experts: int = 0
    tables: bool = False
    towers: bool = False


def on_devices(model: Lowered, towers: bool, beside: Beside) -> tuple[Lowered, list[tuple[WeightTensor, int]]]:
    """What is loaded onto devices, and what host memory has, with how often. Embeddings are there, a table of n-grams is in its file or
    there. A file has an output of its own, whether the model is tied or not; towers are a model of their own, loaded for images."""
    off = [(model.embedding, 1)] if model.embedding else []
    off += [(w, 1) for layer in model.layers for w in layer.weights if w.name == TABLE and beside.tables]
    off += [(w, 1) for w in model.first if w.role == "tower" and towers and beside.towers]
    layers = [replace(x, weights=tuple(w for w in x.weights if w.name != TABLE)) if has_table(x) else x for x in model.layers]
    for at in [i for i, layer in enumerate(layers) if any(w.experts for w in layer.weights)][: beside.layers]:
        gone = tuple(w for w in layers[at].weights if w.experts)
        off += [(w, 1) for w in gone]
        layers[at] = replace(layers[at], weights=(*(w for w in layers[at].weights if not w.experts), *_signs(gone)))
    if beside.experts:
        parts = {id(layer): (layer, *split(layer.weights, beside.experts)) for layer in layers}  # equal layers are one object
        off += [(w, 1) for layer in layers for w in parts[id(layer)][2]]
        made = {key: replace(layer, weights=kept) for key, (layer, kept, _) in parts.items()}
        layers = [made[id(layer)] for layer in layers]
    last = model.last
    if model.tied and model.embedding:
        last = (model.embedding._replace(name="lm_head", role="head"), *last)
    kept_here = model if towers and not beside.towers else without_towers(model)
    return replace(kept_here, layers=tuple(layers), embedding=None, last=last, tied=False), off


def split(weights: Sequence[WeightTensor], n: int) -> tuple[tuple[WeightTensor, ...], tuple[WeightTensor, ...]]:
    """What a device has without the last `n` experts of each stack, and those."""
    gone = tuple(_experts(w, n) for w in weights if w.experts > n)
    return (*(_experts(w, w.experts - n) if w.experts > n else w for w in weights), *_signs(gone)), gone


def _signs(gone: Sequence[WeightTensor]) -> tuple[WeightTensor, ...]:
    """What stays on the device of experts that the CPU has: two vectors of each matrix in f16, as long as its sides (suh, svh)."""
    n = sum(w.experts * (w.shape[-1] + w.shape[-2]) for w in gone if len(w.shape) == MATRICES)
    return (WeightTensor("expert_signs", (n,), "other"),) if n else ()


def _experts(w: WeightTensor, n: int) -> WeightTensor:
    """A stack of so many of its experts."""
    return w._replace(shape=(n, *w.shape[1:]), experts=n, stored=None if w.stored is None else w.stored * n // w.experts)


def table_bytes(w: WeightTensor, weight_dtype: str) -> Span:
    """Bytes of a table of n-grams in host memory: in EXL3 rows of K bits an element and 16 bits more (modules/ngram_embedding.py
    words_per_row), where K is what convert_model.py takes without --ngram_bits, the file's bits rounded, and may be 1 to 8."""
    if w.stored is not None:
        return Span(w.stored, w.stored, w.stored)
    rows = w.elems // w.shape[-1]
    bits = re.search(r"exl3_([\d.]+)", weight_dtype)
    if bits is None:
        return Span(*[2 * w.elems] * 3)
    return Span(*(2 * rows * (k * w.shape[-1] // 16 + 1) for k in (max(1, min(8, round(float(bits[1])))), 1, 8)))


def host_lines(beside: Tensors, formats: WeightFormats, weight_dtype: str) -> list[Entry]:
    """Lines of what stays in host memory."""
    tables = [table_bytes(w, weight_dtype) for w, _ in beside if w.name == TABLE]
    found = weight_entries([(w, n) for w, n in beside if w.name != TABLE], formats, tp=1, ep=1)
    return [*found, *(modelled("weights: table of n-grams", one, "", "weights") for one in tables)]


def rings_of_experts(rules: Rules) -> Span:
    """Bytes on each card that prompts bring experts through from the CPU: two slots of 32 MiB (EXL3_MOE_CPU_WSLOTS, _WSLOT_MB), and two
    more where its kernels have AVX-512 and packed experts."""
    return Span(64 * MIB, 64 * MIB, 128 * MIB if rules.packed else 64 * MIB)


def has_table(layer: Layer) -> bool:
    """Whether a layer looks n-grams up in a table."""
    return any(w.name == TABLE for w in layer.weights)


def stages(model: Lowered, formats: WeightFormats, cached: Callable[[Layer], int], taken: Sequence[int]) -> list[range]:
    """Layers in order over cards, so that the fullest holds least: a load fills one card after the other, and fits where this does.

    cached  layer -> bytes of its cache
    taken   for each card the bytes that it has less to give than the one with most
    """
    pp = len(taken)
    split_layers(len(model.layers), pp, "first")  # refuses more cards than layers

    def size(weights: tuple[WeightTensor, ...]) -> int:
        return sum(rank_bytes(w, formats, tp=1, ep=1) for w in weights)

    known = {id(layer): size(layer.weights) + cached(layer) for layer in distinct(model.layers)}
    sizes = [known[id(layer)] for layer in model.layers]
    sizes[-1] += size(model.last)

    def cut(most: int) -> list[range]:
        found: list[range] = []
        start, filled = 0, taken[0]
        for i, n_bytes in enumerate(sizes):
            left = pp - len(found) - 1
            if i > start and left and (filled + n_bytes > most or len(sizes) - i <= left):
                found.append(range(start, i))
                start, filled = i, taken[len(found)]
            filled += n_bytes
        return [*found, range(start, len(sizes))]

    def fullest(cards: list[range]) -> int:
        return max(there + sum(sizes[one.start : one.stop]) for there, one in zip(taken, cards, strict=True))

    return cut(longest(lambda most: fullest(cut(most)) > most, sum(sizes) + max(taken)) + 1)
