"""llama.cpp: a context of a fixed size, allocated whole at the start, layers on the devices as far as -ngl goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import GGUF_TYPES, canonical, canonical_weight
from kvplan.engines.common import lora
from kvplan.engines.common.conditions import encodes
from kvplan.engines.common.drafters import drafter, own_tensors, unknown, without_weights
from kvplan.engines.common.grouped_keys import TABLE, key_group
from kvplan.engines.common.protocol import Certainty, ChosenBy, Settled
from kvplan.engines.common.settling import lowered_or_plain, remade, resolve
from kvplan.engines.llama_cpp import caches, context, fit, options, situation
from kvplan.engines.llama_cpp.loaded import Loaded, load
from kvplan.engines.llama_cpp.placement import Placed
from kvplan.engines.llama_cpp.registry import CONVERTED
from kvplan.engines.llama_cpp.registry import unknown as unknown_model
from kvplan.engines.llama_cpp.rules import WINDOWS_IGNORED, LlamaRules, build_of, find
from kvplan.engines.llama_cpp.situation import Situation
from kvplan.engines.llama_cpp.ways import OTHERS, SERVER, no_graph
from kvplan.errors import SpecError, UnsupportedError
from kvplan.tensors import CacheFormats, Lowered, changed
from kvplan.uploads import file_of

#: What of the target's context holds for the drafter's too.
DRAFT_OPTIONS = ("kv_unified", "n_ubatch", "flash_attn", "swa_full", "device_memory", "server", "tensor_split", "n_gpu_layers_draft")


class LlamaSettings(NamedTuple):
    """A settled question as llama.cpp sees it: the model read, one pool for all sequences or streams of their own.

    own_slots, own_cells: -np and -c stay as they are, whatever sequences are asked for
    fitted    what --fit puts where, at the question's -c; None: the question's -ngl decides
    placing   who decides what goes on the devices, from -c and -np; None: the question's -ngl does
    beside    what is said where host memory is too small, with what is needed and what there is
    printed   what is logged of that, beside llama.cpp's own lines
    sure      how sure it is that this keeps everything on the devices, or does not
    dealt     what it deals out is as much as its own count finds room for: how little that leaves of a device says nothing
    stays     --fit, which nothing keeps from it, moves nothing to host memory (False: it does); None: that is no matter
    alone     no other model is loaded beside this one
    unread    why this build does not load such a model; None: it does, or nobody knows
    whole     what is said where layers stay beside the devices and nobody asked for that; None: that is no matter
    """

    loaded: Loaded
    rules: LlamaRules
    unified: bool
    own_slots: bool
    own_cells: bool
    fitted: Placed | None = None
    placing: Callable[[int, int], Placed] | None = None
    sure: Callable[[int, int], Certainty] | None = None
    dealt: bool = False
    stays: bool | None = None
    unread: str | None = None
    whole: str | None = None
    beside: str | None = None
    printed: Callable[[int, int], tuple[str, ...]] | None = None
    alone: bool = True


def settle(d: Deployment) -> Settled:
    """The question with llama.cpp's defaults, read and lowered. Raises SpecError and UnsupportedError for what it can not do."""
    rules, notes = find(d.engine_version)
    d, whole = _in_one_batch(d)
    made = settle_with(d, rules, (*notes, *whole), name="llama.cpp", version=f"b{rules.build}")
    chosen_by: dict[str, ChosenBy] = {**made.chosen_by, **({"max_num_batched_tokens": "kvplan"} if whole else {})}
    settings: LlamaSettings = made.settings
    unread = unknown_model(d.model.architecture, build_of(d.engine_version or ""))
    return made._replace(chosen_by=chosen_by, settings=settings._replace(unread=unread), undecided=unserved(d.model.architecture or ""))


