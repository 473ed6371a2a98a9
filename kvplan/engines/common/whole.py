"""Engines without a pool: every rank holds its weights and, for each sequence, the tensors that the engine keeps. Shared arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvplan.constants import PROCESS, PROCESS_LINES
from kvplan.deployment import Deployment
from kvplan.engines.common import lora
from kvplan.engines.common.drafters import drafter_weights
from kvplan.engines.common.lines import CONTEXT, Span, modelled, stage_weights, sure_of, weight_entries
from kvplan.engines.common.protocol import Capacity, Drafter, Group, Outcome
from kvplan.ledger import Entry, Ledger, exact, held_by_others, left_to_the_gpu
from kvplan.parallel import heads_per_rank, split_layers
from kvplan.tensors import Cache, Layer, Lowered
from kvplan.units import MIB, MOST_TOKENS, longest, show_bytes
from kvplan.weights import WeightFormats


class KeptTensor(NamedTuple):
    """One tensor that an engine keeps in one layer for one sequence: `at(n)` is its bytes at a length of n tokens.

    `group` is the engine's name for such layers; `part` puts the tensor under the K or the V of that group; `row` is the bytes
    of one token and `most` the tokens that a window stops at, where an engine needs them for its transients.
    """

    group: str
    kind: str
    tensor: str
    at: Callable[[int], int]
    part: str = "k"
    row: int = 0
    most: int = 0


class Allocation(NamedTuple):
    """What an engine says of a lowered layer, and of the moments when it holds more than its cache.

    held        the tensors of one layer, its heads already split
    transients  (context, batch, held of every layer of the rank) -> lines beside the cache
    source      where the cache's shapes come from
    fraction    of the device that may be used
    adapter_bytes  of one element of an adapter; 0: it loads none
    torch       its processes are torch's, and hold what those hold beside tensors
    stages      the layers of each pipeline stage, where they are not dealt out by number
    drafts      the tensors of a drafter's layer, where they are kept otherwise
    draft_stage the stage that has the drafter
    of_stage    further lines of a stage
    caps        bytes that lines of a stage may take whatever the device has; None: what it has. Empty: of none
    capped      whether a line is one of those
    """

    held: Callable[[Layer, tuple[Cache, ...]], tuple[KeptTensor, ...]]
    transients: Callable[[int, int, Sequence[tuple[KeptTensor, int]]], list[Entry]]
    source: str
    fraction: float = 1.0
    adapter_bytes: int = 0
    torch: bool = False
    stages: Sequence[range] | None = None
    drafts: Callable[[Layer, tuple[Cache, ...]], tuple[KeptTensor, ...]] | None = None
    draft_stage: int = -1
    of_stage: Callable[[int], list[Entry]] = lambda _: []
    caps: Sequence[int | None] = ()
    capped: Callable[[Entry], bool] = lambda _: False
    log_lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Rank(NamedTuple):
    """One pipeline stage: the weights of a rank, and what its layers hold (with how many layers hold the same)."""

    stage: int
    numbers: tuple[int, ...]
    weights: tuple[Entry, ...]
    held: tuple[tuple[KeptTensor, int], ...]


def ranks(d: Deployment, model: Lowered, formats: WeightFormats, rules: Allocation, drafter: Drafter | None = None) -> list[Rank]:
    """The distinct ranks: layers left over by pp go to the first stages where nothing else is said, heads are split by ceiling;
    the drafter is at the last, where nothing else is said."""
    tp, pp = d.tp or 1, d.pp or 1
    found = []
    for n, stage in enumerate(rules.stages or split_layers(len(model.layers), pp, "first")):
        held = _held([model.layers[i] for i in stage], rules.held, tp)
        weights = weight_entries(stage_weights(model, stage), formats, tp=tp, ep=1)
        if rules.adapter_bytes:
            weights += lora.slots(d, [model.layers[i] for i in stage], tp, rules.adapter_bytes)
        if drafter and n == rules.draft_stage % pp:
            weights += drafter_weights(drafter, tp=tp, ep=1)
            theirs = _held(drafter.layers, rules.drafts or rules.held, tp)
            held += tuple((one._replace(group=f"drafter {one.group}"), count) for one, count in theirs)
        found.append(Rank(n, tuple(range(n * tp, n * tp + tp)), tuple(weights), held))
    return found


def _held(
    layers: Sequence[Layer], held: Callable[[Layer, tuple[Cache, ...]], tuple[KeptTensor, ...]], tp: int
) -> tuple[tuple[KeptTensor, int], ...]:
    """What layers hold, equal ones once with their number."""
    counts: dict[int, tuple[Layer, int]] = {}
    for layer in layers:
        counts[id(layer)] = (layer, counts.get(id(layer), (layer, 0))[1] + 1)
    return tuple((one, count) for layer, count in counts.values() for one in held(layer, _split(layer.caches, tp)))


def _split(caches: tuple[Cache, ...], tp: int) -> tuple[Cache, ...]:
    if tp == 1:
        return caches
    return tuple(replace(cache, tensors=tuple(replace(t, heads=heads_per_rank(t.heads, tp)) for t in cache.tensors)) for cache in caches)


#: Bytes that a process of torch holds of an NVIDIA card beside tensors and its context. LIBRARIES: code of kernels and handles, loaded when
#: they are first used: on an H200 66 MiB of one product, 164 of nine kinds of operation, 168 of a pass of Llama-3.1-8B. WORKSPACE: that of
#: cuBLAS, in torch's own allocator (aten/src/ATen/cuda/CublasHandlePool.cpp parseChosenWorkspaceSize: 32 MiB from 9.0 on, 8.1 before).
LIBRARIES, WORKSPACE = Span(170 * MIB, 60 * MIB, 400 * MIB), (8 * MIB, 32 * MIB)


def process_lines(d: Deployment, of_torch: bool) -> list[Entry]:
    """What a process holds on this device beside tensors: what the user measured (`kvplan validate --record`, `--calibration user`), and
    of torch's on an NVIDIA card what others do."""
    if d.device is None:
        return []
    measured = {c.name: c for c in d.constants.values} if d.constants is not None and d.constants.engine == PROCESS else {}
    workspace = WORKSPACE[(d.device.capability or 0) >= 90]
    others = {"context": CONTEXT, "libraries": LIBRARIES, "workspace": Span(workspace, 0, WORKSPACE[1])}
    known = others if of_torch and d.device.vendor == "nvidia" else {}
    found = []
    for name, label in PROCESS_LINES.items():
        if c := measured.get(name):
            found.append(Entry(label, int(c.value), int(c.low), int(c.high), "measured", c.source, "process"))
        elif name in known:
            found.append(modelled(label, known[name], "measured on an H200", "process"))
    return found


