"""From a pool to an answer: does the question's batch stay resident, and what would the engine log."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.protocol import Capacity, Group
from kvplan.engines.lmdeploy.pools import Pool, Slabs, most_blocks
from kvplan.engines.lmdeploy.settle import LmdeploySettings
from kvplan.units import MIB, MOST_TOKENS, cdiv, longest


class Load(NamedTuple):
    """Sequences on one worker and tokens of each."""

    batch: int
    context: int


class Left(NamedTuple):
    """What a load leaves of the pool in bytes (negative: missing), whether it is held, and the condition that fails."""

    spare: int
    fits: bool
    reason: str | None


def left(load: Load, pool: Pool, s: LmdeploySettings, *, bounded: bool = True) -> Left:
    """What the pool and the settings leave. `bounded`: session_len and what it is cut to count too."""
    spare = pool.spare(load.batch, load.context)
    blocks = load.batch * cdiv(load.context, s.block)
    found = [(spare, f"{blocks:,} blocks do not fit the {most_blocks(pool, load.batch):,} that sequences can have" if spare < 0 else None)]
    most = pool.longest if bounded else max(pool.longest, _unbounded(pool, s))
    stops = [f"max_batch_size is {s.max_batch}, not {load.batch}"] if load.batch > s.max_batch else []
    if load.context > most:
        reason = f"the longest session it admits has {most:,} tokens, not {load.context:,}"
        if load.context > s.session_len:
            stops.append(reason)
        else:  # cut to what the pool holds
            missing = max(cdiv(load.context, s.block) - most // s.block, 1) * max(pool.kept.block, 1)
            found.append((-missing, reason))
    spare, reason_ = min(found, key=lambda item: item[0])
    return Left(spare, spare >= 0 and not stops, reason_ or next(iter(stops), None))


def _unbounded(pool: Pool, s: LmdeploySettings) -> int:
    """Tokens that one session could have if session_len were no limit."""
    return (pool.usable - 1) * s.block if s.backend == "pytorch" and s.rules.margin else pool.usable * s.block


def request_bytes(pool: Pool, context: int) -> int:
    """Bytes of one sequence on one rank, its states included."""
    return cdiv(context, pool.tokens) * pool.kept.block + (pool.slot_bytes or pool.kept.state_bytes)


def capacity(pool: Pool, bounds: tuple[int, int], load: Load, s: LmdeploySettings, free: int | None, beyond: int) -> Capacity:
    """Capacity in LMDeploy's terms: blocks of one rank, tokens and sequences of one worker."""

    def holds(batch: int, context: int, *, bounded: bool = False) -> bool:
        return not beyond and left(Load(batch, context), pool, s, bounded=bounded).fits

    alone = longest(lambda n: holds(1, n), MOST_TOKENS)
    at_batch = longest(lambda n: holds(load.batch, n), MOST_TOKENS)
    most = longest(lambda n: holds(n, load.context, bounded=True), s.max_batch)
    blocks = most_blocks(pool, load.batch)
    return Capacity(
        kv_bytes=pool.n_bytes,
        kv_bytes_low=min(bounds[0], pool.n_bytes),
        kv_bytes_high=max(bounds[1], pool.n_bytes),
        blocks=pool.blocks,
        block_tokens=s.block,
        bytes_per_block=pool.kept.block,
        request_bytes=request_bytes(pool, load.context),
        tokens=blocks * s.block,
        max_concurrency=min(float(s.max_batch), blocks / cdiv(load.context, s.block)),
        max_context=longest(lambda n: holds(1, n, bounded=True), MOST_TOKENS),
        max_context_unbounded=None if alone >= MOST_TOKENS else alone,
        max_context_at_batch=None if at_batch >= MOST_TOKENS else at_batch,
        max_batch=most,
        log_lines=_log_lines(pool, s, free),
        warnings=_warnings(pool, s),
        groups=_groups(pool, s, blocks),
    )


def _groups(pool: Pool, s: LmdeploySettings, blocks: int) -> tuple[Group, ...]:
    found = [
        Group(
            role="full",
            kind="attention",
            layers=pool.kept.layers,
            block_tokens=s.block,
            page_bytes=pool.kept.block,
            cells=blocks * s.block,
        )
    ]
    if pool.kept.state_bytes:
        slots, size = pool.state_slots or s.max_batch, pool.slot_bytes or pool.kept.state_bytes
        layers = len(pool.kept.states)
        found.append(Group(role="state", kind="recurrent", layers=layers, page_bytes=size, cells=slots, streams=s.max_batch))
    return tuple(found)


def _log_lines(pool: Pool, s: LmdeploySettings, free: int | None) -> tuple[str, ...]:
    if s.backend == "pytorch":
        return (f"num_gpu_blocks={pool.blocks}",)
    if s.rules.pool == "blocks":
        said = f"[TM][INFO] {s.rules.said}"
        return (
            f"{said}block_size = {pool.kept.block / MIB:.3f} MB",
            f"{said}max_block_count = {pool.blocks}",
            f"{said}chunk_size = {pool.blocks}",
        )
    slabs = Slabs.of(pool.kept.block)
    lines = [f"slab_size {slabs.n_bytes}, object_size {slabs.object_bytes}, object_count {slabs.objects}"]
    if free is not None:
        budget = f"Object cache budget: {pool.n_bytes / MIB:.2f} MB from free {free / MIB:.2f} MB and ratio {s.fraction:.3f}"
        lines.insert(0, budget)
    return tuple(lines)


def _warnings(pool: Pool, s: LmdeploySettings) -> tuple[str, ...]:
    if s.backend == "turbomind" and s.rules.truncated and pool.longest < s.session_len:
        return (s.rules.truncated.format(asked=s.session_len, to=pool.longest),)
    return ()
