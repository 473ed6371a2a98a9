"""The layers that vLLM allocates for: the model's on their pipeline stages, then the drafter's, each mixer's tensors as vLLM types them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan.engines.vllm.drafter import DRAFTERS
from kvplan.engines.vllm.settle import Settings
from kvplan.engines.vllm.specs import KDA, recurrence, states_of, unquantised
from kvplan.engines.vllm.wordings import Refused
from kvplan.parallel import split_layers
from kvplan.tensors import CacheTensor, Layer, Lowered

#: Speculative methods whose drafter is one attention layer on the model's own hidden states.
HEADS: tuple[str, ...] = ("eagle", "eagle3")


class Mixer(NamedTuple):
    """One mixer of one layer: its pipeline stage and its cache."""

    stage: int
    tensors: tuple[CacheTensor, ...]


def stages(model: Lowered, s: Settings) -> list[range]:
    """The layers of each pipeline stage (vllm/distributed/utils.py get_pp_indices)."""
    return split_layers(len(model.layers), s.pp, "before_last")


def mixers(model: Lowered, s: Settings) -> tuple[list[Mixer], tuple[str, ...]]:
    """Every mixer that keeps a cache, in the order vLLM registers them, and notes on what had to be assumed."""
    found = []
    for stage, layers in enumerate(stages(model, s)):
        for i in layers:
            found += [Mixer(stage, tensors) for tensors in _typed(model.layers[i], s)]
    if s.skip_ends:  # TurboQuant leaves the first and last two attention layers of a dense model in the compute type
        for i in {0, 1, len(found) - 2, len(found) - 1} & set(range(len(found))):
            found[i] = Mixer(found[i].stage, tuple(unquantised(found[i].tensors, s.formats.compute)))
    drafts, notes = _drafts(model, s)
    return found + [Mixer(s.pp - 1, tensors) for tensors in drafts], notes


def _drafts(model: Lowered, s: Settings) -> tuple[list[tuple[CacheTensor, ...]], tuple[str, ...]]:
    if s.method == "mtp" and not model.draft:
        raise Refused("speculative method mtp: this model ships no MTP module")
    if s.method == "mtp" or s.method in DRAFTERS:
        return [tensors for layer in model.draft for tensors in _typed(layer, s)], ()
    if s.method in HEADS:
        for layer in reversed(model.layers):
            for tensors in _typed(layer, s):
                if any(t.name == "k" and t.keep.kind == "all" for t in tensors):
                    return [tensors], (f"the {s.method} drafter is taken as one full-attention layer of the model's own KV heads",)
    return [], ()


def _typed(layer: Layer, s: Settings) -> list[tuple[CacheTensor, ...]]:
    caches = [cache.tensors for cache in layer.caches if cache.tensors]
    if not s.rules.v1:  # one cache a layer: a decoder's own and its encoder's attention share it
        caches = sorted(caches, key=lambda tensors: tensors[0].keep.kind == "source")[:1]
    return [_kda(tensors, s) for tensors in caches]


def _kda(tensors: Sequence[CacheTensor], s: Settings) -> tuple[CacheTensor, ...]:
    """Kimi delta attention keeps its state in f32 unless told otherwise (mamba_utils.py kda_state_dtype)."""
    states = states_of(tensors)
    if states and s.formats.forced_state is None and recurrence(states) is KDA:
        return tuple(replace(t, dtype="f32") if t.name == "state" else t for t in tensors)
    return tuple(tensors)
