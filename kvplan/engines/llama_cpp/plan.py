"""The answer under a build's rules: a refusal, or what every device holds, prints and could hold at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import least_sure, sure_of
from kvplan.engines.common.protocol import Capacity, Certainty, Engine, Group, Outcome, Settled, refused
from kvplan.engines.common.whole import most
from kvplan.engines.llama_cpp import context, fit, situation, wordings
from kvplan.engines.llama_cpp.caches import Store, is_variable_v
from kvplan.engines.llama_cpp.facts import FACTS
from kvplan.engines.llama_cpp.loaded import Loaded
from kvplan.engines.llama_cpp.named import HOST
from kvplan.engines.llama_cpp.placing import place
from kvplan.engines.llama_cpp.risks import risks
from kvplan.engines.llama_cpp.settle import LlamaSettings, settle
from kvplan.engines.llama_cpp.situation import Situation
from kvplan.ledger import Ledger
from kvplan.units import GIB, crossing, longest, show_bytes

MOST_CELLS, MOST_SLOTS = 1 << 32, 1 << 16  # where nothing is looked at


def plan(settled: Settled) -> Outcome:
    """A refusal, or what every device holds, prints and could hold at most."""
    d, s = settled.question, settled.settings
    f, rules, unified = s.loaded, s.rules, s.unified
    n_ctx, seqs, ngl = d.max_model_len or 1, d.max_num_seqs or 1, d.n_gpu_layers or 0
    ngl = len(f.rows) + len(f.model.draft) + 1 if ngl < 0 else ngl
    ctx = context.resolve(d, f.options, rules, n_ctx=n_ctx, n_seq_max=seqs, unified=unified)
    reason = s.unread or situation.refusal(f, ctx)
    if reason:
        return refused(reason)

    fixed = s.fitted or place(f, ngl)

    def attempt(tokens: int, sequences: int) -> Situation:
        placed = s.placing(tokens, sequences) if s.placing else fixed
        return situation.situation(f, placed, n_ctx=tokens, n_seq_max=sequences, unified=unified)

    return _outcome(s, attempt(n_ctx, seqs), attempt, limits=settled.limits)


def _outcome(s: LlamaSettings, now: Situation, attempt: Callable[[int, int], Situation], *, limits: bool) -> Outcome:
    f, d = s.loaded, s.loaded.question
    ledgers = tuple(_ledger(f, now, device) for device in now.entries if now.entries[device])
    margins = [(margin, low, high, device) for device in now.entries for margin, low, high in _margins(f, now, device)]
    capacity = _capacity(s, now, attempt, limits=limits)
    enough = context.resident(now.ctx, d.context or 1) >= (d.batch or 1)
    slots = None if enough else _too_few(d.batch or 1, d.context or 1, now.ctx)
    if not margins:
        return Outcome(ledgers=ledgers, capacity=_warned(capacity, slots), starts=None, fits=None, margin_bytes=None, limiting_rank=None)
    margin, low, high, device = min(margins)
    reason, sure = _lacking(s, device, margin), sure_of(margin, low, high)
    mapped = reason is not None and device == HOST and _maps(s, now)
    if mapped:
        reason = MAPPED.format(show_bytes(-margin))
    if reason is not None and not s.whole:
        sure = least_sure(sure, "certain" if -margin > (_limit(f, device) or 0) else REFUSED)
        capacity = _warned(capacity, BORROWED if _borrows(d, device, -margin) else None)
    if s.whole and not now.placed.whole:
        margin, reason = min(margin, -max(now.placed.lacking, 1)), s.whole.format(_placed(now))
        sure = "certain"
    if s.stays is not None and device != HOST and margin >= 0:
        margin, sure, moved = _kept(s, now, margin, sure)
        reason = moved or reason
    if reason is not None:  # what memory lacks comes first
        capacity = _warned(capacity, slots)
    if s.dealt and not now.placed.whole and margin >= 0:
        sure = least_sure(DEALT, *(sure_of(*left) for *left, where in margins if where == HOST or (d.device and d.device.unified)))
    if s.sure:
        sure = least_sure(sure, s.sure(d.max_model_len or 1, d.max_num_seqs or 1))
    return Outcome(
        ledgers=ledgers,
        capacity=capacity,
        starts=margin >= 0 or mapped,
        fits=margin >= 0 and enough,
        certainty=sure if enough or margin < 0 else "certain",
        start_certainty="likely" if mapped else sure,
        margin_bytes=margin,
        limiting_rank=now.where.n_devices if device == HOST else device,
        reason=reason or slots,
    )


#: Weights in host memory are their file's pages, unless it is told to read them: what there is no room for is read anew as it is used
#: (llama.cpp's --load-mode mmap, the default; common/arg.cpp).
MAPPED = "host memory lacks {}, so that weights are read from their file again and again"


def _maps(s: LlamaSettings, now: Situation) -> bool:
    """Whether all memory holds what is not read from the file as it is used."""
    d = s.loaded.question
    if s.beside or s.whole or s.loaded.options.load_mode != "mmap" or (d.device and d.device.unified):
        return False
    held = [entry for entry in now.entries[HOST] if entry.kind != "weights"]
    others = (margin for device in now.entries if device != HOST for margin, _, _ in _margins(s.loaded, now, device))
    return situation.spare(d.host_memory or 0, held)[0] >= 0 and all(margin >= 0 for margin in others)


#: How sure a start is whose layers the engine dealt out by its own count: of 46 public ones whose RAM is known four ran out (tests/threads,
#: Ollama 0.1.32 to 0.35), two of them with latent attention, which is left out.
DEALT: Certainty = "likely"
#: How sure a refusal is that lacks no more than there is: of 28 that were certain before anybody looked (the eleventh to the twentieth set,
#: docs/limits.md), of cards with displays and without, eleven had started: under Windows, with another file, split by --fit.
REFUSED: Certainty = "likely"
#: NVIDIA's driver for Windows does so since 536.40, for cards that have displays: its system memory fallback policy.
BORROWED = "likely at most: under Windows a driver takes from RAM what its card lacks, unless it is told not to"
LENT = 16 * GIB  # half of 32 GiB


def _borrows(d: Deployment, device: int, lacking: int) -> bool:
    """Whether a driver may find the bytes that a device lacks in the host's memory."""
    shown = d.device is not None and d.device.vendor in ("nvidia", "other") and d.device.shows_desktops
    return device != HOST and shown and lacking <= LENT