def _in_one_batch(d: Deployment) -> tuple[Deployment, tuple[str, ...]]:
    """The batches that let an encoder read the question's request, where nobody set what a server takes, and a note of them."""
    given, n = dict(d.engine_option), d.context or 0
    said = "n_ubatch" in given or "server" in given or d.max_num_batched_tokens or d.max_model_len
    if not encodes(d.model) or said or n <= context.N_UBATCH:
        return d, ()
    note = (
        f"an encoder reads a request in one batch: -b {n} -ub {n} are taken, without them one of {context.N_UBATCH} tokens is the longest"
    )
    return replace(d, max_num_batched_tokens=n, engine_option=(*d.engine_option, ("n_ubatch", str(n)))), (note,)


#: Classes with an encoder before their decoder, which llama-server never calls: of llama_encode there is nothing in tools/server.
UNSERVED = frozenset({"T5ForConditionalGeneration", "T5WithLMHeadModel", "MT5ForConditionalGeneration", "UMT5ForConditionalGeneration"})


def unserved(named: str) -> tuple[str, ...]:
    """Why a start is too close to call: no file may be there, or no request is served as the model means it."""
    if named in UNSERVED:
        return (f"llama-server runs no encoder before a decoder: requests to {named} are not answered from their text",)
    return unconverted(named)


def unconverted(named: str) -> tuple[str, ...]:
    """Why a start is too close to call: nothing here makes a file of such a model, where it is named by its class."""
    is_class = named.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel"))
    return (f"llama.cpp's converter has no {named}: no file may be there",) if is_class and named not in CONVERTED else ()


def settle_with(d: Deployment, rules: LlamaRules, notes: tuple[str, ...], *, name: str, version: str) -> Settled:
    """Slots, -c, -ngl and the rest as this build fills them in."""
    _check(d, name)
    d, limited = _of_its_time(d, rules)
    d, released = _as_released(d)
    chosen = options.read(d)
    n_devices = _devices(d, chosen)
    seqs, seqs_by = slots(d, chosen, rules)
    unified = context.is_unified(chosen, rules, d.max_num_seqs)
    k, v = context.cache_types(d)
    formats = CacheFormats(canonical(d.dtype or d.model.dtype, "dtype"), k, v, conv="f32", state="f32", forced_state="f32")
    model, misfit, kept = _as_kept(d, rules, formats)
    found = drafter(d, model, formats)
    asked = replace(d, n_devices=n_devices, engine_version=version)
    beside = loaded_drafter(asked, rules, model, formats) if found and d.drafter is not None else None
    f = load(asked, rules, model, beside)
    fitted = _fitted(f, seqs, unified=unified)
    ctx = context.resolve(f.question, chosen, rules, n_ctx=fitted.n_ctx, n_seq_max=seqs, unified=unified)
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (name, "kvplan"),
        "engine_version": (version, "kvplan"),
        "n_devices": (n_devices, "kvplan"),
        "max_model_len": (fitted.n_ctx, fitted.n_ctx_by),
        "max_num_seqs": (seqs, seqs_by),
        "max_num_batched_tokens": (context.N_BATCH, "engine default"),
        "context": (min(fitted.n_ctx, ctx.slot), "engine default"),
        "kv_dtype": (k if k == v else f"{k}/{v}", "engine default"),
        "n_gpu_layers": (fitted.n_gpu_layers, "engine default"),
    }
    capped = (
        (f"a slot of {ctx.n_ctx_seq:,} tokens is capped at the {ctx.slot:,} of n_ctx_train",)
        if ctx.trained == ctx.slot < ctx.n_ctx_seq
        else (f"an encoder reads a request in one batch: no longer than the {ctx.slot:,} tokens of -ub",)
        if ctx.one_batch and ctx.slot == ctx.n_ubatch < ctx.n_ctx_seq
        else ()
    )
    asked = replace(d, engine_option=(*d.engine_option, *fitted.options), kv_dtype=None if d.kv_dtype == "auto" else d.kv_dtype)
    question, chosen_by, notes = resolve(asked, defaults, (*notes, *limited, *released, *kept, *fitted.notes, *capped))
    own_cells = d.max_model_len is not None or chosen.kv_unified_per_slot is not None
    own_slots = d.max_num_seqs is not None or chosen.server
    if beside is not None:
        beside = beside._replace(question=replace(beside.question, device=question.device, n_devices=question.n_devices))
    f = load(question, rules, model, beside)
    f = f._replace(reserve_said=d.reserve is not None, images_said=d.multimodal is not None or name != "llama.cpp")
    settings = LlamaSettings(f, rules, unified, own_slots, own_cells, fitted.placed, stays=fitted.stays)
    drafts = without_weights(found.layers) if beside and found else model.draft if f.draft_rows else ()
    lora.asked_modules(question)
    made = Settled(question, chosen_by, notes, settings, model, drafts, misfit, found, unknown(question, found))
    build = build_of(d.engine_version or "") if name == "llama.cpp" else rules.build
    slots_of_server = rules.server_slots if name == "llama.cpp" and not own_slots else 0
    lacks = no_graph(d.speculative, d.model.architecture, build, name)
    return made._replace(runs=SERVER if chosen.server else OTHERS, lacks=lacks, slots=slots_of_server)


