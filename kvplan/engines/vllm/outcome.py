"""From a pool and a question to the answer: ledgers, capacity, what fits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import Span, least_sure, sure_by
from kvplan.engines.common.phases import tightest as tightest_phase
from kvplan.engines.common.protocol import RULE, Capacity, Certainty, Group, Outcome, Pooled, Settled
from kvplan.engines.common.settling import whole_curve
from kvplan.engines.vllm import capacity as engine
from kvplan.engines.vllm.budget import Budget
from kvplan.engines.vllm.capacity import Pool, Tables
from kvplan.engines.vllm.groups import KVGroup
from kvplan.engines.vllm.model import longest_of
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.specs import FULL
from kvplan.engines.vllm.wordings import Refused, too_few_states
from kvplan.ledger import Basis, Entry, Ledger
from kvplan.units import cdiv, longest, show_bytes


class Asked(NamedTuple):
    """What one replica must hold."""

    batch: int
    context: int | None  # None: as long as the engine allows


class Answer(NamedTuple):
    """What a pool makes of it."""

    pool: Pool
    blocks: int
    max_model_len: int
    context: int
    admission: engine.Admission
    fits: bool
    margin: int
    stage: int
    reason: str | None
    lines: tuple[str, ...]
    capture: str | None

    @property
    def starts(self) -> bool:
        return self.admission.refusal is None and self.capture is None

    @property
    def lack_bytes(self) -> int | None:
        """What is missing where it does not start: of the longest request, or of a block for every sequence's states."""
        if self.starts:
            return None
        return self.admission.available - self.admission.needed if self.admission.refusal else self.margin


def answer(tables: Tables, available: Sequence[int], s: VllmSettings, asked: Asked) -> Answer:
    """The engine's verdict for these bytes per stage. Refused where it stops before the admission check."""
    pool = engine.make_pool(tables, available, s)
    blocks, max_model_len = engine.num_blocks(pool), s.max_model_len
    checked = pool._replace(available=tuple(available)) if overrides_late(s) else pool
    lines: tuple[str, ...] = ()
    if s.auto_fit:
        max_model_len, line = engine.auto_fit(checked, s, s.max_model_len)
        lines = (line,)
    context = max_model_len if asked.context is None else asked.context
    admission = engine.admit(checked, s, max_model_len)
    stage, usable = tightest(pool, blocks), usable_blocks(s, blocks)
    need = asked.batch * engine.request_blocks(pool, context)
    margin = (usable - need) * pool.block_bytes[stage]
    if not pool.groups:  # nothing to keep: what is loaded and computed is all there is
        stage, margin = available.index(min(available)), min(available)
    missing = min(engine.spare_states(pool, s, blocks) or 0, 0)
    capture = too_few_states(s.max_num_seqs, blocks) if missing else None
    reason = admission.refusal or capture
    if capture and not admission.refusal:
        margin = missing * pool.block_bytes[stage]
    elif reason:
        stage, margin = admission.stage, min(margin, admission.available - admission.needed)
    elif not pool.groups and margin < 0:
        reason = f"weights and what a batch takes are {show_bytes(-margin)} more than its share of the device"
    elif context > max_model_len:
        reason = f"a request of {context:,} tokens is longer than max_model_len {max_model_len:,}"
    elif asked.batch > s.max_num_seqs:
        reason = f"{asked.batch} sequences a replica are more than max_num_seqs {s.max_num_seqs}"
    elif margin < 0:
        reason = f"{asked.batch} x {context:,} tokens need {need:,} blocks and {max(usable, 0):,} are free"
    return Answer(pool, blocks, max_model_len, context, admission, reason is None, margin, stage, reason, lines, capture)


def overrides_late(s: VllmSettings) -> bool:
    """Whether the check and the fitted length are of memory all the same: V1 to 0.20.0 (v1/core/kv_cache_utils.py get_kv_cache_configs)."""
    return s.blocks_override is not None and s.rules.v1 and not s.since("0.20.1")


