"""The layers that vLLM allocates for: the model's on their pipeline stages, then the drafter's, each mixer's tensors as vLLM types them."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.vllm.drafter import DRAFTERS
from kvplan.engines.vllm.settle import VllmSettings
from kvplan.engines.vllm.specs import unquantised
from kvplan.engines.vllm.wordings import Refused
from kvplan.forms import STATES, Form
from kvplan.parallel import split_layers
from kvplan.tensors import CacheTensor, Layer, Lowered

#: Speculative methods whose drafter is one attention layer on the model's own hidden states.
HEADS: tuple[str, ...] = ("eagle", "eagle3")


_Typed = tuple[Form, tuple[CacheTensor, ...]]


class Mixer(NamedTuple):
    """One mixer of one layer: its pipeline stage and its cache."""

    stage: int
    form: Form
    tensors: tuple[CacheTensor, ...]

    @property
    def is_state(self) -> bool:
        return self.form in STATES


def stages(model: Lowered, s: VllmSettings) -> list[range]:
    """The layers of each pipeline stage (vllm/distributed/utils.py get_pp_indices)."""
    return split_layers(len(model.layers), s.pp, "before_last")


def mixers(model: Lowered, s: VllmSettings) -> tuple[list[Mixer], tuple[str, ...]]:
    """Every mixer that keeps a cache, in the order vLLM registers them, and notes on what had to be assumed."""
    found = []
    for stage, layers in enumerate(stages(model, s)):
        for i in layers:
            found += [Mixer(stage, *typed) for typed in _typed(model.layers[i], s)]
    if s.skip_ends:  # TurboQuant leaves the first and last two attention layers of a dense model in the compute type
        for i in {0, 1, len(found) - 2, len(found) - 1} & set(range(len(found))):
            found[i] = found[i]._replace(tensors=tuple(unquantised(found[i].tensors, s.formats.compute)))
    drafts, notes = _drafts(model, s)
    return found + [Mixer(s.pp - 1, *typed) for typed in drafts], notes


def _drafts(model: Lowered, s: VllmSettings) -> tuple[list[_Typed], tuple[str, ...]]:
    if s.method == "mtp" and not model.draft:
        raise Refused("speculative method mtp: this model ships no MTP module")
    if s.method == "mtp" or s.method in DRAFTERS:
        return [typed for layer in model.draft for typed in _typed(layer, s)], ()
    if s.method in HEADS:
        for layer in reversed(model.layers):
            for form, tensors in _typed(layer, s):
                if form not in STATES and any(t.name == "k" and t.keep.kind == "all" for t in tensors):
                    return [(form, tensors)], (f"the {s.method} drafter is taken as one full-attention layer of the model's own KV heads",)
    return [], ()


def _typed(layer: Layer, s: VllmSettings) -> list[_Typed]:
    caches = [cache for cache in layer.caches if cache.tensors]
    if not s.rules.v1:  # one cache a layer: a decoder's own and its encoder's attention share it
        caches = sorted(caches, key=lambda cache: cache.form == "encoder-kv")[:1]
    return [(cache.form, cache.tensors) for cache in caches]