def cache_lines(rank: Rank, context: int, batch: int, source: str) -> list[Entry]:
    """One exact line for each group and tensor."""
    sizes: dict[str, int] = {}
    for one, count in rank.held:
        key = f"cache: {one.group}: {one.tensor}"
        sizes[key] = sizes.get(key, 0) + batch * count * one.at(context)
    return [exact(name, n, source, "cache") for name, n in sizes.items()]


def cache_bytes(rank: Rank, context: int, batch: int) -> int:
    """What the rank's caches hold."""
    return batch * sum(count * one.at(context) for one, count in rank.held)


def plan(d: Deployment, model: Lowered, formats: WeightFormats, rules: Allocation, drafter: Drafter | None = None) -> Outcome:
    """Weights, caches and transients of every rank against its device, or the caches alone against kv_memory."""
    all_ranks = ranks(d, model, formats, rules, drafter)
    context, batch = d.context or 1, d.batch or 1
    limit = int(d.device.memory_bytes * rules.fraction) if d.device else None

    beside = [
        *process_lines(d, rules.torch),
        *([left_to_the_gpu(d.device.uncertain_bytes)] if d.device and d.device.uncertain_bytes else ()),
        *([held_by_others(d.reserve)] if d.reserve else ()),
    ]

    def entries(rank: Rank, tokens: int, sequences: int) -> list[Entry]:
        used = (*cache_lines(rank, tokens, sequences, rules.source), *rules.transients(tokens, sequences, rank.held))
        return [*rank.weights, *used, *rules.of_stage(rank.stage), *beside]

    def margins(rank: Rank, tokens: int, sequences: int) -> tuple[int, int, int] | None:
        if d.kv_memory is not None:
            left = d.kv_memory - cache_bytes(rank, tokens, sequences)
            return left, left, left
        if limit is None:
            return None
        return within(rank, entries(rank, tokens, sequences))

    def within(rank: Rank, lines: list[Entry]) -> tuple[int, int, int]:
        """What is left of the device, or of what the stage's own lines may take where that is less."""
        left, cap = _left(limit or 0, lines), rules.caps[rank.stage] if rules.caps else None
        if cap is None:
            return left
        (here, low, high), capped = left, _left(cap, [line for line in lines if rules.capped(line)])
        return min(here, capped[0]), min(low, capped[1]), min(high, capped[2])

    def shown(rank: Rank) -> list[Entry]:
        """The lines, and what the rank has of the device but may not take."""
        lines = entries(rank, context, batch)
        kept = _left(limit, lines)[0] - within(rank, lines)[0] if limit is not None and rules.caps else 0
        return [*lines, exact("beyond its split", kept, "the question", "transient")._replace(phases=())] if kept else lines

    ledgers = tuple(_ledger(d, rank, shown(rank), limit, context, batch) for rank in all_ranks)
    worst = [(found, rank) for rank in all_ranks if (found := margins(rank, context, batch)) is not None]

    def fits(tokens: int, sequences: int) -> bool:
        return all((found := margins(rank, tokens, sequences)) is None or found[0] >= 0 for rank in all_ranks)

    capacity = _capacity(d, all_ranks, rules, fits if worst else None)
    if not worst:
        return Outcome(ledgers=ledgers, capacity=capacity, starts=None, fits=None, margin_bytes=None, limiting_rank=None)
    (margin, low, high), rank = min(worst, key=lambda pair: pair[0])
    reason = None
    loading = _left(limit, [*rank.weights, *beside]) if limit is not None and d.kv_memory is None else None
    loaded = loading is None or loading[0] >= 0
    if not loaded:
        reason = f"the weights alone exceed rank {rank.numbers[0]}'s memory"
    elif margin < 0:
        reason = f"out of memory: rank {rank.numbers[0]} lacks {show_bytes(-margin)} for {batch} x {context} tokens"
    return Outcome(
        ledgers=ledgers,
        capacity=capacity,
        starts=loaded,
        start_certainty=sure_of(*loading) if loading else None,
        fits=margin >= 0,
        certainty=sure_of(margin, low, high),
        margin_bytes=margin,
        limiting_rank=rank.numbers[0],
        reason=reason,
    )


