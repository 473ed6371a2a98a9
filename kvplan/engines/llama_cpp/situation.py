"""What every device holds for one choice of -c and -np: one value that the ledgers, the capacity and --fit all read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import hypot
from typing import NamedTuple

from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.common.measured import with_record
from kvplan.engines.common.phases import FEW
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.llama_cpp import caches, compute, context, modes, placement, towers
from kvplan.engines.llama_cpp.caches import Store
from kvplan.engines.llama_cpp.compute import NO_SPAN
from kvplan.engines.llama_cpp.context import Context
from kvplan.engines.llama_cpp.loaded import Loaded
from kvplan.engines.llama_cpp.named import HOST
from kvplan.engines.llama_cpp.placement import Placed, Placement
from kvplan.engines.llama_cpp.placing import place, shares_of, split_of
from kvplan.gguf_files import says_drafts
from kvplan.ledger import Entry, Kind, desktop, exact, held_by_others, left_to_the_gpu, system

CACHE = "llama.cpp {build}: llama_kv_cache, llama_memory_recurrent"

#: Formats of weights -> their number among ggml's types (ggml.h), where a build may be older.
TYPES = {"mxfp4": 39, "mxfp4_moe": 39, "nvfp4": 40}


class Situation(NamedTuple):
    """One context of that model, placed: entries and cache bytes by device (HOST: beside the devices)."""

    ctx: Context
    stores: tuple[Store, ...]
    placed: Placed
    entries: dict[int, tuple[Entry, ...]]
    caches: dict[int, int]

    @property
    def where(self) -> Placement:
        return self.placed.where

    def used(self, device: int) -> int:
        return sum(entry.bytes for entry in self.entries[device])


def spare(room: int, entries: Sequence[Entry], *, together: bool = False) -> tuple[int, int, int]:
    """What lines leave of so many bytes (negative: missing): the estimate and the ends of its interval, the least first.

    Weights are off together, as one format; the other lines each on its own, so that their widths add in squares, but for those of few
    sources, of which nobody knows it.

    together  all of them at once: --fit measures drafts and several cards by rules that are not all read
    """
    above, below = (
        _width([e.high - e.bytes for e in entries], entries, together),
        _width([e.bytes - e.low for e in entries], entries, together),
    )
    left = room - sum(e.bytes for e in entries)
    return left, left - above, left + below


def _width(widths: Sequence[int], entries: Sequence[Entry], together: bool) -> int:
    if together:
        return sum(widths)
    apart = [e.kind != "weights" and (e.sources is None or e.sources >= FEW) for e in entries]
    return sum(w for w, alone in zip(widths, apart, strict=True) if not alone) + int(
        hypot(*(w for w, alone in zip(widths, apart, strict=True) if alone))
    )


def refusal(f: Loaded, ctx: Context) -> str | None:
    """Why this model would not be loaded, or this context not created, in the engine's words."""
    stored = TYPES.get(f.question.weight_dtype or checkpoint_format(f.question), 0)
    if stored > f.rules.newest_type:
        return f"gguf_init_from_file_impl: tensor has invalid ggml type {stored} (NONE)"
    if reason := modes.refusal(f.question, f.options.split_mode, f.rules, flash=ctx.flash_attn, main_gpu=f.options.main_gpu):
        return reason
    attention = [row for row in f.rows if row.k or row.raw]
    return context.refusal(
        ctx,
        is_mla=f.is_mla,
        k_dims=frozenset(row.k_dim for row in attention if row.k_dim),
        v_dims=frozenset(row.v_dim for row in attention if row.v_dim),
        rows=frozenset(width for row in attention for width in (row.k or row.raw, row.indexer) if width),
    )


def _pipelined(f: Loaded, placed: Placed, ctx: Context) -> bool:
    """Batches follow one another over several devices that hold every layer, and nobody sends tensors elsewhere."""
    where, asked = placed.where, f.options
    return where.n_devices > 1 and where.whole and ctx.offload_kqv and asked.split_mode == "layer" and not placed.rules


def _copied(f: Loaded, placed: Placed, ctx: Context) -> list[Entry]:
    """What the scheduler adds to the first card's compute buffer for weights beside the cards, whose layers ever they are."""
    device = f.question.device
    if f.rules.own_graphs or device is None or device.unified or placed.whole or not compute.offloads(ctx, f.options.op_offload):
        return []
    of_batches = ctx.all_outputs or compute.offloads(ctx._replace(n_ubatch=ctx.n_outputs), None)
    output = placement.output_beside(f.model, f.formats, placed.where) if of_batches else 0
    return compute.host_copy(max(placed.largest, output), ctx, several=placed.where.n_devices > 1)


