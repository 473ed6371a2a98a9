"""A settled question as llama.cpp sees it: one value that the ledgers, the capacity and --fit all read."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import hypot
from typing import NamedTuple

from kvplan.constants import Constants, Record
from kvplan.deployment import Deployment
from kvplan.engines.common import lora
from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.common.measured import find_record, with_record
from kvplan.engines.common.phases import FEW
from kvplan.engines.common.settling import checkpoint_format, weight_formats
from kvplan.engines.llama_cpp import caches, compute, context, modes, named, options, placement, towers
from kvplan.engines.llama_cpp.caches import Rows, Store
from kvplan.engines.llama_cpp.compute import NO_SPAN
from kvplan.engines.llama_cpp.context import Context
from kvplan.engines.llama_cpp.facts import FACTS
from kvplan.engines.llama_cpp.named import HOST, Named, Rules
from kvplan.engines.llama_cpp.options import LlamaOptions
from kvplan.engines.llama_cpp.placement import Placement, Split
from kvplan.engines.llama_cpp.rules import LlamaRules
from kvplan.ledger import Entry, Kind, desktop, exact, held_by_others, left_to_the_gpu, system
from kvplan.tensors import Lowered
from kvplan.weights import WeightFormats, weight_line

CACHE = "llama.cpp {build}: llama_kv_cache, llama_memory_recurrent"

#: Formats of weights -> their number among ggml's types (ggml.h), where a build may be older.
TYPES = {"mxfp4": 39, "mxfp4_moe": 39, "nvfp4": 40}


class Loaded(NamedTuple):
    """What does not change with the length: the model as rows and weights, the rules, the options.

    tensors       those of each layer, by the names that a GGUF file has for them
    images        the graph of the largest image, which shares a compute buffer with that of the text, beside the output layer
    deals         the placements made so far: searches ask for the same ones at many lengths
    image_batch   tokens of the batch that takes that image; 0: no more than others
    reserve_said  the question says what others hold of the cards; else a desktop may
    images_said   the question says whether it takes images, or the engine loads a projector by itself; else --mmproj may be left out
    """

    question: Deployment
    options: LlamaOptions
    rules: LlamaRules
    model: Lowered
    formats: WeightFormats
    rows: tuple[Rows, ...]
    draft_rows: tuple[Rows, ...]
    widths: compute.Widths
    tensors: tuple[tuple[Named, ...], ...]
    constants: Constants | None
    record: Record | None
    deals: dict[object, Placed]
    drafter: Loaded | None = None
    images: Span = NO_SPAN
    image_batch: int = 0
    reserve_said: bool = False
    images_said: bool = True

    @property
    def vendor(self) -> str:
        """The cards' maker; nothing where none is given."""
        return self.question.device.vendor if self.question.device else ""

    @property
    def may_show_desktops(self) -> bool:
        """A desktop may be on the first card, and nobody says so."""
        device = self.question.device
        shows = device is not None and device.shows_desktops and not device.is_what_was_free
        return shows and not self.reserve_said

    @property
    def shares_with_the_system(self) -> bool:
        """The card's memory is the host's, all of it, and nobody says what others hold. Apple's limit leaves the system its part."""
        device = self.question.device
        return device is not None and device.unified and device.vendor != "apple" and not self.reserve_said

    def memory(self, device: int) -> int:
        """Bytes of a device; 0 where none is given."""
        if self.options.device_memory:
            return self.options.device_memory[device if self.options.split_mode != "none" else self.options.main_gpu]
        return self.question.device.memory_bytes if self.question.device else 0

    @property
    def is_mla(self) -> bool:
        return any(row.latent or row.raw for row in self.rows)