def _warned(capacity: Capacity, warning: str | None) -> Capacity:
    return capacity._replace(warnings=(*capacity.warnings, warning)) if warning else capacity


def _lacking(s: LlamaSettings, device: int, margin: int) -> str | None:
    """What memory is missing where, in the engine's words; None where there is enough."""
    has = s.loaded.question.host_memory
    if margin >= 0:
        return None
    if device == HOST and s.beside and has is not None:
        return s.beside.format(show_bytes(has - margin), show_bytes(has))
    return f"failed to allocate: {'host memory' if device == HOST else f'device {device}'} lacks {show_bytes(-margin)}"


def _too_few(batch: int, tokens: int, ctx: context.Context) -> str:
    """Why so many sequences of so many tokens do not stay resident."""
    if tokens > ctx.slot == ctx.trained:
        return f"llama-server caps a slot at the {ctx.slot:,} tokens of n_ctx_train: it would refuse requests of {tokens:,} tokens"
    if ctx.one_batch and tokens > ctx.slot == ctx.n_ubatch:
        return (
            f"input ({tokens} tokens) is too large to process. increase the physical batch size (current batch size: {ctx.n_ubatch}):"
            f" -b {tokens} -ub {tokens}, and an encoder reads it at once"
        )
    where, cells = ("the pool", ctx.n_ctx) if ctx.unified else ("a slot", ctx.n_ctx_seq)
    return f"{batch} x {tokens} tokens stay resident only with more slots or cells: n_seq_max is {ctx.n_seq_max}, {where} has {cells} cells"


def _kept(s: LlamaSettings, now: Situation, margin: int, sure: Certainty) -> tuple[int, Certainty, str | None]:
    """What is left, how sure it is, and the reason where --fit would move layers to host memory although the devices hold all of them."""
    left, low, high = fit.left(s.loaded, now)
    if not s.stays:
        left = min(left, -1)
    sure = least_sure(sure, sure_of(left, low, high))
    if left >= 0:
        return margin, sure, None
    text = "--fit keeps {} of a device free and moves layers to host memory for it; n_gpu_layers, or fit=off, keeps them on the device"
    return left, sure, text.format(show_bytes(fit.margin(s.loaded, 0)))


def _placed(now: Situation) -> str:
    """`27 of 33 layers`; of several devices, how many are on each."""
    where = now.where
    by_device = [sum(device == i for device in (*where.layers, where.output)) for i in range(where.n_devices)]
    split = f" ({' + '.join(map(str, by_device))})" if where.n_devices > 1 else ""
    if where.whole:
        return f"{where.offloaded} layers{split} without the experts of {now.placed.beside}"
    return f"{sum(by_device)} of {len(where.layers) + 1} layers{split}"


def _margins(f: Loaded, now: Situation, device: int) -> list[tuple[int, int, int]]:
    """(point, low, high) of what is left on a device; empty where nothing limits it."""
    d = f.question
    if d.kv_memory is not None:
        if device != HOST or not now.where.n_devices:
            left = d.kv_memory - now.caches[device]
            return [(left, left, left)]
        return []
    limit = _limit(f, device)
    if limit is None:
        return []
    entries = now.entries[device]
    if not (device == 0 and d.device and d.device.unified):
        return [situation.spare(limit, entries)]
    both = entries + now.entries[HOST]  # one memory for both; where it is said, the GPU's is a part of it
    return (
        [situation.spare(limit, entries), situation.spare(max(limit, d.host_memory), both)]
        if d.host_memory
        else [situation.spare(limit, both)]
    )


def _limit(f: Loaded, device: int) -> int | None:
    d = f.question
    if device == HOST:
        return d.host_memory
    return f.memory(device) if d.device else None