#: Places of its list of shares (common/common.h, tensor_split).
MOST_CARDS = 128


def _check(d: Deployment, name: str) -> None:
    """Raises UnsupportedError for ways of splitting that it does not have, SpecError for numbers of devices that differ."""
    for size in ("tp", "dp", "ep", "dcp"):
        if (getattr(d, size) or 1) > 1:
            raise UnsupportedError(f"{size}: {name} splits a model by layers; say how many devices with n_devices")
    if max(d.pp or 1, d.n_devices or 1) > MOST_CARDS:
        raise SpecError("n_devices", [("", f"{name} deals layers to at most {MOST_CARDS} devices")])
    if d.pp and d.n_devices and d.pp != d.n_devices:
        raise SpecError("n_devices", [("", f"pp {d.pp} needs {d.pp} devices, not {d.n_devices}")])


#: Classes and layers of DeepSeek-V2, V2.5, Coder-V2 and their Lites, whose files were published before a conversion split what latents are
#: expanded by (#12801): llama.cpp keeps K and V of every head for those, whatever the build (tests/threads: 3,910 MiB for 32,768 tokens).
BEFORE_LATENTS = frozenset({("DeepseekV2ForCausalLM", 27), ("DeepseekV2ForCausalLM", 60)})

#: Classes whose draft modules a conversion leaves out, as no config counts them (conversion: `model.mtp.` of MiMo-V2); DSpark's stages go
#: to a file of their own (#26452).
WITHOUT_MODULES = frozenset({"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"})


def _as_kept(d: Deployment, rules: LlamaRules, formats: CacheFormats) -> tuple[Lowered, SpecError | None, tuple[str, ...]]:
    """The model with its caches as this build keeps them, what keeps it from loading, and what is said of windows it does not use."""
    lowered, misfit = lowered_or_plain(d, formats)
    if d.model.mtp and (d.model.mtp.method == "dspark" or d.model.architecture in WITHOUT_MODULES):
        lowered = replace(lowered, draft=())
    ignored, notes = d.model.architecture in WINDOWS_IGNORED, []
    if ignored and any(t.keep.kind in ("window", "chunk") for layer in lowered.layers for c in layer.caches for t in c.tensors):
        notes.append(f"llama.cpp does not use the windows of {d.model.architecture}: every layer keeps all tokens")
    if d.model.cache_window:  # llama-model.cpp: a cache of windows where the architecture's own hparams set swa_type
        notes.append(f"llama.cpp keeps every token here: window {d.model.cache_window} of the config is none of this architecture's")
    published = d.stored is None and canonical_weight(d.weight_dtype or d.model.checkpoint or "bf16") in GGUF_TYPES
    if rules.mla != "heads" and published and (d.model.architecture, len(lowered.layers)) in BEFORE_LATENTS:
        rules = rules._replace(mla="heads")
        notes.append(
            "GGUF files of it are of 2024 and keep K and V of every head; one converted since April 2025 keeps latents: give the file"
        )
    row = formats.compute if misfit else formats.k
    groups = key_group(d.model) > 1
    kept = remade(lowered, lambda layer, cache: caches.as_kept(layer, cache, rules, row, windows=not ignored, groups=groups))
    return _tables_first(kept), misfit, tuple(notes)


