"""The layers that vLLM allocates for: the model's on their pipeline stages, then the drafter's, each mixer's tensors as vLLM types them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from kvplan.engines.common.releases import release
from kvplan.engines.vllm.before_v1 import latent_cache
from kvplan.engines.vllm.option_values import SLIDING
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.specs import KEPT_STATES
from kvplan.engines.vllm.wordings import Refused
from kvplan.errors import UnsupportedError
from kvplan.forms import ATTENTION, Form
from kvplan.parallel import split_layers
from kvplan.tensors import Cache, CacheTensor, Keep, Layer, Lowered, distinct

#: Speculative methods whose drafter is one attention layer on the model's own hidden states, where no model says more.
HEADS: tuple[str, ...] = ("eagle", "eagle3")


_Typed = tuple[Form, tuple[CacheTensor, ...]]


class Mixer(NamedTuple):
    """One mixer of one layer: its pipeline stage and its cache. `draft`: of the drafter; `skipped`: the cache's format leaves it out."""

    stage: int
    form: Form
    tensors: tuple[CacheTensor, ...]
    draft: bool = False
    skipped: bool = False

    @property
    def is_state(self) -> bool:
        return self.form in KEPT_STATES


def stages(model: Lowered, s: VllmSettings) -> list[range]:
    """The layers of each pipeline stage (vllm/distributed/utils.py get_pp_indices): as VLLM_PP_LAYER_PARTITION says, else evenly.

    Up to 0.7 all layers left over went to the last stage. Refused where the partition is none of this model.
    """
    n = len(model.layers)
    if s.pp > 1 and not s.rules.pipelines:
        raise Refused("Pipeline parallelism is not supported yet.")
    if s.partition is None:
        if s.rules.even_stages or s.pp > n:
            return split_layers(n, s.pp, "before_last")
        sizes = [n // s.pp] * (s.pp - 1)
        sizes.append(n - sum(sizes))
    else:
        try:
            sizes = [int(part) for part in s.partition.split(",")]
        except ValueError:
            raise Refused(f"Invalid partition string: {s.partition[:80]}") from None
        if len(sizes) != s.pp:
            raise Refused(f"len(partitions)={len(sizes)} does not match pp_size={s.pp}.")
        if sum(sizes) != n or min(sizes) < 0:
            raise Refused(f"sum(partitions)={sum(sizes)} does not match num_hidden_layers={n}.")
    ends = list(accumulate(sizes))
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def mixers(model: Lowered, s: VllmSettings) -> tuple[list[Mixer], tuple[str, ...]]:
    """Every mixer that keeps a cache, in the order vLLM registers them, and notes on what had to be assumed."""
    found, keys = [], _first_keys(model)
    known = {id(layer): _typed(layer, s, keys) for layer in distinct(model.layers)}
    for stage, layers in enumerate(stages(model, s)):
        for i in layers:
            found += [Mixer(stage, *typed, skipped=_skipped(i, typed[1], s)) for typed in known[id(model.layers[i])]]
    if s.skip_ends:  # TurboQuant leaves the first and last two attention layers of a dense model in the compute type
        for i in {0, 1, len(found) - 2, len(found) - 1} & set(range(len(found))):
            found[i] = found[i]._replace(skipped=True)
    drafts, notes = _drafts(model, s)
    return found + [Mixer(s.pp - 1, *typed, draft=True, skipped=skipped) for typed, skipped in drafts], notes


def _skipped(layer: int, tensors: Sequence[CacheTensor], s: VllmSettings) -> bool:
    """Whether the cache's format leaves a layer out (layers/attention/attention.py, from 0.28 on mla_attention.py)."""
    slides = any(t.keep.kind == "window" for t in tensors) and SLIDING in s.skip_layers
    found, names = slides or str(layer) in s.skip_layers, {t.name for t in tensors}
    found = found and not (s.packs_all and "latent" in names)
    return found and ("latent" not in names or s.since("0.28"))


def _drafts(model: Lowered, s: VllmSettings) -> tuple[list[tuple[_Typed, bool]], tuple[str, ...]]:
    """Caches of what drafts, and whether the format leaves each out: numbers are the target's, where those of what drafts are from 0."""
    if s.drafter is not None:
        n = len(model.layers)
        out = s._replace(skip_layers=s.skip_layers | {str(i) for i in (0, 1, n - 2, n - 1)}) if s.skip_ends else s
        keys = _first_keys(model)
        made = [(i, typed) for i, layer in enumerate(model.draft) for typed in _typed(layer, s, keys)]
        return [(typed, s.drafts_from_0 and _skipped(i, typed[1], out)) for i, typed in made], ()
    if s.method in HEADS:
        for layer in reversed(model.layers):
            for form, tensors in _typed(layer, s, _first_keys(model)):
                if form not in KEPT_STATES and any(t.name == "k" and t.keep.kind == "all" for t in tensors):
                    said = f"the {s.method} drafter is taken as one full-attention layer of the model's own KV heads"
                    return [((form, tensors), False)], (said,)
    return [], ()


def _first_keys(model: Lowered) -> CacheTensor | None:
    return next((cache.tensors[0] for layer in model.layers for cache in layer.caches if cache.form == "kv" and cache.tensors), None)


def _typed(layer: Layer, s: VllmSettings, first: CacheTensor | None) -> list[_Typed]:
    caches = [cache for cache in layer.caches if cache.tensors]
    if not s.rules.v1:  # one cache a layer: a decoder's own and its encoder's attention share it
        caches = sorted(caches, key=lambda cache: cache.form == "encoder-kv")[:1]
        return [latent_cache(cache.form, cache.tensors, layer, s.rules, s.packed) for cache in caches]
    return [(cache.form, _inputs(layer, cache, s, first) if cache.form == "depthwise-conv" else cache.tensors) for cache in caches]


def _inputs(layer: Layer, conv: Cache, s: VllmSettings, first: CacheTensor | None) -> tuple[CacheTensor, ...]:
    """Inkling's convolutions as vLLM keeps them: beside each KV head the head's share of all four, its width a power of two.

    models/inkling/nvidia/sconv_swa_attn.py, the same from 0.26 on. Qwen4-Exp's are a state. Raises UnsupportedError for others.
    """
    if s.pooled is not None and s.pooled.group:
        if s.pp > 1:
            raise Refused("Qwen4Exp N-gram PLE embedding requires pipeline_parallel_size=1")
        if s.formats.k != "bf16" and release(s.release) < (0, 31):
            raise Refused("Qwen4Exp QSA requires a BF16 main KV cache")
        return conv.tensors
    states, keys = conv.tensors[0], next((c.tensors[0] for c in layer.caches if c.form == "kv"), first)
    channels = states.elems_per_state // states.columns if states.columns else 0
    if release(s.release) < (0, 26):
        raise Refused("Model architectures ['InklingForCausalLM'] are not supported for now.")
    if keys is None or not channels or channels % (2 * keys.heads):
        raise UnsupportedError(f"vllm: the cache of {conv.kind} layers ({conv.form}) is not modelled here: only Inkling's is")
    if s.formats.compute != "bf16":
        raise Refused(f"sconv SWA cache supports bfloat16 only, got {s.formats.compute}")
    width = 1 << (channels // keys.heads - 1).bit_length()
    window = Keep("window", states.columns + 1)
    made = replace(states, heads=keys.heads, elems_per_state=width, dtype="bf16", tokens_per_state=1, columns=0, keep=window)
    return (made,)


def kind_of(s: VllmSettings) -> str:
    """Of the layers that keep keys and values: plain, latent or sparse; empty where there are none, several, or one not in the table."""
    tensors = {t.name for layer in distinct(s.served.layers) for cache in layer.caches if cache.form in ATTENTION for t in cache.tensors}
    forms = s.forms & ATTENTION
    if any(form.startswith("compressed") for form in forms):
        return ""
    latent = any(form.startswith("latent") for form in forms)
    if latent and "k" in tensors:
        return ""
    return ("sparse" if "index_k" in tensors else "latent") if latent else "plain" if "k" in tensors else ""