def _ledger(f: Loaded, now: Situation, device: int) -> Ledger:
    d = f.question
    ctx = now.ctx
    per_token = sum(
        (k + v) // (ctx.n_ctx_seq * s.streams)
        for s in now.stores
        if not s.role.endswith(("rs", "swa", "state"))
        for i, k, v in s.parts
        if _holder(now, i, ctx.offload_kqv) == device
    )
    name = "host" if device == HOST and now.where.n_devices else d.device.id if d.device else None
    return Ledger(
        ranks=(now.where.n_devices if device == HOST else device,),
        device=name,
        cache_bytes=now.caches[device],
        cache_bytes_per_token=per_token,
        entries=now.entries[device],
        limit_bytes=_limit(f, device),
    )


def _holder(now: Situation, layer: int, offload: bool) -> int:
    if not offload:
        return HOST
    return now.where.layers[layer] if layer < len(now.where.layers) else now.where.output


def _capacity(s: LlamaSettings, now: Situation, attempt: Callable[[int, int], Situation], *, limits: bool) -> Capacity:
    f, d, ctx = s.loaded, s.loaded.question, now.ctx
    context_tokens = d.context or 1
    kv_bytes = max(now.caches.values())
    most_of = _limits(s, now, attempt) if limits and any(_margins(f, now, device) for device in now.entries) else _Limits(None, None, None)
    offloaded = (now.where.offloaded, now.where.counted) if now.where.n_devices else None
    printed = s.printed(ctx.n_ctx, ctx.n_seq_max) if s.printed else ()
    has_window = any(store.role.endswith("kv_swa") for store in now.stores)
    return Capacity(
        kv_bytes=kv_bytes,
        kv_bytes_low=kv_bytes,
        kv_bytes_high=kv_bytes,
        request_bytes=max(attempt(context_tokens, 1).caches.values()),
        tokens=ctx.n_ctx,
        max_concurrency=context.resident(ctx, context_tokens),
        max_context=ctx.slot,
        max_context_unbounded=most_of.alone,
        max_context_at_batch=most_of.together,
        max_batch=most_of.sequences,
        log_lines=(*printed, *wordings.lines(ctx, now.stores, vocab=f.widths.vocab, layers=offloaded)),
        warnings=wordings.warnings(ctx, d.max_model_len or 1, widest_v=is_variable_v(f.rows), has_window=has_window),
        groups=tuple(_group(store) for store in now.stores),
        offloaded=offloaded,
        beside=now.placed.beside,
    )


def _group(store: Store) -> Group:
    return Group(
        role=store.role,
        kind=store.kind,
        layers=store.printed_layers,
        cells=store.cells,
        streams=store.streams,
        k_bytes=store.k_bytes,
        v_bytes=store.v_bytes,
    )


class _Limits(NamedTuple):
    """The longest context of one sequence and of the question's, in tokens, and the most sequences of its context; None: no limit."""

    alone: int | None
    together: int | None
    sequences: int | None


def _limits(s: LlamaSettings, now: Situation, attempt: Callable[[int, int], Situation]) -> _Limits:
    """The most that still fits, looked for beside where what is left of the fullest device crosses zero."""
    f, d, ctx = s.loaded, s.loaded.question, now.ctx
    tokens_asked, batch = d.context or 1, d.batch or 1
    slots, find = (ctx.most_sequences, longest) if ctx.most_sequences else (MOST_SLOTS, most)

    def fits(tried: Situation) -> bool:
        stay = tried.placed.whole if s.whole else s.stays is None or fit.left(f, tried)[0] >= 0
        return stay and all(margin >= 0 for device in tried.entries for margin, _, _ in _margins(f, tried, device))

    def made(tokens: int, sequences: int) -> Situation:
        slots = ctx.n_seq_max if s.own_slots else sequences
        pool = context.pool_for(tokens, sequences, unified=s.unified, n_seq_max=slots, pad=ctx.pad)
        return attempt(ctx.n_ctx if s.own_cells else pool, slots)

    def holds(tokens: int, sequences: int) -> bool:
        tried = made(tokens, sequences)
        return context.resident(tried.ctx, tokens) >= sequences and fits(tried)

    def left(tried: Situation) -> int:
        return min(margin for device in tried.entries for margin, _, _ in _margins(f, tried, device))

    def near(tried: Callable[[int], Situation], start: int, limit: int) -> int:
        return crossing(lambda n: left(tried(n)), start, limit)

    return _Limits(
        alone=most(lambda n: fits(attempt(n, 1)), MOST_CELLS, near(lambda n: attempt(n, 1), tokens_asked, MOST_CELLS)),
        together=most(lambda n: holds(n, batch), MOST_CELLS, near(lambda n: made(n, batch), tokens_asked, MOST_CELLS)),
        sequences=find(lambda n: holds(tokens_asked, n), slots, near(lambda n: made(tokens_asked, n), batch, slots)),
    )


ENGINE = Engine(FACTS, settle, plan, risks=risks)