def _tables_first(model: Lowered) -> Lowered:
    """A table of n-grams is no part of its layer in a file: rows of it are read in host memory (src/models/qwen4exp.cpp)."""
    tables = tuple(w for layer in model.layers for w in layer.weights if w.name == TABLE)
    if not tables:
        return model
    without = changed(model, lambda layer: replace(layer, weights=tuple(w for w in layer.weights if w.name != TABLE)))
    return replace(without, first=(*without.first, *tables))


def _of_its_time(d: Deployment, rules: LlamaRules) -> tuple[Deployment, tuple[str, ...]]:
    """A Mac with the limit that systems had when such builds were new."""
    low = d.device.gpu_low_mib if d.device and d.device.vendor == "apple" and rules.old_systems else None
    if low is None or d.device is None:
        return d, ()
    note = f"Metal's limit is taken as {low:,} MiB, as in logs of 2023"
    return replace(d, device=d.device.changed(gpu_mib=low, gpu_low_mib=None)), (note,)


def _as_released(d: Deployment) -> tuple[Deployment, tuple[str, ...]]:
    """Of a type that is named, what most files of gpt-oss are, with experts in MXFP4: of 20B 13.8 GB in F16, 11.5 to 12.1 in others."""
    kind = canonical_weight(d.weight_dtype) if d.weight_dtype else ""
    found = kind if kind.startswith("mxfp4") else file_of(d.model.architecture, kind, None)
    if found == kind:
        return d, ()
    note = f"most files of gpt-oss in {d.weight_dtype} keep its experts in MXFP4; of others (mradermacher's) give the upload's id"
    return replace(d, weight_dtype=found), (note,)


class _Fitted(NamedTuple):
    """-c and -ngl as asked, or as --fit chooses them.

    placed, stays   as in LlamaSettings (fitted, stays)
    options         what it gives beside them
    """

    n_ctx: int
    n_ctx_by: ChosenBy
    n_gpu_layers: int
    placed: Placed | None = None
    stays: bool | None = None
    options: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def _fitted(f: Loaded, seqs: int, *, unified: bool) -> _Fitted:
    """-c and -ngl. Raises SpecError where no length is known."""
    d, chosen = f.question, f.options
    n_layers = len(f.rows) + len(f.model.draft) + 1
    ngl = n_layers if d.n_gpu_layers is None or d.n_gpu_layers < 0 else d.n_gpu_layers

    def attempt(n_ctx: int, placed: Placed) -> Situation:
        return situation.situation(f, placed, n_ctx=n_ctx, n_seq_max=seqs, unified=unified)

    probe = context.resolve(d, chosen, f.rules, n_ctx=256, n_seq_max=1, unified=True)
    fits = chosen.fit if chosen.fit is not None else f.rules.fit
    fits = fits and d.device is not None and d.kv_memory is None and ngl > 0 and chosen.split_mode != "tensor"
    fits = fits and situation.refusal(f, probe) is None
    n_ctx, n_ctx_by = asked_context(d, chosen, seqs, unified, probe.pad)
    if n_ctx is None:
        if d.model.max_context is None:
            raise SpecError("context", [("", f"{d.model.id} declares no maximum length; say how many tokens with --context")])
        n_ctx, n_ctx_by = d.model.max_context, "model"
        if fits:
            n_ctx = fit.fit_context(f, attempt, n_streams=1 if unified else seqs, n_gpu_layers=ngl)
            n_ctx_by = "engine default"
    if not fits:
        return _Fitted(n_ctx, n_ctx_by, ngl)
    said = fit.keeps_from_placing(f)
    if said is not None:
        notes = (f"--fit moves no layers where {said} is given",) if said != "n_gpu_layers" else ()
        return _Fitted(n_ctx, n_ctx_by, ngl, notes=notes)
    stays = None if d.host_memory is not None or n_ctx_by == "engine default" else True
    if d.host_memory is None and (d.n_devices or 1) == 1:
        return _Fitted(n_ctx, n_ctx_by, ngl, stays=stays)
    placed = fit.fit_layers(f, attempt, n_ctx=n_ctx)
    stays = stays and placed.whole
    if not placed.whole and d.host_memory is None:
        return _Fitted(n_ctx, n_ctx_by, ngl, stays=stays)
    moved = (("n_cpu_moe", str(placed.beside)),) if placed.beside else ()
    notes = (f"--fit keeps experts of {placed.beside} layers in host memory",) if placed.beside else ()
    return _Fitted(n_ctx, n_ctx_by, placed.where.offloaded, placed, stays, moved, notes)