def load(d: Deployment, rules: LlamaRules, model: Lowered, drafter: Loaded | None = None) -> Loaded:
    """Read the rows of a model as llama.cpp keeps it, and the options. The tensors' formats are not used: rows are counted in elements.

    drafter  a draft model of its own (-md), which gets a context like the target's
    """
    known: dict[int, Rows] = {}
    formats = weight_formats(d)

    def read(layers: object) -> tuple[Rows, ...]:
        for layer in layers:  # type: ignore[attr-defined]
            if id(layer) not in known:
                known[id(layer)] = caches.rows(layer)
        return tuple(known[id(layer)] for layer in layers)  # type: ignore[attr-defined]

    return Loaded(
        question=d,
        options=options.read(d),
        rules=rules,
        model=model,
        formats=formats,
        rows=read(model.layers),
        draft_rows=read(model.draft) if context.draft_method(d) == "mtp" else (),
        widths=compute.widths(model, d.model.hidden_size, d.model.vocab_size or 0),
        tensors=named.layers_of(model, formats, d.stored),
        constants=d.constants if d.constants is not None and d.constants.engine == "llama.cpp" else None,
        record=find_record(d, FACTS, f"b{rules.build}") if d.max_num_seqs else None,
        deals={},
        drafter=drafter,
    )


class Placed(NamedTuple):
    """The weights for one choice of -ngl and of tensors that go elsewhere: who holds what, and the lines of each device.

    rules    patterns that send tensors elsewhere (-ot, --n-cpu-moe, --fit)
    beside   layers of the devices with tensors in host memory
    largest  bytes of the largest matrix of a layer in host memory
    lacking  bytes that found no place on the devices, where the engine's own estimate says so
    """

    where: Placement
    weights: dict[int, tuple[Entry, ...]]
    rules: Rules = ()
    beside: int = 0
    largest: int = 0
    lacking: int = 0

    @property
    def whole(self) -> bool:
        """Nothing but the input tensors is beside the devices."""
        return self.where.whole and not self.beside


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
    if reason := modes.refusal(f.question, f.options.split_mode, f.rules, flash=ctx.flash_attn):
        return reason
    attention = [row for row in f.rows if row.k or row.raw]
    return context.refusal(
        ctx,
        is_mla=f.is_mla,
        k_dims=frozenset(row.k_dim for row in attention if row.k_dim),
        v_dims=frozenset(row.v_dim for row in attention if row.v_dim),
        rows=frozenset(width for row in attention for width in (row.k or row.raw, row.indexer) if width),
    )


def _shares(f: Loaded) -> Sequence[Fraction]:
    """--tensor-split, or what is free on each device, where they differ (llama_model::load_tensors)."""
    reserve = f.question.reserve or 0
    split = f.options.tensor_split[: f.question.n_devices or 1]
    return split if any(split) else [Fraction(max(0, n - reserve)) for n in f.options.device_memory]


def asked_rules(f: Loaded) -> Rules:
    """The patterns of the question (-ot, --n-cpu-moe, --n-cpu-ffn). Raises SpecError for a buffer that no device has."""
    return named.asked(f.options, len(f.rows), (f.question.n_devices or 1) if f.question.device else 0)


def place(
    f: Loaded, n_gpu_layers: int, rules: Rules | None = None, *, shares: Sequence[Fraction] | None = None, drafts: bool = True
) -> Placed:
    """Deal out the layers; without a device all stay in host memory.

    rules, shares  other than the question's
    drafts         the model's own draft layers count as layers
    """
    n_devices = (f.question.n_devices or 1) if f.question.device else 0
    rules = (asked_rules(f) if rules is None else rules) if n_devices else ()
    dealt = _shares(f) if shares is None else shares
    key = (n_devices, n_gpu_layers, rules, tuple(dealt), drafts)
    if key not in f.deals:
        f.deals[key] = _dealt(f, n_devices, n_gpu_layers, rules, dealt, drafts=drafts)
    return f.deals[key]