def _context(f: Loaded, placed: Placed, *, n_ctx: int, n_seq_max: int, unified: bool) -> Context:
    """The context, without flash attention where it was left open and attention is not where the engine looks for it (b11312)."""
    ctx = context.resolve(f.question, f.options, f.rules, n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)
    is_open = f.options.flash_attn in (None, "auto") and ctx.type_v not in context.QUANTIZED
    elsewhere = is_open and placement.attends_elsewhere(placed.where, f.tensors, placed.rules, offload=ctx.offload_kqv)
    return ctx._replace(flash_attn=False) if elsewhere else ctx


def situation(f: Loaded, placed: Placed, *, n_ctx: int, n_seq_max: int, unified: bool) -> Situation:
    """Every line of every device for one choice of -c and -np."""
    where = placed.where
    ctx = _context(f, placed, n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)
    stores, drafts = _stores(f, ctx)
    cached = placement.cache_bytes(stores, where, offload=ctx.offload_kqv, split=split_of(f, shares_of(f)))
    graph = _graph(f, placed, ctx, stores)
    entries: dict[int, tuple[Entry, ...]] = {}
    for device in (*range(where.n_devices), HOST):
        lines = [
            *placed.weights[device],
            *_kept(f, ctx, device, cached[device]),
            *_computed(f, placed, ctx, device, graph),
            *(_computed_for_drafts(f, ctx, drafts, copied=graph.copied) if drafts and device == where.output else ()),
        ]
        lines = _with_tower_buffer(f, lines)
        if device != HOST:
            lines += _of_no_context(f, device)
        entries[device] = tuple(with_record(lines, f.record) if device == 0 else lines)
    held = {device: sum(roles.values()) for device, roles in cached.items()}
    if f.drafter is not None:
        other = _beside(f.drafter, n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)
        for device in entries:
            entries[device] += tuple(_as_draft(line, f.drafter) for line in other.entries[device] if line.kind not in _ONCE)
        if not any(row.k or row.raw or row.s for row in f.drafter.rows):
            entries[other.placed.where.output] += (_masks_of_target(ctx, stores),)
        held = {device: n + other.caches[device] for device, n in held.items()}
    return Situation(ctx, stores, placed, entries, held)


def _stores(f: Loaded, ctx: Context) -> tuple[tuple[Store, ...], tuple[Store, ...]]:
    """The caches of a context, those of the model's draft modules among them; and the latter alone, by the roles of their own context."""
    stores = caches.stores(f.rows, ctx)
    if not f.draft_rows:
        return stores, ()
    drafts = caches.stores(f.draft_rows, ctx._replace(type_k="f16", type_v="f16", n_rs_seq=0))
    behind = len(f.rows)  # their layers count on from the model's
    added = (s._replace(role=f"draft_{s.role}", parts=tuple((behind + i, k, v) for i, k, v in s.parts)) for s in drafts)
    return (*stores, *added), drafts


def _kept(f: Loaded, ctx: Context, device: int, cached: Mapping[str, int]) -> Iterator[Entry]:
    """Caches by role, and the outputs, which are always in host memory."""
    source = CACHE.format(build=f"b{f.rules.build}")
    yield from (exact(f"cache: {role}", n, source, "cache") for role, n in cached.items() if n)
    if device == HOST:
        yield exact("output buffer", compute.output_bytes(ctx, f.widths.vocab), "output_reserve: f32 logits", "activations")


class _Graph(NamedTuple):
    """Buffers of a context's graph.

    plain       of a device without the output layer; last: of the one with it, which the graph of images shares
    beside      of host memory beside devices
    inputs      the graph's inputs in host memory
    first       of the first device: what comes there for weights in host memory
    copied      by device, where several hold all layers and batches follow one another: copies of the inputs; else none
    """

    plain: Entry
    last: Entry
    beside: Entry
    inputs: Entry
    first: tuple[Entry, ...]
    copied: bool
    copies: tuple[Entry, ...] = ()


def _graph(f: Loaded, placed: Placed, ctx: Context, stores: tuple[Store, ...]) -> _Graph:
    """The buffers of a context's graph; Ollama's own engine has other estimates of them, and no scheduler's copies."""
    device, own, n_devices = f.question.device, f.rules.own_graphs, placed.where.n_devices
    measured = None if own else f.constants
    attended = () if f.rules.host_attention and not ctx.offload_kqv else stores
    room = compute.unpacked_on(device, stores, ctx) if f.rules.unpacks and not own else NO_SPAN
    if n_devices and not own:
        room = Span(*(n + compute.brought(attended, ctx) for n in room))
    widest = ctx._replace(n_ubatch=max(ctx.n_ubatch, f.image_batch))

    def buffer(seen: Sequence[Store], images: Span, unpacked: Span, *, output: bool) -> Entry:
        return compute.compute_entry("compute buffer", f.widths, seen, widest, measured, images, unpacked, output=output)

    pipelined = _pipelined(f, placed, ctx)
    copied = pipelined and not own and device is not None and not device.unified
    hidden = f.widths.hidden
    return _Graph(
        plain=buffer(attended, NO_SPAN, room, output=False),
        last=buffer(attended, f.images, room, output=True),
        beside=buffer(stores, NO_SPAN, NO_SPAN, output=True),
        inputs=compute.host_inputs(stores, hidden, ctx, copied=pipelined),
        first=tuple(_copied(f, placed, ctx)),
        copied=copied,
        copies=tuple(compute.input_copies(stores, hidden, ctx, first=not i) for i in range(n_devices)) if copied else (),
    )