def loaded_drafter(d: Deployment, rules: LlamaRules, target: Lowered, formats: CacheFormats) -> Loaded:
    """A draft model of its own: its file's tensors but for those it takes from the target, and a cache in f16 (-ctkd, -ctvd)."""
    assert d.drafter is not None
    asked = replace(d, model=d.drafter, drafter=None, stored=None, speculative=None, weight_dtype=None, kv_dtype=None, reserve=None)
    asked = replace(asked, engine_option=tuple((k, v) for k, v in d.engine_option if k in DRAFT_OPTIONS))
    model = lowered_or_plain(asked, formats._replace(k="f16", v="f16"))[0]
    model = remade(own_tensors(d, model, target), lambda layer, cache: caches.as_kept(layer, cache, rules, "f16", windows=True))
    return load(asked, rules, model)


def _devices(d: Deployment, chosen: options.LlamaOptions) -> int:
    """How many devices; cards that differ are as many as their sizes."""
    sizes = len(chosen.device_memory)
    if sizes and d.device is None:
        raise SpecError("engine_option", [("device_memory", "name the device too: what is not memory is taken from it")])
    if chosen.split_mode == "none":
        if sizes and chosen.main_gpu >= sizes:
            raise SpecError("engine_option", [("main_gpu", f"invalid value for main_gpu: {chosen.main_gpu} (available devices: {sizes})")])
        return 1
    if sizes and (asked := d.n_devices or d.pp) and asked != sizes:
        raise SpecError("engine_option", [("device_memory", f"{sizes} sizes for {asked} devices")])
    return sizes or d.n_devices or d.pp or 1


def slots(d: Deployment, chosen: options.LlamaOptions, rules: LlamaRules) -> tuple[int, ChosenBy]:
    """-np: as asked; a server's own number; else one for every sequence of the question."""
    if d.max_num_seqs is not None:
        return d.max_num_seqs, "you"
    if chosen.server:
        return rules.server_slots, "engine default"
    return d.batch or 1, "kvplan" if d.batch else "engine default"


def asked_context(d: Deployment, chosen: options.LlamaOptions, seqs: int, unified: bool, pad: int) -> tuple[int | None, ChosenBy]:
    """-c: as asked, by --kv-unified-per-slot, or what keeps the question's sequences resident; None: not set."""
    if d.max_model_len is not None:
        return d.max_model_len, "you"
    if chosen.kv_unified_per_slot:
        return chosen.kv_unified_per_slot * seqs, "engine default"
    if d.context is not None:
        return context.pool_for(d.context, d.batch or 1, unified=unified, n_seq_max=seqs, pad=pad), "kvplan"
    return None, "engine default"
