"""From pools to an answer: does the question's batch stay resident, and what would the engine log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import longest
from kvplan.engines.common.protocol import Capacity, Group
from kvplan.engines.tensorrt_llm.pools import Pool, Pools, TrtPoolSettings
from kvplan.units import GIB, LARGEST, cdiv

_MOST = 1 << 40


class Load(NamedTuple):
    """Sequences on one worker and tokens of each."""

    batch: int
    context: int


def blocks_of(pool: Pool, context: int, k: TrtPoolSettings) -> int:
    """Blocks of one pool that one sequence keeps: all of it, or its window and the block in which that starts."""
    whole = cdiv(context, k.block)
    return min(whole, cdiv(pool.window, k.block) + 1) if pool.window else whole


def request_bytes(p: Pools, context: int, k: TrtPoolSettings) -> int:
    """Bytes of one sequence on one rank."""
    return sum(blocks_of(pool, context, k) * k.block * pool.token_bytes for pool in p.pools) + p.state_bytes


def margin(load: Load, made: Sequence[Pools], k: TrtPoolSettings) -> tuple[int, int, str | None]:
    """Spare bytes of the tightest pool (negative: missing), the stage it is on, and the condition that fails."""
    found: list[tuple[int, int, str | None]] = []
    for n, p in enumerate(made):
        for pool in p.pools:
            if p.v2 and pool.window:
                continue  # set aside for max_batch_size requests
            need = load.batch * blocks_of(pool, load.context, k)
            spare = (pool.blocks - need) * k.block * pool.token_bytes
            found.append((spare, n, f"{need:,} blocks do not fit the pool of {pool.blocks:,}" if spare < 0 else None))
        over = load.batch - k.max_batch
        if over > 0:
            found.append((-over * request_bytes(p, load.context, k), n, f"max_batch_size is {k.max_batch}, not {load.batch}"))
        beyond = load.context - k.max_seq_len
        if beyond > 0:
            missing = -max(beyond * p.pools[0].token_bytes, 1)
            found.append((missing, n, f"max_seq_len is {k.max_seq_len:,}, not {load.context:,}"))
    return min(found, key=lambda item: item[0]) if found else (0, 0, None)


def allocated(p: Pools, k: TrtPoolSettings) -> int:
    """Bytes of the pools of one rank. V2 lays its whole quota out as pools."""
    if p.v2 and (p.window_reserve or p.state_bytes):
        return p.quota
    return sum(pool.n_bytes(k.block) for pool in p.pools) + p.state_slots * p.state_bytes


def capacity(d: Deployment, made: Sequence[Pools], bounds: tuple[int, int], load: Load, k: TrtPoolSettings, host_bytes: int) -> Capacity:
    """Capacity in TensorRT-LLM's terms: tokens are those of the pool that keeps all tokens."""
    fullest = max(made, key=lambda p: allocated(p, k))
    main = fullest.pools[0]

    def holds(batch: int, context: int) -> bool:
        return margin(Load(batch, context), made, k._replace(max_seq_len=max(context, k.max_seq_len)))[0] >= 0

    unbounded = longest(lambda n: holds(1, n), _MOST)
    at_batch = longest(lambda n: holds(load.batch, n), _MOST)
    need = blocks_of(main, load.context, k)
    tokens = min(p.tokens for p in made)
    return Capacity(
        kv_bytes=allocated(fullest, k),
        kv_bytes_low=bounds[0],
        kv_bytes_high=bounds[1],
        blocks=main.blocks if main.token_bytes else None,
        block_tokens=k.block,
        bytes_per_block=k.block * main.token_bytes,
        request_bytes=request_bytes(fullest, load.context, k),
        tokens=tokens if tokens < LARGEST else None,
        max_concurrency=min(float(k.max_batch), main.blocks / need),
        max_context=min(unbounded, k.max_seq_len),
        max_context_unbounded=None if unbounded >= _MOST else unbounded,
        max_context_at_batch=None if at_batch >= _MOST else at_batch,
        max_batch=longest(lambda n: holds(n, load.context), k.max_batch),
        log_lines=_log_lines(fullest, k),
        warnings=_warnings(fullest, k),
        groups=_groups(fullest, k, host_bytes),
    )


def _groups(p: Pools, k: TrtPoolSettings, host_bytes: int) -> tuple[Group, ...]:
    found = []
    for pool in p.pools:
        role = "window" if pool.window else "full"
        page = k.block * pool.token_bytes
        kind = f"window {pool.window}" if role == "window" else "attention"
        found.append(
            Group(
                role=role, kind=kind, layers=pool.layers, block_tokens=k.block, page_bytes=page, cells=pool.tokens, span=pool.window or None
            )
        )
    if p.state_slots:
        found.append(Group(role="state", kind="recurrent", layers=0, page_bytes=p.state_bytes, cells=p.state_slots))
    page = k.block * sum(pool.token_bytes for pool in p.pools)
    if host_bytes and page:
        found.append(
            Group(role="host", kind="pinned host memory", layers=0, block_tokens=k.block, page_bytes=page, cells=host_bytes // page)
        )
    return tuple(found)


def _log_lines(p: Pools, k: TrtPoolSettings) -> tuple[str, ...]:
    main, n_bytes = p.pools[0], allocated(p, k)
    lines = [f"Estimated max memory in KV cache : {p.quota / GIB:.2f} GiB"]
    lines += [f"Window size = {pool.window}, primary_blocks: {pool.blocks}" for pool in p.pools if len(p.pools) > 1 and not p.v2]
    lines.append(f"Number of tokens per block: {k.block}.")
    lines.append(f"[MemUsageChange] Allocated {n_bytes / GIB:.2f} GiB for max tokens in paged KV cache ({main.blocks * k.block}).")
    return tuple(lines)


def _warnings(p: Pools, k: TrtPoolSettings) -> tuple[str, ...]:
    bound = p.pools[0].blocks * k.block
    if p.v2 or bound >= k.max_seq_len:
        return ()
    return (f"Attention window size {k.max_seq_len} exceeds upper bound {bound} for available blocks. Reducing to {bound}.",)