def _computed(f: Loaded, placed: Placed, ctx: Context, device: int, graph: _Graph) -> Sequence[Entry]:
    """The compute buffers of one device. The first one has its own without a layer too: batches of layers in RAM are multiplied there.

    A tower in RAM beside the output computes there.
    """
    where, own = placed.where, f.rules.own_graphs
    offloads = compute.offloads(ctx, f.options.op_offload) and not own
    if device != HOST:
        works = device in where.layers or device == where.output or any(rule.device == device for rule in placed.rules)
        works = works or (device == 0 and offloads and not placed.whole)
        more = (graph.copies[device],) if graph.copied else graph.first if device == 0 else ()
        return (graph.last if device == where.output else graph.plain, *more) if works else ()
    if not where.n_devices:
        return (graph.last,)
    if not placed.whole and not offloads and not own:
        return (graph.beside,)
    if own and where.output == HOST and f.images.point:
        return (modelled("compute buffer", f.images, f"{compute.SOURCE}; the graph of the largest image", "activations"),)
    return () if own else (graph.inputs,)


def _computed_for_drafts(f: Loaded, ctx: Context, drafts: Sequence[Store], *, copied: bool) -> Iterator[Entry]:
    """The buffers of the draft modules' own context, beside the output layer: of 8,192 tokens 10,386 MiB asked; tables of their file."""
    if f.rules.own_graphs:
        return
    yield compute.compute_entry("compute buffer of drafts", f.widths, drafts, ctx, f.constants, NO_SPAN, output=True)
    if f.question.stored is None and not says_drafts(f.question.model.id):
        yield placement.draft_file(f.model, f.formats)
    if copied:
        yield compute.input_copies(drafts, f.widths.hidden, ctx)._replace(name="input copies of drafts")


def _with_tower_buffer(f: Loaded, lines: list[Entry]) -> list[Entry]:
    """The lines of a device that holds a vision tower, with its buffer; both perhaps not there, where nobody spoke of images."""
    if f.rules.own_graphs or not any(entry.name == towers.WEIGHTS for entry in lines):
        return lines
    lines = [*lines, towers.buffer(f.question.model.architecture, f.rules, flash=f.options.flash_attn != "off")]
    return lines if f.images_said else [towers.perhaps(entry) if entry.name in towers.NAMES else entry for entry in lines]


def _of_no_context(f: Loaded, device: int) -> Iterator[Entry]:
    """What a device holds whatever the model's context is: the driver's context, what the system does not give, what others hold."""
    d = f.question
    if d.device is None:
        return
    yield from compute.context_entry(d.device, f.constants)
    if d.device.uncertain_bytes and not f.options.device_memory:
        yield left_to_the_gpu(d.device.uncertain_bytes)
    if d.reserve:
        yield held_by_others(d.reserve)
    elif device == 0 and f.may_show_desktops:
        yield desktop(f.vendor)
    elif device == 0 and f.shares_with_the_system:
        yield system(f.memory(0))


#: Lines that a process has once, however many models it loads.
_ONCE: tuple[Kind, ...] = ("process", "others")


def _beside(f: Loaded, *, n_ctx: int, n_seq_max: int, unified: bool) -> Situation:
    """The draft model, its layers on the devices (-ngld), in a context of the target's size (common.cpp, the speculative context)."""
    asked = f.options.n_gpu_layers_draft
    return situation(f, place(f, len(f.rows) + 1 if asked is None else asked, ()), n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)


#: Bytes of masks for each cell and token of a batch, in the context of a drafter that reads the target's cache and keeps none. That of
#: Gemma 4 12B in q8_0 took 580, 868 and 1,252 MiB more at 32,768, 131,072 and 262,144 tokens (unslothai/unsloth#6719): 3 KiB a token.
_MASK = Span(6, 2, 6)


def _masks_of_target(ctx: Context, stores: Sequence[Store]) -> Entry:
    """Which of the target's cells a drafter sees that keeps none of its own."""
    cells = max((store.cells for store in stores if store.role in compute.ATTENDED), default=0) * ctx.n_ubatch
    return modelled("drafter masks of the cache it reads", Span(*(n * cells for n in _MASK)), "unslothai/unsloth#6719", "activations")


def _as_draft(line: Entry, f: Loaded) -> Entry:
    """Such as `weights: drafter mlp`, `drafter compute buffer`."""
    begins, colon, what = line.name.partition(": ")
    return line._replace(
        name=f"{begins}: drafter {what}" if colon else f"drafter {line.name}", source=f"{f.question.model.id}: {line.source}"
    )