def _dealt(f: Loaded, n_devices: int, n_gpu_layers: int, rules: Rules, dealt: Sequence[Fraction], *, drafts: bool) -> Placed:
    where = placement.place(
        len(f.rows), len(f.model.draft) if drafts else 0, n_devices, n_gpu_layers, dealt, output_first=f.rules.output_first
    )
    groups = named.grouped(f.tensors, rules)
    weights = placement.weight_bytes(
        f.model, f.formats, where, groups, rules, draft=bool(f.draft_rows), towers=_towers(f, where), split=split_of(f, dealt)
    )
    stored = any(w.stored is not None for layer in f.model.layers for w in layer.weights)
    lines = {d: tuple(weight_line(role, n, f.formats, stored=stored) for role, n in by.items() if n) for d, by in weights.items()}
    for device in lines:  # beside the tensors they adapt, in f16 as convert_lora_to_gguf.py writes them (llama-adapter.cpp)
        mine = [layer for layer, at in zip(f.model.layers, where.layers, strict=True) if at == device]
        lines[device] += tuple(entry for entry in lora.slots(f.question, mine, 1, 2) if entry.bytes)
    beside = placement.parted(where, groups)
    largest = 0 if where.whole and not beside else placement.largest_beside(where, groups)
    return Placed(where, lines, rules, beside, largest)


def _towers(f: Loaded, where: Placement) -> int | None:
    """The first device, whatever -ngl says (tools/mtmd/clip.cpp); None: not loaded. Ollama's own engine keeps them with the output."""
    if f.question.multimodal == "off":
        return None
    on_device = f.options.mmproj_offload is not False and where.n_devices and not (f.rules.own_graphs and where.output == HOST)
    return 0 if on_device else HOST


def split_of(f: Loaded, shares: Sequence[Fraction]) -> Split | None:
    """-sm row and tensor; None: layers stay whole."""
    n_devices = f.question.n_devices or 1
    if f.options.split_mode not in ("row", "tensor") or n_devices < 2 or f.question.device is None:
        return None
    weights = [*shares, *[Fraction(0)] * n_devices][:n_devices] if any(shares) else [Fraction(1)] * n_devices
    return Split(tuple(part / sum(weights) for part in weights), f.options.split_mode == "tensor")


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
    d, where, n_devices = f.question, placed.where, placed.where.n_devices
    source = CACHE.format(build=f"b{f.rules.build}")
    ctx = _context(f, placed, n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)
    stores = caches.stores(f.rows, ctx)
    drafts: tuple[Store, ...] = ()
    if f.draft_rows:
        trunk = len(f.rows)
        drafts = caches.stores(f.draft_rows, ctx._replace(type_k="f16", type_v="f16", n_rs_seq=0), prefix="draft_")
        stores += tuple(s._replace(parts=tuple((trunk + i, k, v) for i, k, v in s.parts)) for s in drafts)
    cached = placement.cache_bytes(stores, where, offload=ctx.offload_kqv, split=split_of(f, _shares(f)))
    measured = None if f.rules.own_graphs else f.constants
    room = compute.unpacked_on(d.device, stores, ctx) if f.rules.unpacks and not f.rules.own_graphs else NO_SPAN
    attended = () if f.rules.host_attention and not ctx.offload_kqv else stores
    if n_devices and not f.rules.own_graphs:
        room = Span(*(n + compute.brought(attended, ctx) for n in room))
    widest = ctx._replace(n_ubatch=max(ctx.n_ubatch, f.image_batch))
    plain, pictured, beside = (
        compute.compute_entry("compute buffer", f.widths, seen, widest, measured, images, unpacked, output=output)
        for seen, images, unpacked, output in (
            (attended, NO_SPAN, room, False),
            (attended, f.images, room, True),
            (stores, NO_SPAN, NO_SPAN, True),
        )
    )
    pipelined, copied = _pipelined(f, placed, ctx), _copied(f, placed, ctx)
    hidden = f.widths.hidden
    inputs = compute.host_inputs(stores, hidden, ctx, copied=pipelined)
    shared = not f.rules.own_graphs and d.device is not None and not d.device.unified
    own = compute.context_entry(d.device, f.constants) if d.device else []
    entries: dict[int, tuple[Entry, ...]] = {}
    for device in (*range(n_devices), HOST):
        lines = [*placed.weights[device], *(exact(f"cache: {role}", n, source, "cache") for role, n in cached[device].items() if n)]
        if device == HOST:
            lines.append(exact("output buffer", compute.output_bytes(ctx, f.widths.vocab), "output_reserve: f32 logits", "activations"))
        buffer = beside if device == HOST and n_devices else pictured if device == where.output else plain
        more = [compute.input_copies(stores, hidden, ctx, first=not device)] if pipelined and shared else [] if device else copied
        lines += _computed(f, placed, ctx, device, [buffer, *more], inputs)
        if drafts and device == where.output and not f.rules.own_graphs:  # the draft modules' own context: of 8,192 tokens 10,386 MiB asked
            seen = tuple(store._replace(role=store.role.removeprefix("draft_")) for store in drafts)
            lines.append(compute.compute_entry("compute buffer of drafts", f.widths, seen, ctx, measured, NO_SPAN, output=True))
            if d.stored is None and "mtp" not in d.model.id:
                lines.append(placement.draft_file(f.model, f.formats))
            if pipelined and shared:
                lines.append(compute.input_copies(seen, hidden, ctx)._replace(name="input copies of drafts"))
        if any(entry.name == towers.WEIGHTS for entry in lines) and not f.rules.own_graphs:
            lines.append(towers.buffer(d.model.architecture, f.rules, flash=f.options.flash_attn != "off"))
            if not f.images_said:
                lines = [towers.perhaps(entry) if entry.name in towers.NAMES else entry for entry in lines]
        if device != HOST:
            lines += own
        if device != HOST and d.device and d.device.uncertain_bytes and not f.options.device_memory:
            lines.append(left_to_the_gpu(d.device.uncertain_bytes))
        if device != HOST and d.reserve:
            lines.append(held_by_others(d.reserve))
        elif device == 0 and f.may_show_desktops:
            lines.append(desktop(f.vendor))
        elif device == 0 and f.shares_with_the_system:
            lines.append(system(f.memory(0)))
        entries[device] = tuple(with_record(lines, f.record) if device == 0 else lines)
    held = {device: sum(roles.values()) for device, roles in cached.items()}
    if f.drafter is not None:
        other = _beside(f.drafter, n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)
        for device in entries:
            entries[device] += tuple(_as_draft(line, f.drafter) for line in other.entries[device] if line.kind not in _ONCE)
        held = {device: n + other.caches[device] for device, n in held.items()}
    return Situation(ctx, stores, placed, entries, held)