def _left(limit: int, lines: Sequence[Entry]) -> tuple[int, int, int]:
    """Bytes of a limit beside lines: estimated, and at the high and the low end of what they hold."""
    return limit - sum(e.bytes for e in lines), limit - sum(e.high for e in lines), limit - sum(e.low for e in lines)


def _ledger(d: Deployment, rank: Rank, lines: list[Entry], limit: int | None, context: int, batch: int) -> Ledger:
    now = cache_bytes(rank, context, 1)
    return Ledger(
        ranks=rank.numbers,
        device=d.device.id if d.device else None,
        cache_bytes=batch * now,
        cache_bytes_per_token=max(0, cache_bytes(rank, context + 1, 1) - now),
        entries=tuple(lines),
        limit_bytes=limit,
    )


def _capacity(d: Deployment, all_ranks: list[Rank], rules: Allocation, fits: Callable[[int, int], bool] | None) -> Capacity:
    context, batch = d.context or 1, d.batch or 1
    fullest = max(all_ranks, key=lambda rank: cache_bytes(rank, context, batch))
    kv_bytes = cache_bytes(fullest, context, batch)
    request = cache_bytes(fullest, context, 1)
    alone = most(lambda n: fits(n, 1)) if fits else None
    sequences = most(lambda n: fits(context, n)) if fits else None
    cap = d.max_model_len
    return Capacity(
        kv_bytes=kv_bytes,
        kv_bytes_low=kv_bytes,
        kv_bytes_high=kv_bytes,
        request_bytes=request,
        tokens=None if sequences is None else sequences * context,
        max_concurrency=None if sequences is None else float(sequences),
        max_context=cap if alone is None else alone if cap is None else min(alone, cap),
        max_context_unbounded=alone,
        max_context_at_batch=most(lambda n: fits(n, batch)) if fits else None,
        max_batch=sequences,
        log_lines=rules.log_lines,
        warnings=rules.warnings,
        groups=_groups(all_ranks, context, batch),
    )


def _groups(all_ranks: list[Rank], context: int, batch: int) -> tuple[Group, ...]:
    """Groups over all ranks of one tensor-parallel slice: layers and bytes of K and V as that slice holds them."""
    found: dict[tuple[str, str], list[int]] = {}
    for rank in all_ranks:
        for one, count in rank.held:
            sizes = found.setdefault((one.group, one.kind), [0, 0, 0])
            sizes[0] += count if one.part == "k" else 0
            sizes[1 if one.part == "k" else 2] += batch * count * one.at(context)
    return tuple(Group(role=role, kind=kind, layers=n, k_bytes=k, v_bytes=v) for (role, kind), (n, k, v) in found.items())


def most(holds: Callable[[int], bool], limit: int = MOST_TOKENS, near: int = 0) -> int | None:
    """The largest n for which `holds`; 0 where it never does, None where it still does at the limit. `near`: a guess."""
    n = longest(holds, limit, near)
    return None if n >= limit else n
