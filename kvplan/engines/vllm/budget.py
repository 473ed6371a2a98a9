"""What is left for the cache on a device: requested memory minus weights, activations, what torch does not see, and graphs.

vLLM 0.33 `vllm/v1/worker/gpu_worker.py` (determine_available_memory), `vllm/utils/mem_utils.py`: available = requested - consumed -
transient peak - graph estimate, requested = ceil(total x utilization). CUDA context and NCCL are allocated before the snapshot.
Shapes say most of it (loaded.py, profile.py); what they do not say are the measured constants of the question.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.constants import Constant, Constants
from kvplan.deployment import Deployment
from kvplan.dtypes import canonical_weight
from kvplan.engines.common.drafters import drafter_weights
from kvplan.engines.common.lines import Span, modelled, sure_of, weight_entries
from kvplan.engines.common.measured import UNCALIBRATED, find_record, spread_of, surely_held, widened, with_record
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Certainty
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.vllm import adapters, exchange
from kvplan.engines.vllm.autotuned import timed_kernels
from kvplan.engines.vllm.before_v1 import state_slots
from kvplan.engines.vllm.captures import captured
from kvplan.engines.vllm.facts import FACTS
from kvplan.engines.vllm.host import less_offloaded, offloaded_bytes
from kvplan.engines.vllm.kinds import kind_of
from kvplan.engines.vllm.loaded import drafted, loaded_weights, repacked_bytes, rotary_bytes, rounding_bytes
from kvplan.engines.vllm.media import decoded_bytes
from kvplan.engines.vllm.outside import CONTEXT_BYTES, CONTEXT_HIGH, CONTEXT_LOW, context, counts_context, graphs, outside, outside_torch
from kvplan.engines.vllm.profile import VALUE_BYTES, Profile, profile
from kvplan.engines.vllm.replicas import of_all_replicas
from kvplan.engines.vllm.rules import VERSIONS
from kvplan.engines.vllm.runners import UNSORTED_BYTES
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.wordings import Refused
from kvplan.ledger import DESKTOP, Entry, Phase, exact
from kvplan.tensors import Lowered
from kvplan.units import GIB, MIB
from kvplan.weights import WeightFormats, role_formats

#: cuBLAS workspace of a process, which torch holds while it runs: 32 MiB on Hopper and later (torch CUDABlas getChosenWorkspaceSize).
WORKSPACE_BYTES = 32 * MIB
#: What encoders take at most, per what their shapes say: no log of the newest towers says how much of it is alive at once.
ENCODER_HIGH = 2.5
#: Sources of what compiling holds (profile.py _compiled).
COMPILED_SOURCES = 7


class Budget(NamedTuple):
    """One stage's ranks: the lines that are not cache, the bytes left for it (point, worst, best), and what the fraction does not count.

    free  how sure it is that as much is free as the fraction asks for
    """

    entries: tuple[Entry, ...]
    available: int
    low: int
    high: int
    limit: int | None
    outside: tuple[Entry, ...] = ()
    free: Certainty = "certain"


def stage_budget(d: Deployment, model: Lowered, stage: range, s: VllmSettings, states: int = 0) -> Budget:
    """The budget of one pipeline stage's ranks. With kv_memory the cache gets exactly that. Refused where too little memory is free.

    states  bytes of recurrent states that are kept beside the blocks
    """
    formats = weight_formats(d)
    entries = weight_entries(loaded_weights(d, model, stage, s, formats), formats, tp=s.tp, ep=d.ep or 1, role_tp=s.role_tp)
    if (found := drafted(s)) and stage.stop == len(model.layers):
        entries += drafter_weights(found, tp=s.tp, ep=d.ep or 1, role_tp=s.role_tp)
    if offloaded_bytes(d):
        entries = less_offloaded(entries, d, s)
    if states:
        entries.append(exact("recurrent states", states, f"a slot for each of {state_slots(d, s)} sequences, beside the blocks", "process"))
    if decoded := decoded_bytes(d, s.release):
        entries.append(
            exact("decoded media", decoded, "mm_ipc_gpu_memory_gb, and decoders of videos on the device: taken from the cache", "process")
        )
    if d.kv_memory is not None or d.device is None:
        kv = max(0, (d.kv_memory or 0) - decoded)
        return Budget(tuple(entries), kv, kv, kv, None)
    total = d.device.memory_bytes
    share = round((d.memory_fraction or 1) * 10**6)
    requested = -(-total * share // 10**6) if s.rules.round_request == "up" else total * share // 10**6
    free = _check_free(d, s, total, requested)
    loaded = (_rotary(d, model, s), _rounding(d, model, stage, s, formats), *adapters.slots(d, model, stage, s))
    value_bytes = VALUE_BYTES.get(s.formats.compute, 2)
    over = (*exchange.buffers(d, s), *exchange.batched(d, s, value_bytes), *exchange.balancing(model, stage, s, formats, d.ep or 1))
    entries += [entry for entry in (*loaded, *over) if entry.bytes]
    if d.device.vendor == "amd" and s.rules.rocm_reserved and (held := repacked_bytes(d, model, stage, s, formats)):
        said = "one layer's experts, laid out anew beside what was loaded: torch keeps them, and these releases count what the device shows"
        entries.append(modelled("weights: reserved", Span(held, 0, 2 * held), said, "weights"))
    if d.constants is None or d.constants.engine != "vllm":
        left = requested - sum(entry.bytes for entry in entries)
        return Budget(tuple(entries), left, left - int(UNCALIBRATED * total), left, requested)
    estimated = s.charges_graphs and (s.rules.rocm_graphs_charged or d.device.vendor != "amd")
    said = f"{captured(s)} batch sizes captured; their estimate is charged from 0.20 on"
    charged = graphs(d, len(stage), s, d.constants, said) if estimated and s.graphs else None
    sizes = profile(d, model, stage, s, formats)
    entries += [*_modelled(d, sizes, s, d.constants), *([charged] if charged is not None else [])]
    record = find_record(d, FACTS, s.release)
    entries = with_record(entries, record)
    left = requested - sum(entry.bytes for entry in entries)
    less, more = spread_of(d.constants, "vllm", kind_of(d, model, s), total, measured=record is not None)
    less, more = widened(less, more + kept_graph(sizes, s, d.constants), entries)
    most = min(left + more, requested - surely_held(entries))
    beside = [*outside(d, len(stage), s, d.constants, charged), *_unprofiled_sampler(sizes, s, d.constants)]
    beside += exchange.rebalanced(model, stage, s, formats, d.ep or 1)
    if s.unquantised_load:
        beside.append(_before_quantising(d, model, stage, s, formats))
    if s.quantised_in_flight:
        beside.append(_in_flight(d, model, stage, s))
    if s.rules.v1 and s.method == "mtp" and s.pp == 1:
        beside.append(_unshared(model, s, formats))
    if s.rules.counted == "torch":
        beside.append(_libraries(d, s, d.constants))
        beside += _reserved(d, model, stage, s, formats)
    return Budget(tuple(entries), left, left - less, most, requested, tuple(beside), free)


def caveats(d: Deployment) -> list[str]:
    """What a reader of the budget should know."""
    if d.device is None or d.kv_memory is not None:
        return []
    notes = []
    if d.constants is None or d.constants.engine != "vllm":
        notes.append("no calibration: activations, libraries' memory and CUDA graphs are not charged")
    if d.device.unified:
        notes.append(f"{d.device.name} shares its memory with the host: what is free at start-up varies by 1 to 3 GiB from run to run")
    return notes


def _check_free(d: Deployment, s: VllmSettings, total: int, requested: int) -> Certainty:
    """Refused where less is free than its fraction: as surely as its own context is known, which may be in what others are said to hold.
    How sure it is that as much is free; a card that has displays may have a desktop on it, where nobody says what others hold.

    Whoever subtracts the two numbers of the message has counted it: of 18 such refusals by less than 0.9 GiB that were asked blind
    (the sixth to the tenth set) ten had started.
    """
    free = total - (d.reserve or 0) - CONTEXT_BYTES
    short = free - requested
    if not s.rules.v1 or not s.since("0.9.1"):
        return "certain"
    if free < requested:  # gpu_worker.py init_device
        raise Refused(
            f"Free memory on device ({max(free, 0) / GIB:.2f}/{total / GIB:.2f} GiB) on startup is less than desired "
            f"GPU memory utilization ({d.memory_fraction}, {requested / GIB:.2f} GiB). "
            "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            sure=sure_of(
                short, short + CONTEXT_BYTES - CONTEXT_HIGH, short + CONTEXT_BYTES - CONTEXT_LOW + min(d.reserve or 0, CONTEXT_BYTES)
            ),
        )
    shows = d.device is not None and (d.device.shows_desktops or "Workstation" in d.device.name)
    desktop = DESKTOP if shows and not s.reserve_said else 0
    return sure_of(short, short + CONTEXT_BYTES - CONTEXT_HIGH - desktop, short + CONTEXT_BYTES - CONTEXT_LOW)


def _rotary(d: Deployment, model: Lowered, s: VllmSettings) -> Entry:
    return exact(
        "weights: rotary tables",
        rotary_bytes(d, model, s),
        "positions x rotary width, counted as weights when the model is built",
        "weights",
    )


def _rounding(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> Entry:
    held = rounding_bytes(d, model, stage, s, formats)
    return exact("weights: rounding", held, "blocks of 2 MiB that torch puts large matrices in, beyond these", "weights")


def _modelled(d: Deployment, sizes: Profile, s: VllmSettings, constants: Constants) -> list[Entry]:
    """The lines that need measured constants."""

    def at(name: str) -> Constant:
        return constants.at(name, VERSIONS, s.measured_as)

    sampler, copies = at("sampler_bytes"), at("hidden_copies")
    unsorted = s.rules.may_not_sort and Options(d).flag("use_flashinfer_sampler", True)
    every, gathered = sizes, sizes.gathered
    if gathered:
        sizes = sizes._replace(width_bytes=gathered.width_bytes, reserved_bytes=gathered.reserved_bytes)
    held = (sampler.value, min(sampler.low, UNSORTED_BYTES) if unsorted else sampler.low, sampler.high)
    point, low, high = (peak(sizes, *pair) for pair in zip(held, copies.ends, strict=True))
    low = peak(sizes._replace(compiled_bytes=0), held[1], copies.ends[1]) - (sizes.product_bytes[0] - sizes.product_bytes[1])
    kept = sizes.compiled_bytes if s.since("0.27") else 0  # by three of the five such logs
    high = max(high + kept, int(sizes.tower_bytes * ENCODER_HIGH) + WORKSPACE_BYTES)
    if sizes.sampled_bytes is not None:  # the code says all but the libraries' workspace
        low, high = min(low, point - WORKSPACE_BYTES), max(high, point + WORKSPACE_BYTES)
    full = sizes._replace(sampled_bytes=None)  # what comes back in the warm-up, with parameters that ask for everything
    warm: tuple[Phase, ...] = ("warm up",) if s.rules.v1 and sampler_peak(full, sampler.value) >= layers_peak(sizes, copies.value) else ()
    lines = [
        modelled(
            "activations",
            Span(point, low, high),
            f"profile run: {_largest(sizes, sampler.value, copies.value)}",
            "activations",
            ("profile", *warm, "serve"),
            _sources(sizes, sampler, copies),
        ),
    ]
    if gathered:
        apart = sizes._replace(width_bytes=gathered.width_bytes + gathered.apart_bytes)
        more = [peak(one, sampler.value, copies.value) - point for one in (every, apart)]
        lines.append(of_all_replicas(gathered, *more))
    if s.rules.counted != "torch":
        lines += [_libraries(d, s, constants), *timed_kernels(d, s)]
    if counts_context(s):
        lines.append(context(d.reserve or 0, "context"))
    return lines


def kept_graph(sizes: Profile, s: VllmSettings, constants: Constants) -> int:
    """How much more a start leaves that finds the compiled graph of one before: no log says beforehand which of the two it will be."""
    sampler, copies = (constants.at(name, VERSIONS, s.measured_as).value for name in ("sampler_bytes", "hidden_copies"))
    return peak(sizes, sampler, copies) - peak(sizes._replace(compiled_bytes=0), sampler, copies)


def _unprofiled_sampler(sizes: Profile, s: VllmSettings, constants: Constants) -> list[Entry]:
    """What the sampler's warm-up takes beyond the profile run's peak, where that ran without parameters (runners.py profiled_logit)."""
    if not s.second_runner or sizes.sampled_bytes is None or not sizes.logits:
        return []
    sampler, copies = (constants.at(name, VERSIONS, s.measured_as) for name in ("sampler_bytes", "hidden_copies"))
    more = [peak(sizes._replace(sampled_bytes=None), end, copies.value) - peak(sizes, end, copies.value) for end in sampler.ends]
    if not more[2]:
        return []
    said = (
        "logits again in f32 and filtered, once the cache is allocated: this runner profiles neither, and not every start was short of it"
    )
    return [modelled("sampler, not profiled", Span(more[0], 0, more[2]), said, "activations", ("warm up", "serve"), sampler.groups)]


def _before_quantising(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> Entry:
    """What the 16-bit matrices take beyond the quantised ones while they are loaded (quantization/fp8.py up to 0.12)."""
    plain = role_formats(canonical_weight(d.model.dtype), {})
    sizes = (
        sum(e.bytes for e in weight_entries(loaded_weights(d, model, stage, s, each), each, tp=s.tp, ep=d.ep or 1, role_tp=s.role_tp))
        for each in (plain, formats)
    )
    more = max(0, next(sizes) - next(sizes))
    return exact("weights before they are quantised", more, "the checkpoint's type less the quantised one", "weights")._replace(
        phases=("load",)
    )


def _in_flight(d: Deployment, model: Lowered, stage: range, s: VllmSettings) -> Entry:
    """One matrix in 16 bits at a time, whole or as its rank has it (model_loader/bitsandbytes_loader.py _unquantized_generator)."""
    weights = [w for w, _ in loaded_weights(d, model, stage, s, weight_formats(d)) if len(w.shape) > 1]
    largest = max((2 * w.elems // (w.shape[0] if w.experts else 1) for w in weights), default=0)
    return modelled(
        "a matrix before it is quantised", Span(largest // s.tp, 0, largest), "the largest matrix in 16 bits", "activations", ("load",)
    )


def _unshared(model: Lowered, s: VllmSettings, formats: WeightFormats) -> Entry:
    """Embedding and head that the model's own draft modules are built with, before they share the target's (_maybe_share_embeddings).

    A start that lacked the second of the two: Qwen3.8 27B in INT4 on an RTX 4090, 2.37 GiB asked for with 993 MiB free (tests/threads).
    """
    tables = [w for w in (model.embedding, *model.last) if w is not None and len(w.shape) > 1]
    size = sum(entry.bytes for entry in weight_entries([(w, 1) for w in tables], formats, tp=s.tp, ep=1))
    said = "embedding and head of the draft modules, until they share the model's"
    return modelled("drafter: its own tables", Span(size, 0, size), said, "weights", ("load",))


def _reserved(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> list[Entry]:
    """A second block of AWQ's partial sums: what stays of the first one's results keeps torch from reusing it (before_v1.py awq_bytes).

    Releases that count what torch allocates do not count it; the device holds it in the profile run.
    """
    once = profile(d, model, stage, s, formats).product_bytes[1] if s.rules.awq == "partial sums" and not s.expandable else 0
    said = "partial sums of one more product, in torch's reserve"
    return [modelled("AWQ's second block", Span(once, 0, once), said, "activations", ("profile",))] if once else []


def _libraries(d: Deployment, s: VllmSettings, constants: Constants) -> Entry:
    found = constants.at(outside_torch(s, d.device), VERSIONS, s.measured_as)
    held = Span(int(found.value), int(found.low), int(found.high))
    if found.name == "outside_torch_nccl" and d.device is not None and d.device.link is None:  # a size and no name: NVLink may join them
        held = held._replace(high=max(held.high, int(constants.at("outside_torch_links", VERSIONS, s.measured_as).high)))
    return modelled("outside torch", held, f"{found.name}, {found.cases} published logs", "process", sources=found.groups)


def sampler_peak(p: Profile, sampler_bytes: float) -> int:
    """Logits in the compute type, and what the sampler's warm-up holds for each beside them."""
    beside = sampler_bytes if p.sampled_bytes is None else p.sampled_bytes
    return int(p.logits * (p.value_bytes + beside)) + p.hidden_bytes + p.rows_bytes if p.logits else 0


