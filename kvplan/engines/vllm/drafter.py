"""What --speculative-config says of a drafter alone: how its weights are made, what its cache is kept in, over which ranks it lies.

`config/speculative.py` of 0.10.2 to 0.33. A drafter with weights of its own is read by its own config and by `quantization`
(model_executor/models/utils.py get_draft_quant_config, which Llama's heads have from 0.12 on; v1/spec_decode/draft_model.py). V1 builds it
over the target's ranks, whatever `draft_tensor_parallel_size` says (layers ask get_tp_group), V0 on the first ones alone
(spec_decode/smaller_tp_proposer_worker.py). `kv_cache_dtype` is there from 0.26 on.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.dtypes import parse_kv_dtype
from kvplan.engines.common.drafters import drafter
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Drafter
from kvplan.engines.common.settling import format_of, stored_plain, weight_formats
from kvplan.engines.vllm.quantised import MADE
from kvplan.engines.vllm.rules import VllmRules
from kvplan.tensors import Cache, CacheFormats, Layer, Lowered, WeightTensor

#: The first release in which EAGLE's heads are; before, their layers are handed no quantisation (models/llama_eagle.py).
HEADS_SINCE = "0.12"
#: Key of --speculative-config -> the engine option that says it.
KEYS = {
    "quantization": "draft_quantization",
    "kv_cache_dtype": "draft_kv_cache_dtype",
    "max_model_len": "draft_max_model_len",
    "draft_tensor_parallel_size": "draft_tensor_parallel_size",
}


def read_drafter(
    d: Deployment, model: Lowered, formats: CacheFormats, options: Options, rules: VllmRules, *, heads: bool, most: int | None
) -> Drafter | None:
    """What drafts, with its weights in the format that they are made in as they are loaded, and its caches in theirs.

    formats  the target's cache formats; most: how many of a model's own modules are loaded
    heads    whether EAGLE's heads are loaded as they themselves say (`HEADS_SINCE`)
    """
    kept, ranks = options.text("draft_kv_cache_dtype"), options.count("draft_tensor_parallel_size")
    if kept:
        k, v = (formats.compute, formats.compute) if kept == "auto" else parse_kv_dtype(kept)
        formats = formats._replace(k=k, v=v)
    found = drafter(d, model, formats, most=most)
    if found is None:
        return None
    if kept and d.drafter is None:
        found = found._replace(layers=tuple(_kept_in(layer, formats) for layer in found.layers))
    if (format_ := _made(d, options.text("draft_quantization"))) and (heads or not str(d.speculative).startswith("eagle")):
        found = found._replace(
            formats=weight_formats(replace(d, model=d.drafter or d.model, drafter=None, weight_dtype=format_, stored=None))
        )
    if not rules.v1 and (d.tp or 1) > 1 and ranks == 1:
        whole = tuple(w._replace(units=1) for w in found.weights)
        return found._replace(weights=whole, layers=tuple(_whole(layer) for layer in found.layers))
    return found


def _made(d: Deployment, method: str | None) -> str | None:
    """The format that a drafter's plain weights are made in as they are loaded; None where they stay as they are (quantised.py)."""
    plain = d.drafter is not None and stored_plain(format_of(d.drafter))
    return MADE.get(method or "") if plain else None


def _kept_in(layer: Layer, formats: CacheFormats) -> Layer:
    """A layer of the model's own modules, its keys and values in other formats."""
    kept = {"k": formats.k, "v": formats.v, "latent": formats.k}
    caches = tuple(replace(c, tensors=tuple(replace(t, dtype=kept.get(t.name, t.dtype)) for t in c.tensors)) for c in layer.caches)
    return replace(layer, caches=caches)


def _whole(layer: Layer) -> Layer:
    """A layer that one rank holds all heads of."""

    def one(cache: Cache) -> Cache:
        return replace(cache, tensors=tuple(replace(t, heads=1, elems_per_state=t.heads * t.elems_per_state) for t in cache.tensors))

    weights: tuple[WeightTensor, ...] = tuple(w._replace(units=1) for w in layer.weights)
    return replace(layer, caches=tuple(map(one, layer.caches)), weights=weights)


def said_of_drafter(d: Deployment, found: Drafter | None, options: Options, rules: VllmRules) -> tuple[str, ...]:
    """What is to be said of such options where they move nothing."""
    given = {key: option for key, option in KEYS.items() if options.text(option)}
    if found is None:
        asked = d.speculative not in (None, "off")
        why = "nothing drafts whose layers are known" if asked else "nothing drafts; --speculative says what does"
        return tuple(f"{option}: {why}" for option in given.values())
    notes = []
    if "quantization" in given and d.drafter is None:
        notes.append("draft_quantization: modules that a model ships are loaded by the model's own method")
    if "draft_tensor_parallel_size" in given and rules.v1:
        notes.append("draft_tensor_parallel_size: V1 builds a drafter over all ranks of its target, whatever this says")
    return tuple(notes)
