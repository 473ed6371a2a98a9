"""What every engine resolves the same way: names left open, formats, the model as tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, canonical_weight, parse_kv_dtype, row_bytes
from kvplan.engines.common.protocol import ChosenBy, Defaults, Resolved, Settled
from kvplan.errors import SpecError, UnsupportedError
from kvplan.gguf_files import sized
from kvplan.llama_quantize import FILE_TYPES
from kvplan.spec import ModelSpec, lower
from kvplan.tensors import (
    KEPT_MODELS,
    Cache,
    CacheFormats,
    Curve,
    Layer,
    Lowered,
    Role,
    Same,
    changed,
    distinct,
    layer_counts,
    tensor_curve,
    total,
)
from kvplan.units import counted
from kvplan.uploads import RECURRENT
from kvplan.weights import WeightFormats, asked_formats, draft_formats, is_quantized, role_formats, with_stored


def has_towers(d: Deployment) -> bool:
    """Whether the model has towers: declared, or in its GGUF files alone."""
    return bool(d.model.towers) or (d.stored is not None and bool(d.stored.by_stack().get("tower")))


def resolve(d: Deployment, defaults: Defaults, notes: tuple[str, ...] = ()) -> Resolved:
    """`d` with `defaults` for what was not chosen, then what every engine resolves the same way: model facts and sizes of one."""
    common: dict[str, tuple[Any, ChosenBy]] = dict.fromkeys(("tp", "pp", "dp", "ep", "dcp", "batch"), (1, "kvplan"))
    common |= {
        "dtype": (d.model.dtype, "model"),
        "weight_dtype": (checkpoint_format(d), "model"),
        "kv_dtype": ("auto", "kvplan"),
        "context": (d.max_model_len or d.model.max_context, "you" if d.max_model_len else "model"),
        "encoder_tokens": (d.model.encoder_tokens, "model"),
        "reserve": (0, "kvplan"),
        "multimodal": ("on" if has_towers(d) else "off", "model"),
        "speculative": ("off", "kvplan"),
        "lora": ("off", "kvplan"),
        "enforce_eager": (False, "kvplan"),
        "calibration": ("packaged", "kvplan"),
        **defaults,
    }
    chosen: dict[str, ChosenBy] = {}
    filled: dict[str, Any] = {}
    for name, (value, by) in common.items():
        if getattr(d, name) is None:
            filled[name], chosen[name] = value, by
    if (filled.get("context") or d.context) is None:
        raise SpecError("context", [("", f"{d.model.id} declares no maximum length; say how many tokens with --context")])
    question = replace(d, **filled)
    for name in ("context", "batch"):
        if getattr(question, name) < 1:
            raise SpecError(name, [("", "at least 1")])
    return Resolved(question, chosen, notes)


def wrong_number(sizes: str, needed: int, given: int | None) -> SpecError:
    """Parallel sizes that take another number of devices than is given (n_devices, or a device such as 8xH100)."""
    takes = counted(needed, "device")
    return SpecError("n_devices", [("", f"{sizes} {takes}, not {given}: change these sizes, or the number of devices")])


def over_tp_and_pp(d: Deployment, why: str) -> tuple[int, int]:
    """Devices and stages where a model is split over tp and pp alone; a number of devices without sizes is that many stages.

    why  what is said of other sizes. Raises UnsupportedError, SpecError.
    """
    for size in ("dp", "ep", "dcp"):
        if (getattr(d, size) or 1) > 1:
            raise UnsupportedError(f"{size}: {why}")
    needed = (d.tp or 1) * (d.pp or 1)
    if d.n_devices is None or d.n_devices == needed:
        return needed, d.pp or 1
    if d.tp or d.pp:
        raise wrong_number(f"tp {d.tp or 1} x pp {d.pp or 1} needs", needed, d.n_devices)
    return d.n_devices, d.n_devices


def served_in(d: Deployment, dtype: str, title: str) -> tuple[Deployment, tuple[str, ...]]:
    """The question where an engine serves a plain checkpoint in another compute type than its own, and the note that says so.

    `dtype`: what its `auto` is. An engine that is told another one loads plain weights in that (of 16 bits either takes as much).
    """
    own = canonical(d.model.dtype, "dtype")
    served, how = (dtype, "dtype auto") if d.dtype is None else (canonical(d.dtype, "dtype"), "the dtype asked for")
    if own == served or (d.dtype is not None and "f32" not in (own, served)):
        return d, ()
    note = f"{title} serves a checkpoint in {d.model.dtype} in {served} ({how}): its plain weights are counted in that"
    return replace(d, model=d.model.changed(dtype=served)), (note,)


def checkpoint_format(d: Deployment) -> str:
    """The format of the model's own checkpoint; several joined by +."""
    return format_of(d.model)


def format_of(model: ModelSpec) -> str:
    """The format of a model's checkpoint; several joined by +."""
    if model.checkpoint:
        return canonical_weight(model.checkpoint)
    formats = sorted({q.format for q in model.quantization} or {found.format for found in model.deviations if found.format})
    return "+".join(formats) if formats else model.dtype


def stored_plain(format_: str) -> bool:
    """Whether a checkpoint's format (`format_of`) is a plain type."""
    return not is_quantized(canonical_weight(format_.split("+")[0]))


def cache_formats(d: Deployment) -> CacheFormats:
    """The cache formats of a settled question: `auto` is what the checkpoint declares, else the compute type."""
    compute = canonical(d.dtype or d.model.dtype, "dtype")
    asked = d.kv_dtype or "auto"
    if asked == "auto":
        asked = d.model.kv_dtype or compute
    k, v = parse_kv_dtype(asked)
    return CacheFormats(compute=compute, k=k, v=v, conv=compute, state="f32")


