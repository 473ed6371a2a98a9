"""From pools to an answer: what limits the requests of one worker, and what the engine logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.engines.common.pooled import Figures, Requests, Room
from kvplan.engines.common.protocol import Group
from kvplan.engines.tensorrt_llm.pools import TrtPool, TrtPools, TrtPoolSettings
from kvplan.units import GIB, LARGEST, cdiv


def blocks_of(pool: TrtPool, context: int, k: TrtPoolSettings) -> int:
    """Blocks of one pool that one sequence keeps: all of it, or its window and the block in which that starts."""
    whole = cdiv(context, k.block)
    return min(whole, cdiv(pool.window, k.block) + 1) if pool.window else whole


def request_bytes(p: TrtPools, requests: Requests, k: TrtPoolSettings) -> int:
    """Bytes of one sequence on one rank."""
    cross = cdiv(requests.encoder, k.block) * k.block * p.cross_token
    state = 0 if p.apart else p.state_bytes
    return sum(blocks_of(pool, requests.context, k) * k.block * pool.token_bytes for pool in p.pools) + state + cross


def rooms(requests: Requests, p: TrtPools, limit: int, k: TrtPoolSettings) -> Iterator[Room]:
    """What the pools, max_batch_size and the longest request leave; `limit`: max_seq_len."""
    for pool in p.pools:
        if p.v2 and pool.window:  # set aside for max_batch_size requests, or as many as the quota holds
            each = cdiv(pool.window, k.block)
            if (short := requests.batch - pool.blocks // each) > 0:
                yield Room(
                    -short * each * k.block * pool.token_bytes, f"the quota holds the windows of {requests.batch - short:,} requests"
                )
            continue
        need = requests.batch * blocks_of(pool, requests.context, k)
        spare = (pool.blocks - need) * k.block * pool.token_bytes
        yield Room(spare, f"{need:,} blocks do not fit the pool of {pool.blocks:,}" if spare < 0 else None)
    if p.cross_token:
        need = requests.batch * cdiv(requests.encoder, k.block)
        spare = (p.cross_blocks - need) * k.block * p.cross_token
        yield Room(spare, f"{need:,} blocks of encoder tokens do not fit the pool of {p.cross_blocks:,}" if spare < 0 else None)
    over = requests.batch - k.max_batch
    if over > 0:
        yield Room(-over * request_bytes(p, requests, k), f"max_batch_size is {k.max_batch}, not {requests.batch}", setting=True)
    beyond = requests.context - limit
    if beyond > 0:
        yield Room(-max(beyond * p.pools[0].token_bytes, 1), f"max_seq_len is {limit:,}, not {requests.context:,}", setting=True)


def allocated(p: TrtPools, k: TrtPoolSettings) -> int:
    """Bytes of the pools of one rank. V2 lays its whole quota out as pools."""
    cross = p.cross_blocks * k.block * p.cross_token
    if p.v2 and (p.window_reserve or p.state_bytes):
        return p.quota + cross
    return cross + sum(pool.n_bytes(k.block) for pool in p.pools) + (0 if p.apart else p.state_slots * p.state_bytes)


def pool_lines(p: TrtPools, k: TrtPoolSettings) -> dict[str, int]:
    """The pools by the name of their lines: the drafter's layers are in the same blocks, their part is that of a token's bytes."""
    whole, (drafted, every) = allocated(p, k), p.drafted
    if not drafted:
        return {"cache: pools": whole}
    part = whole * drafted // every
    return {"cache: pools": whole - part, "cache: drafter": part}


def figures(fullest: TrtPools, made: Sequence[TrtPools], requests: Requests, k: TrtPoolSettings, host_bytes: int) -> Figures:
    """TensorRT-LLM's terms: tokens are those of the pool that keeps all tokens."""
    main, tokens = fullest.pools[0], min(p.tokens for p in made)
    return Figures(
        request_bytes=request_bytes(fullest, requests, k),
        tokens=tokens if tokens < LARGEST else None,
        max_concurrency=min(float(k.max_batch), main.blocks / blocks_of(main, requests.context, k)),
        blocks=main.blocks if main.token_bytes else None,
        block_tokens=k.block,
        bytes_per_block=k.block * main.token_bytes,
        log_lines=_log_lines(fullest, k),
        warnings=_warnings(fullest, k),
        groups=_groups(fullest, k, host_bytes),
    )


def _groups(p: TrtPools, k: TrtPoolSettings, host_bytes: int) -> tuple[Group, ...]:
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


def _log_lines(p: TrtPools, k: TrtPoolSettings) -> tuple[str, ...]:
    main, n_bytes = p.pools[0], allocated(p, k)
    lines = [f"Estimated max memory in KV cache : {p.quota / GIB:.2f} GiB"]
    lines += [f"Window size = {pool.window}, primary_blocks: {pool.blocks}" for pool in p.pools if len(p.pools) > 1 and not p.v2]
    lines.append(f"Number of tokens per block: {k.block}.")
    lines.append(f"[MemUsageChange] Allocated {n_bytes / GIB:.2f} GiB for max tokens in paged KV cache ({main.blocks * k.block}).")
    return tuple(lines)


def _warnings(p: TrtPools, k: TrtPoolSettings) -> tuple[str, ...]:
    bound = p.pools[0].blocks * k.block
    if p.v2 or bound >= k.max_seq_len:
        return ()
    return (f"Attention window size {k.max_seq_len} exceeds upper bound {bound} for available blocks. Reducing to {bound}.",)