def tightest(pool: Pool, blocks: int) -> int:
    """The stage whose memory runs out first."""
    return min(range(len(pool.available)), key=lambda i: pool.available[i] // pool.block_bytes[i] if pool.block_bytes[i] else blocks)


def usable_blocks(s: VllmSettings, blocks: int) -> int:
    """Blocks that sequences may take: one is the null block, which holds nothing.

    V0 under pipeline parallelism schedules each stage's batches on a share of its own (core/scheduler.py num_gpu_blocks).
    """
    return blocks - 1 if s.rules.v1 else blocks // s.pp


def pooled(settled: Settled, tables: Tables, budgets: Sequence[Budget]) -> Pooled | None:
    """The answer over every batch, and every context up to max_model_len; None where there is no pool. Refused as `answer` is."""
    d, s = settled.question, settled.settings
    a = answer(tables, [b.available for b in budgets], s, Asked(1, s.max_model_len))
    if not a.pool.groups:
        return None
    found = ledgers(d, s, budgets, a.pool, a.blocks)
    start = tightest_phase(found, serving=False)
    return Pooled(
        whole=whole_curve(settled),
        replicas=d.dp or 1,
        rank_total_bytes=max(ledger.total_bytes for ledger in found),
        kv_bytes=a.blocks * a.pool.block_bytes[a.stage],
        tokens=engine.reported_tokens(a.pool, s, a.blocks, a.max_model_len),
        max_concurrency=engine.concurrency(a.pool, s, a.blocks, a.max_model_len),
        free_units=usable_blocks(s, a.blocks),
        unit_bytes=a.pool.block_bytes[tightest(a.pool, a.blocks)],
        request=engine.request_curves(a.pool),
        lack_bytes=a.lack_bytes if not a.starts else start.spare if start and start.spare < 0 else None,
        longest=a.max_model_len,
        most=s.max_num_seqs,
    )


def outcome(
    d: Deployment,
    s: VllmSettings,
    tables: Tables,
    budgets: Sequence[Budget],
    asked: Asked,
    notes: Sequence[str],
    lines: Sequence[str],
    *,
    limits: bool = True,
) -> Outcome:
    """The outcome for the point estimate, and how sure it is from both ends of the budget. `limits`: see `evaluate`."""
    if s.blocks_override is not None and not overrides_late(s):  # so many, whatever memory says
        pools = [cost * s.blocks_override for cost in tables.block_bytes]
        budgets = [b._replace(available=n, low=n, high=n) for b, n in zip(budgets, pools, strict=True)]
    point = answer(tables, [b.available for b in budgets], s, asked)

    @cache
    def tried(reach: float) -> Answer | None:
        left = [Span(b.available, b.low, b.high).at(reach) for b in budgets]
        try:
            return answer(tables, left, s, asked) if reach else point
        except Refused:
            return None

    unsaid: Certainty = RULE if point.capture and s.seqs_by != "you" else "certain"  # who names no max_num_seqs may have set one
    least = least_sure(unsaid, *(budget.free for budget in budgets if point.starts))
    return Outcome(
        ledgers=ledgers(d, s, budgets, point.pool, point.blocks),
        capacity=_capacity(d, s, point, budgets, asked, notes, lines, limits),
        starts=point.starts,
        fits=point.fits,
        certainty=least_sure(least, sure_by(lambda reach: (found := tried(reach)) is not None and found.fits)),
        margin_bytes=point.margin,
        limiting_rank=point.stage * s.tp,
        reason=point.reason,
        start_certainty=least_sure(least, sure_by(lambda reach: (found := tried(reach)) is not None and found.starts)),
    )


def ledgers(d: Deployment, s: VllmSettings, budgets: Sequence[Budget], pool: Pool | None, blocks: int) -> tuple[Ledger, ...]:
    """One ledger per pipeline stage, the cache as the engine allocates it."""
    made = []
    for stage, budget in enumerate(budgets):
        cost = pool.block_bytes[stage] if pool else 0
        cache = blocks * cost
        entries = list(budget.entries)
        if cache:
            given = budget.limit is None or s.blocks_override is not None  # the smallest stage's blocks, to the byte
            low, high = (cache, cache) if given else (max(end, 0) // cost * cost for end in (budget.low, budget.high))
            basis: Basis = "exact" if given else "modelled"
            entries += _cache_entries(pool, stage, Entry(
                "KV cache", cache, min(low, cache), max(high, cache), basis, f"{blocks} blocks of {cost} bytes", "cache"
            ), s)  # fmt: skip
        replica = s.tp * s.pp
        ranks = tuple(r * replica + stage * s.tp + t for r in range(s.dp) for t in range(s.tp))
        made.append(
            Ledger(
                ranks=ranks,
                device=d.device.id if d.device else None,
                cache_bytes=cache,
                cache_bytes_per_token=_slope(pool, stage, s) if pool else 0,
                entries=tuple(entries),
                limit_bytes=budget.limit,
                outside=budget.outside,
                device_bytes=d.device.memory_bytes if d.device and d.kv_memory is None else None,
            )
        )
    return tuple(made)


def _cache_entries(pool: Pool | None, stage: int, whole: Entry, s: VllmSettings) -> list[Entry]:
    """The cache as one line, or the drafter's part apart: its layers are in the same blocks, so its part is that of their pages."""
    pages = [(m.spec.page, m.draft) for g in (pool.groups if pool else ()) for m in g.members if m.stage == stage]
    drafted, every = sum(page for page, draft in pages if draft), sum(page for page, _ in pages)
    if not drafted:
        return [whole]
    parts = [n * drafted // every for n in (whole.bytes, whole.low, whole.high)]
    name = s.drafter.name if s.drafter else f"one {s.method} layer"
    source = f"{whole.source}, {drafted:,} of {every:,} bytes of their pages are the drafter's: {name}"
    apart = whole._replace(name="drafter: KV cache", bytes=parts[0], low=parts[1], high=parts[2], source=source)
    rest = [a - b for a, b in zip((whole.bytes, whole.low, whole.high), parts, strict=True)]
    return [whole._replace(bytes=rest[0], low=rest[1], high=rest[2]), apart]


def _slope(pool: Pool, stage: int, s: VllmSettings) -> int | float:
    """Bytes of pool that one more token of a long request costs a rank: a block id costs the same whichever group takes it."""
    per_token = sum(pool.block_bytes[stage] / (g.members[0].spec.block * s.dcp) for g in pool.groups if g.members[0].spec.kind in FULL)
    return int(per_token) if per_token == int(per_token) else per_token


def _capacity(
    d: Deployment,
    s: VllmSettings,
    a: Answer,
    budgets: Sequence[Budget],
    asked: Asked,
    notes: Sequence[str],
    lines: Sequence[str],
    limits: bool,
) -> Capacity:
    pool, per_request = a.pool, engine.request_blocks(a.pool, a.context)
    usable = max(usable_blocks(s, a.blocks), 0)
    cost = pool.block_bytes[a.stage]
    kept = bool(pool.groups)
    own = longest_of(d.model, s.rules)
    most = a.max_model_len  # which follows the context where it was not chosen, up to the model's own
    if not s.length_chosen:
        most = own if own and not s.allow_long else engine.FOREVER
    unbounded = at_batch = engine.FOREVER
    if a.capture:  # too many sequences stop it at any length
        unbounded = at_batch = 0
    elif limits:
        curves = engine.request_curves(pool)
        unbounded = engine.longest_admitted(pool, s, engine.FOREVER)
        at_batch = longest(lambda n: asked.batch * engine.request_at(curves, n) <= usable, most) if kept else most
    ends = [
        min(max(getattr(b, end), 0) // c for b, c in zip(budgets, pool.block_bytes, strict=True) if c) if kept else 0
        for end in ("low", "high")
    ]
    warnings = list(notes)
    if own and a.max_model_len > own:
        warnings.append(
            f"max_model_len {a.max_model_len} is more than the {own} tokens that {d.model.id} declares, "
            "as VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 allows"
        )
    logged = [*lines, *a.lines]
    if kept and a.starts:
        logged += engine.capacity_lines(pool, s, a.blocks, a.max_model_len)
    return Capacity(
        kv_bytes=a.blocks * cost,
        kv_bytes_low=min(ends[0] * cost, a.blocks * cost),
        kv_bytes_high=max(ends[1] * cost, a.blocks * cost),
        blocks=a.blocks if kept else None,
        block_tokens=None,
        bytes_per_block=cost if kept else None,
        request_bytes=a.admission.needed,
        tokens=engine.reported_tokens(pool, s, a.blocks, a.max_model_len) if kept else None,
        max_concurrency=engine.concurrency(pool, s, a.blocks, a.max_model_len) if kept else None,
        max_context=0 if a.capture else engine.longest_admitted(pool, s, a.max_model_len),
        max_context_unbounded=None if unbounded >= engine.FOREVER else unbounded,
        max_context_at_batch=None if at_batch >= engine.FOREVER else at_batch,
        max_batch=0 if a.capture else min(usable // per_request, s.max_num_seqs) if per_request else s.max_num_seqs,
        log_lines=tuple(logged),
        warnings=tuple(warnings),
        groups=show_groups(pool.groups),
    )


def show_groups(groups: Sequence[KVGroup]) -> tuple[Group, ...]:
    """Equal groups once, with their number."""
    counts: dict[Group, int] = {}
    for group in groups:
        spec = group.members[0].spec
        kinds = {m.spec.kind for m in group.members}
        kind = spec.kind if len(kinds) == 1 else "mla_attention" if kinds <= set(FULL[1:]) else "full_attention"
        page = group.bytes() if group.mixed else spec.page
        shown = Group(
            role="state" if spec.kind == "mamba" else "attention",
            kind=kind,
            layers=len(group.members),
            block_tokens=spec.block,
            page_bytes=page,
            span=spec.span or None if len(kinds) == 1 else None,
            block_bytes=sum(m.spec.content for m in group.members),
        )
        counts[shown] = counts.get(shown, 0) + 1
    return tuple(group._replace(n_groups=n) for group, n in counts.items())


def replica_batch(d: Deployment) -> int:
    """Sequences of the fullest data-parallel replica."""
    return cdiv(d.batch or 1, d.dp or 1)