def lowered(d: Deployment, formats: CacheFormats, *, cast: bool = False) -> Lowered:
    """The question's model as tensors, with the bytes its checkpoint stores where they are known and no other format is asked for.

    cast  the engine makes its parameters in the compute type, whatever plain type a file has
    """
    model = lower(d.model, formats)
    own = d.weight_dtype in (None, checkpoint_format(d))
    if d.stored is None or not own:
        name = d.model.checkpoint if own else d.weight_dtype
        file_type = canonical_weight(name) if name else ""
        return sized(Same(model), file_type, d.model.architecture, d.model.hub_id or d.model.id).model if file_type in FILE_TYPES else model
    return with_stored(model, d.stored.cast(2 if formats.compute in ("f16", "bf16") else 4) if cast else d.stored)


def lowered_or_plain(
    d: Deployment, formats: CacheFormats, *, cast: bool = False, kept: Callable[[Lowered], Lowered] = lambda model: model
) -> tuple[Lowered, SpecError | None]:
    """`lowered`, as `kept` by the engine; where a format can not hold this model's rows, in the compute type, and the reason."""
    try:
        model = kept(lowered(d, formats, cast=cast))
        for tensor in (t for layer in distinct((*model.layers, *model.draft)) for cache in layer.caches for t in cache.tensors):
            row_bytes(tensor.dtype, tensor.elems_per_state)
        return model, None
    except SpecError as misfit:
        return kept(lowered(d, formats._replace(k=formats.compute, v=formats.compute), cast=cast)), misfit


def remade(model: Lowered, change: Callable[[Layer, Cache], Cache]) -> Lowered:
    """The model with its caches as an engine keeps them, where formats alone do not say how; equal layers still share one object."""

    def kept(layer: Layer) -> Layer:
        caches = tuple(change(layer, cache) for cache in layer.caches)
        return layer if caches == layer.caches else replace(layer, caches=caches)

    return changed(model, kept)


def without_towers(model: Lowered) -> Lowered:
    """The model without its vision and audio towers, where an engine does not load them."""
    return replace(model, first=tuple(w for w in model.first if w.role != "tower"))


def states_in(cache: Cache, dtype: str) -> Cache:
    """The cache with its recurrent state in that format."""
    return replace(cache, tensors=tuple(replace(t, dtype=dtype) if t.name == "state" else t for t in cache.tensors))


def without(cache: Cache, *names: str) -> Cache:
    """The cache without tensors that an engine computes anew instead of keeping them; without names, without any."""
    return replace(cache, tensors=tuple(t for t in cache.tensors if names and t.name not in names))


def whole_curve(settled: Settled) -> Curve:
    """The cache of one sequence of a settled question over its length, whole and unreplicated."""
    tensors = ((t, n) for layer, n in layer_counts(settled.layers) for cache in layer.caches for t in cache.tensors)
    return total(tensor_curve(t, encoder_tokens=settled.question.encoder_tokens).times(n) for t, n in tensors)


#: How the names of classes begin whose checkpoints and GGUF files never hold an output beside the embedding (convert_hf_to_gguf.py).
NEVER_APART = ("Gemma", "Cohere")


#: Formats of a cache, where no cache is asked about.
_ANY = CacheFormats("bf16", "bf16", "bf16", "bf16", "f32")


#: What lines took on NVIDIA's cards where the config says that they are in one of these formats, as shares: 14 of 15 start-up logs
#: (tools/logged_weights.py). NVFP4 and integers of 4 bits were up to 2 % off: kernels lay out their scales anew.
TOLD, NARROW = (0.99, 1.01), ("fp8", "mxfp", "int8_channel")


def weight_formats(d: Deployment) -> WeightFormats:
    """Role -> format of the weights: the checkpoint's own, or the one asked for (a quantised one applies to the layers' matrices)."""
    return _weight_formats(Same(d.model), d.weight_dtype, d.device is not None and d.device.vendor == "nvidia")


@lru_cache(maxsize=KEPT_MODELS)
def _weight_formats(same: Same[ModelSpec], weight_dtype: str | None, cuda: bool) -> WeightFormats:
    model = same.it
    base = canonical_weight(model.dtype)
    asked = _only_named(model, weight_dtype)
    if asked is None:
        own: dict[Role, str] = {role: canonical_weight(q.format) for q in model.quantization for role in q.roles}
        narrow = cuda and all(name.startswith(NARROW) for name in own.values())
        return role_formats(base, own, single=bool(model.deviations), ends=TOLD if narrow else None)
    if not is_quantized(asked):
        return role_formats(asked, {})
    hybrid = any(mixer.kind in RECURRENT for block in model.blocks.values() for mixer in block.mixers)
    tied = model.tied_embeddings and not (model.architecture or "").startswith(NEVER_APART)
    file = sized(Same(lower(model, _ANY)), asked, model.architecture, model.hub_id or model.id) if asked in FILE_TYPES else None
    published = (file.ends, file.said) if file and file.ends else None
    return asked_formats(base, asked, routed=model.routed, hybrid=hybrid, tied=tied, published=published)


def _only_named(model: ModelSpec, weight_dtype: str | None) -> str | None:
    """The format of which only the name is known; None where the checkpoint's config says what is in which."""
    if model.checkpoint is None and weight_dtype in (None, format_of(model)):
        return None
    return canonical_weight(weight_dtype or model.checkpoint or "")


def own_draft_formats(d: Deployment) -> WeightFormats:
    """Role -> format of the draft modules that the model itself ships."""
    asked = _only_named(d.model, d.weight_dtype)
    formats = weight_formats(d)
    return formats if asked is None else draft_formats(formats, canonical_weight(d.model.dtype), asked)