def _computed(f: Loaded, placed: Placed, ctx: Context, device: int, buffers: list[Entry], inputs: Entry) -> list[Entry]:
    """The compute buffers of one device. The first one has its own without a layer too: batches of layers in RAM are multiplied there.

    A tower in RAM beside the output computes there.
    """
    where, own = placed.where, f.rules.own_graphs
    offloads = compute.offloads(ctx, f.options.op_offload) and not own
    if device != HOST:
        works = device in where.layers or device == where.output or any(rule.device == device for rule in placed.rules)
        works = works or (device == 0 and offloads and not placed.whole)
        return buffers if works else []
    if not where.n_devices or (not placed.whole and not offloads and not own):
        return buffers[:1]
    if own and where.output == HOST and f.images.point:
        return [modelled("compute buffer", f.images, f"{compute.SOURCE}; the graph of the largest image", "activations")]
    return [] if own else [inputs]


#: Lines that a process has once, however many models it loads.
_ONCE: tuple[Kind, ...] = ("process", "others")


def _beside(f: Loaded, *, n_ctx: int, n_seq_max: int, unified: bool) -> Situation:
    """The draft model, its layers on the devices (-ngld), in a context of the target's size (common.cpp, the speculative context)."""
    asked = f.options.n_gpu_layers_draft
    return situation(f, place(f, len(f.rows) + 1 if asked is None else asked, ()), n_ctx=n_ctx, n_seq_max=n_seq_max, unified=unified)


def _as_draft(line: Entry, f: Loaded) -> Entry:
    """Such as `weights: drafter mlp`, `drafter compute buffer`."""
    begins, colon, what = line.name.partition(": ")
    return line._replace(
        name=f"{begins}: drafter {what}" if colon else f"drafter {line.name}", source=f"{f.question.model.id}: {line.source}"
    )