def layers_peak(p: Profile, hidden_copies: float) -> int:
    """The widest sublayer's results beside some hidden states."""
    return max(p.width_bytes, p.index_bytes) + int(hidden_copies * p.hidden_bytes) + p.reduced_bytes + p.product_bytes[0]


def peak(p: Profile, sampler_bytes: float, hidden_copies: float) -> int:
    """The profile run's peak: encoders, layers and the sampler's warm-up are never alive together."""
    held = p.encoder_bytes + p.handed_bytes + p.reserved_bytes
    tops = sampler_peak(p, sampler_bytes) + held, layers_peak(p, hidden_copies) + held, p.tower_bytes, p.compiled_bytes
    return max(tops) + WORKSPACE_BYTES


def _sources(p: Profile, sampler: Constant, copies: Constant) -> int | None:
    """How many sources are behind the constant that the peak follows; None where the encoders, which have none, are the largest."""
    tops = sampler_peak(p, sampler.value), layers_peak(p, copies.value)
    if p.compiled_bytes > max(tops):
        return COMPILED_SOURCES
    if p.tower_bytes > max(tops) + p.encoder_bytes:
        return None
    return sampler.groups if tops[0] > tops[1] else copies.groups


def _largest(p: Profile, sampler_bytes: float, hidden_copies: float) -> str:
    if p.compiled_bytes > max(sampler_peak(p, sampler_bytes), layers_peak(p, hidden_copies)):
        return "what compiling holds on a first start, the table of embeddings once more, is the largest"
    if p.tower_bytes > max(sampler_peak(p, sampler_bytes), layers_peak(p, hidden_copies)) + p.encoder_bytes:
        return "the encoders (patches of the largest items x widths) are the largest"
    if sampler_peak(p, sampler_bytes) > layers_peak(p, hidden_copies):
        return "the sampler's warm-up (sequences x vocabulary) is the larger"
    return "the layers (batch tokens x widths) are the larger"
