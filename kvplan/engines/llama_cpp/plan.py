"""The answer under a build's rules: a refusal, or what every device holds, prints and could hold at most."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import least_sure, sure_of
from kvplan.engines.common.protocol import Capacity, Certainty, Engine, Group, Outcome, Settled, refused
from kvplan.engines.common.whole import most
from kvplan.engines.llama_cpp import context, fit, situation, wordings
from kvplan.engines.llama_cpp.caches import is_variable_v
from kvplan.engines.llama_cpp.facts import FACTS
from kvplan.engines.llama_cpp.named import HOST
from kvplan.engines.llama_cpp.risks import risks
from kvplan.engines.llama_cpp.settle import LlamaSettings, settle
from kvplan.engines.llama_cpp.situation import Loaded, Situation
from kvplan.ledger import Ledger
from kvplan.units import GIB, crossing, longest, show_bytes

MOST_CELLS = 1 << 32


def plan(settled: Settled) -> Outcome:
    """A refusal, or what every device holds, prints and could hold at most."""
    d, s = settled.question, settled.settings
    f, rules, unified = s.loaded, s.rules, s.unified
    n_ctx, seqs, ngl = d.max_model_len or 1, d.max_num_seqs or 1, d.n_gpu_layers or 0
    ngl = len(f.rows) + len(f.model.draft) + 1 if ngl < 0 else ngl
    ctx = context.resolve(d, f.options, rules, n_ctx=n_ctx, n_seq_max=seqs, unified=unified)
    reason = situation.refusal(f, ctx)
    if reason:
        return refused(reason)

    fixed = s.fitted or situation.place(f, ngl)

    def attempt(tokens: int, sequences: int) -> Situation:
        placed = s.placing(tokens, sequences) if s.placing else fixed
        return situation.situation(f, placed, n_ctx=tokens, n_seq_max=sequences, unified=unified)

    return _outcome(s, attempt(n_ctx, seqs), attempt, limits=settled.limits)


def _outcome(s: LlamaSettings, now: Situation, attempt: Callable[[int, int], Situation], *, limits: bool) -> Outcome:
    f, d = s.loaded, s.loaded.question
    ledgers = tuple(_ledger(f, now, device) for device in now.entries if now.entries[device])
    margins = [(margin, low, high, device) for device in now.entries for margin, low, high in _margins(f, now, device)]
    capacity = _capacity(s, now, attempt, limits=limits)
    held = context.resident(now.ctx, d.context or 1)
    enough = held >= (d.batch or 1)
    reason = None
    if not enough:
        reason = _too_few(d.batch or 1, d.context or 1, now.ctx)
    if not margins:
        if reason:
            capacity = capacity._replace(warnings=(*capacity.warnings, reason))
        return Outcome(ledgers=ledgers, capacity=capacity, starts=None, fits=None, margin_bytes=None, limiting_rank=None)
    margin, low, high, device = min(margins)
    slots = reason
    if margin < 0:
        what = "host memory" if device == HOST else f"device {device}"
        reason = f"failed to allocate: {what} lacks {show_bytes(-margin)}"
        if device == HOST and s.beside and d.host_memory is not None:
            reason = s.beside.format(show_bytes(d.host_memory - margin), show_bytes(d.host_memory))
    sure = sure_of(margin, low, high)
    if s.whole and not now.placed.whole:
        margin, reason = min(margin, -max(now.placed.lacking, 1)), s.whole.format(_placed(now))
        sure = "certain"
    if s.stays is not None and device != HOST and margin >= 0:
        margin, sure, moved = _kept(s, now, margin, sure)
        reason = moved or reason
    if slots and reason != slots:  # what memory lacks comes first
        capacity = capacity._replace(warnings=(*capacity.warnings, slots))
    if margin < 0 and reason != slots and not s.whole and _borrows(d, device, -margin):
        sure = least_sure(sure, "likely")
        capacity = capacity._replace(warnings=(*capacity.warnings, BORROWED))
    if s.sure:
        sure = least_sure(sure, s.sure(d.max_model_len or 1, d.max_num_seqs or 1))
    return Outcome(
        ledgers=ledgers,
        capacity=capacity,
        starts=margin >= 0,
        fits=margin >= 0 and enough,
        certainty=sure if enough or margin < 0 else "certain",
        start_certainty=sure,
        margin_bytes=margin,
        limiting_rank=now.where.n_devices if device == HOST else device,
        reason=reason,
    )


#: NVIDIA's driver for Windows does so since 536.40, for cards that have displays: its system memory fallback policy.
BORROWED = "likely at most: under Windows a driver takes from RAM what its card lacks, unless it is told not to"
LENT = 16 * GIB  # half of 32 GiB


def _borrows(d: Deployment, device: int, lacking: int) -> bool:
    """Whether a driver may find the bytes that a device lacks in the host's memory.

    Of 28 refusals on such cards that were called certain, three had started, two of them under Windows (docs/limits.md).
    """
    shown = d.device is not None and d.device.vendor in ("nvidia", "other") and d.device.shows_desktops
    return device != HOST and shown and lacking <= LENT


def _too_few(batch: int, tokens: int, ctx: context.Context) -> str:
    """Why so many sequences of so many tokens do not stay resident."""
    if tokens > ctx.slot == ctx.trained:
        return f"llama-server caps a slot at the {ctx.slot:,} tokens of n_ctx_train: it would refuse requests of {tokens:,} tokens"
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
    if device == 0 and d.device and d.device.unified:
        entries += now.entries[HOST]  # one memory for both
    return [situation.spare(limit, entries)]


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
    context_tokens, batch = d.context or 1, d.batch or 1
    kv_bytes = max(now.caches.values())
    held = context.resident(ctx, context_tokens)

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

    def near(try_: Callable[[int], Situation], start: int, most_: int) -> int:
        return crossing(lambda n: min(m for held in (try_(n),) for i in held.entries for m, _, _ in _margins(f, held, i)), start, most_)

    limited = limits and any(_margins(f, now, device) for device in now.entries)
    alone = batched = sequences = None
    if limited:
        alone = most(lambda n: fits(attempt(n, 1)), MOST_CELLS, near(lambda n: attempt(n, 1), context_tokens, MOST_CELLS))
        batched = most(lambda n: holds(n, batch), MOST_CELLS, near(lambda n: made(n, batch), context_tokens, MOST_CELLS))
        sequences = longest(
            lambda n: holds(context_tokens, n), context.MAX_SEQ, near(lambda n: made(context_tokens, n), batch, context.MAX_SEQ)
        )
    groups = tuple(
        Group(
            role=store.role,
            kind=store.kind,
            layers=store.printed_layers,
            cells=store.cells,
            streams=store.streams,
            k_bytes=store.k_bytes,
            v_bytes=store.v_bytes,
        )
        for store in now.stores
    )
    widest_v = is_variable_v(f.rows)
    has_window = any(store.role.endswith("kv_swa") for store in now.stores)
    one = attempt(context_tokens, 1)
    offloaded = now.where.offloaded, now.where.counted
    return Capacity(
        kv_bytes=kv_bytes,
        kv_bytes_low=kv_bytes,
        kv_bytes_high=kv_bytes,
        request_bytes=max(one.caches.values()),
        tokens=ctx.n_ctx,
        max_concurrency=held,
        max_context=ctx.slot,
        max_context_unbounded=alone,
        max_context_at_batch=batched,
        max_batch=sequences,
        log_lines=(s.printed(ctx.n_ctx, ctx.n_seq_max) if s.printed else ())
        + wordings.lines(ctx, now.stores, vocab=f.widths.vocab, layers=offloaded if now.where.n_devices else None),
        warnings=wordings.warnings(ctx, d.max_model_len or 1, widest_v=widest_v, has_window=has_window),
        groups=groups,
        offloaded=offloaded if now.where.n_devices else None,
        beside=now.placed.beside,
    )


ENGINE = Engine(FACTS, settle, plan, risks=risks)
