"""transformers: a model on its device and the cache objects of `generate`, or the paged cache of continuous batching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, row_bytes
from kvplan.engines.common import lora, whole
from kvplan.engines.common.drafters import both_kept, drafter, unknown, without_weights
from kvplan.engines.common.lines import modelled
from kvplan.engines.common.protocol import ChosenBy, Engine, Outcome, Settled, refused
from kvplan.engines.common.registries import Registry, listed
from kvplan.engines.common.settling import lowered, over_tp_and_pp, resolve, served_in
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.transformers import activations, layers, methods, options, paged, quantized
from kvplan.engines.transformers import rules as releases
from kvplan.engines.transformers.facts import FACTS
from kvplan.engines.transformers.options import TransformersOptions
from kvplan.errors import SpecError
from kvplan.ledger import Entry
from kvplan.tensors import Cache, CacheFormats, Layer, Lowered, distinct
from kvplan.units import F32

SOURCE = "transformers {} cache_utils.py"
REGISTRY = Registry(listed("common/transformers_classes"), releases.VERSIONS)
#: Architectures that store K and V once for each query head -> from how many KV heads on.
REPEATS_KV: dict[str, int] = {"FalconForCausalLM": 2}
#: Architectures that mask a window but whose configuration names none, so that their caches keep every token.
WINDOW_IN_MASK_ONLY = frozenset({"GPTNeoForCausalLM"})


def settle(d: Deployment) -> Settled:
    """The question for `generate` or continuous batching, read and lowered."""
    release, notes = releases.find(d.engine_version)
    needed, pp = over_tp_and_pp(d, "transformers splits a model over tp (tp_plan) and pp (device_map) only")
    d, served = served_in(d, canonical(d.model.dtype, "dtype"), FACTS.title)
    notes = (*notes, *served)
    if d.dtype is None and release.version < (5, 0):
        notes = (*notes, f"before 5.0 from_pretrained loads in f32 unless it is told a dtype; {d.model.dtype} is taken to be told")
    if d.model.architecture in release.stops:
        version = ".".join(str(part) for part in release.version)
        notes = (*notes, f"{d.model.architecture} of {version} fails in its first forward: load its text class, or take the release before")
    asked_of = options.read(d)
    kind, compute = asked_of.kind, canonical(d.dtype or d.model.dtype, "dtype")
    backend = asked_of.backend if kind == "quantized" else None
    asked = None if d.kv_dtype in (None, "auto") else canonical(d.kv_dtype.split("/")[0], "KV cache format")
    if asked not in (None, compute, "fp8_e4m3" if backend == "fp8" else compute):
        raise SpecError("kv_dtype", [("", f"transformers keeps its cache in {compute}; smaller: cache_implementation=quantized")])
    longest = d.context or d.model.max_context
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (FACTS.name, "kvplan"),
        "engine_version": (releases.NEWEST, "kvplan"),
        "n_devices": (needed, "kvplan"),
        "pp": (pp or 1, "kvplan"),
        "max_model_len": (longest, "you" if d.context else "model"),
        "kv_dtype": ("fp8_e4m3" if backend == "fp8" else compute, "engine default"),
        "memory_fraction": (1.0 if kind != "paged" else 0.8 if asked_of.logits_processors else 0.9, "engine default"),
    }
    if kind == "paged":
        defaults["block_size"] = (release.page, "engine default")
        defaults["max_num_batched_tokens"] = (paged.MAX_BATCH_TOKENS, "engine default")
    elif not asked_of.chunk and d.max_num_batched_tokens is None:
        notes = (*notes, "a prompt is taken to be as long as the context and to go through in one pass (prefill_chunk_size: in several)")
    notes += asked_of.notes
    question, chosen_by, notes = resolve(replace(d, kv_dtype=None if d.kv_dtype == "auto" else d.kv_dtype), defaults, notes)
    lora.asked_modules(question)
    formats = CacheFormats(compute=compute, k=compute, v=compute, conv=compute, forced_state="f32")
    model = methods.as_loaded(question, lowered(question, formats))
    settings = _read(question, asked_of, backend, release, compute)
    notes = (*notes, *methods.loaded(question, compute)[1])
    as_kept = partial(layers.as_kept, s=settings.keeping)
    kept, found = both_kept(model, drafter(question, model, formats), as_kept)
    if any(a.form == "encoder-kv" and not a.tensors for layer in kept.layers for a in layer.caches):
        notes = (*notes, "without images, layers that look at them keep nothing: say how many tokens they are with encoder_tokens")
    drafts = without_weights(found.layers) if found else ()
    if found and kind == "paged":
        raise SpecError("speculative", [("", "continuous batching drafts with no model: cache_implementation=paged does not take one")])
    first = REGISTRY.later(d.model.architecture, d.engine_version)
    doubt = (f"{d.model.architecture} came with transformers {first}; before, the code of its repository has to be there",) if first else ()
    return Settled(
        question,
        chosen_by,
        notes,
        settings,
        kept,
        drafts,
        drafter=found,
        unknown=unknown(question, found),
        undecided=(*doubt, *methods.unread(question)),
    )


_NO_SDPA = "does not support an attention implementation through torch.nn.functional.scaled_dot_product_attention yet."


class _Settings(NamedTuple):
    """How `generate` keeps its cache; `paged`: continuous batching instead."""

    kind: str
    backend: str | None
    release: releases.Release
    keeping: layers.KeepSettings
    quantized: quantized.Quantized | None
    beams: int
    attention: str
    chunk: int | None
    paged: paged.PagedOptions | None


def _read(d: Deployment, o: TransformersOptions, backend: str | None, release: releases.Release, compute: str) -> _Settings:
    keeping = layers.KeepSettings(
        release=release,
        compute=compute,
        static_tokens=(d.max_model_len or d.context or 1) if o.kind == "static" else 0,
        encoder_tokens=d.encoder_tokens,
        images=d.encoder_tokens is not None or d.model.encoder is not None,
        repeats_from=REPEATS_KV.get(d.model.architecture or "", 0),
        windows=d.model.architecture not in WINDOW_IN_MASK_ONLY,
        every_window=d.model.cache_window or 0,
    )
    q = None
    if backend:
        q = quantized.Quantized(
            backend=backend,
            bits=o.nbits or (8 if backend == "fp8" else 4),
            group=o.group or 64,
            residual=o.residual or 128,
            compute=row_bytes(compute, 1),
            prompt=d.max_num_batched_tokens or 0,
        )
    pages = _paged(d, o, release) if o.kind == "paged" else None
    return _Settings(o.kind, backend, release, keeping, q, o.num_beams, o.attention, o.chunk, pages)


def plan(settled: Settled) -> Outcome:
    """Weights, caches and the moments with two copies; or the pages of continuous batching."""
    d, s, model = settled.question, settled.settings, settled.model
    (formats, _), keeping, q = methods.loaded(d, s.keeping.compute), s.keeping, s.quantized
    if stopped := methods.refusal(d):
        return refused(stopped)
    if s.paged is not None:
        return paged.plan(d, model, formats, s.paged)
    reason = _refusal(model, s.release, s.backend, q)
    if s.attention == "sdpa" and activations.without_sdpa(d.model.architecture or "", s.release.version):
        reason = f"{d.model.architecture} {_NO_SDPA}"
    if reason:
        return refused(reason)
    prompt = d.max_num_batched_tokens

    def held(layer: Layer, caches: tuple[Cache, ...]) -> tuple[KeptTensor, ...]:
        found = layers.held(layer, caches, keeping)
        found = quantized.quantize(found, q) if q else found
        return tuple(h._replace(at=_times(h, s.beams)) for h in found) if s.beams > 1 else found

    element = row_bytes(keeping.compute, 1)
    wide = activations.widths(distinct(model.layers), d.model.architecture or "", s.release.version, d.tp or 1, s.attention)

    def transients(context: int, batch: int, all_held: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
        """Of the two moments, a prompt's pass and a later token's, the one that takes more."""
        length = min(prompt or context, context)
        step = min(s.chunk or length, length)
        if q:
            full = max((q.compute * _elements(h, q, context) for h, _ in all_held), default=0)
            first: list[Entry] = []
            then = [quantized.transient(batch * full, q)] if full else []
        else:
            first, then = _moments(s.kind, context, batch, length, all_held)
        for moment, tokens, keys, name in ((first, step, length, "prompt"), (then, 1, context, "token")):
            size = activations.of_pass(wide, batch * s.beams, tokens, keys, element)
            moment.append(modelled(f"activations of a {name}", size, activations.SOURCE, "transient"))
        return max(first, then, key=lambda lines: sum(e.bytes for e in lines))

    rules = whole.Allocation(
        held=held,
        transients=transients,
        source=SOURCE.format(".".join(str(part) for part in s.release.version)),
        fraction=d.memory_fraction or 1.0,
        adapter_bytes=4,  # peft casts adapters to f32 (autocast_adapter_dtype)
        torch=True,
    )
    return whole.plan(d, model, formats, rules, settled.drafter)


def _refusal(model: Lowered, release: releases.Release, backend: str | None, q: quantized.Quantized | None) -> str | None:
    if backend is None or q is None:
        return None
    if backend == "fp8" and not release.fp8:
        return "Unknown quantization backend `fp8`"
    if q.bits not in quantized.BITS[backend]:
        known = ", ".join(f"`{n}`" for n in quantized.BITS[backend])
        return f"`nbits` for `{backend}` backend has to be one of [{known}] but got {q.bits}"
    other = {
        "linear_attention" if t.tokens_per_state is None else "sliding_attention"
        for layer in model.layers
        for cache in layer.caches
        for t in cache.tensors
        if t.tokens_per_state is None or t.keep.kind in ("window", "chunk")
    }
    if other:
        return (
            "`QuantizedCache` is only supported for models with only full attention layers."
            f" We found the following invalid layer types: {other}"
        )
    return None


def _moments(
    kind: str, context: int, batch: int, length: int, all_held: Sequence[tuple[KeptTensor, int]]
) -> tuple[list[Entry], list[Entry]]:
    """What is held twice: in a prompt's pass, the prompt behind the views of its last window; in a token's, a tensor and its longer
    successor, or a window rolled."""
    grown = [h for h, _ in all_held if not h.tensor.endswith("states")]
    if kind == "static":
        rolled = max((h.at(context) for h in grown if "sliding" in h.group), default=0)
        return [], [_moment("transient: a window rolled", batch * rolled, "StaticSlidingWindowLayer.update")] if rolled else []
    old = max((h.at(context - 1) for h in grown if not h.tensor.startswith("cross:")), default=0)
    behind = sum(n * (h.at(1) * length - h.at(length)) for h, n in all_held if "sliding" in h.group and not h.tensor.endswith("states"))
    return (
        [_moment("transient: prompt behind sliding views", batch * behind, "DynamicSlidingWindowLayer.update")] if behind > 0 else [],
        [_moment("transient: concatenation", batch * old, "DynamicLayer.update: torch.cat")] if old else [],
    )


def _moment(name: str, n: int, source: str) -> Entry:
    return Entry(name, n, 0, n, "modelled", f"transformers 5.23.0 cache_utils.py {source}", "transient")


def _elements(h: KeptTensor, q: quantized.Quantized, context: int) -> int:
    """Elements of a quantised tensor at a length."""
    if q.backend == "fp8":
        return max(0, h.at(context) - F32)
    one = h.at(1)  # a single token is all packed or all loose
    return context * (one // q.compute if q.loose(1) else one * 8 // q.bits)


def _times(h: KeptTensor, n: int) -> Any:
    return lambda tokens: n * h.at(tokens)


def _paged(d: Deployment, o: TransformersOptions, release: releases.Release) -> paged.PagedOptions:
    return paged.PagedOptions(
        flash=o.flash,
        use_async=o.use_async,
        logprobs=o.logprobs,
        logits_to_keep=o.logits_to_keep,
        num_blocks=o.num_blocks,
        max_blocks_per_request=paged.MAX_BLOCKS_PER_REQUEST if o.max_blocks_per_request is None else o.max_blocks_per_request,
        page=d.block_size or 256,
        max_batch_tokens=d.max_num_batched_tokens or paged.MAX_BATCH_TOKENS,
        fraction=d.memory_fraction or 0.9,
        peak_tp=(d.tp or 1) if release.split_peak else 1,
    )


ENGINE = Engine(FACTS, settle, plan)
