"""From pools to an answer: does the question's batch stay resident, what would the engine log, what does every rank hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import longest
from kvplan.engines.common.protocol import Capacity, Group
from kvplan.engines.sglang.pools import SglangPoolSettings, window_tokens_per_request
from kvplan.engines.sglang.rank import Pools
from kvplan.engines.sglang.settle import SglangLayout
from kvplan.units import GIB, round_up

MAX_PREFILL_TOKENS = 16384
_MOST = 1 << 40


class Load(NamedTuple):
    """Sequences on one data-parallel worker, tokens of each, and encoder tokens where the model has cross-attention."""

    batch: int
    context: int
    encoder: int = 0


def need(load: Load, p: Pools, k: SglangPoolSettings) -> tuple[int, int]:
    """Tokens of the full and of the window pool, all decode-context ranks together, that these sequences keep."""
    tokens = round_up(load.context + (load.encoder if p.stage.cross else 0), k.page)
    if p.tokens.swa is None:
        return load.batch * tokens, 0
    window = p.stage.compressed.window if p.stage.compressed else p.stage.cells.window
    kept = min(tokens, round_up(window_tokens_per_request(window, k), k.page))
    return (load.batch * tokens if p.tokens.full else 0), load.batch * kept


def margin(load: Load, made: Sequence[Pools], k: SglangPoolSettings, shape: SglangLayout) -> tuple[int, int, str | None]:
    """Spare bytes of the tightest pool (negative: missing), the stage it is on, and the condition that fails."""
    found: list[tuple[int, int, str | None]] = []
    for n, p in enumerate(made):
        full, swa = need(load, p, k)
        have = p.tokens.full * shape.dcp
        if p.full_token_bytes and p.tokens.full:
            spare = int((have - full) * p.full_token_bytes) // shape.dcp
            found.append((spare, n, f"{full:,} tokens do not fit the KV pool of {have:,}" if spare < 0 else None))
        if p.tokens.swa is not None:
            spare = int((p.tokens.swa - swa) * p.swa_token_bytes)
            found.append((spare, n, f"{swa:,} tokens do not fit the window pool of {p.tokens.swa:,}" if spare < 0 else None))
        over = load.batch - p.running
        if over > 0:
            missing = -over * max(request_bytes(load._replace(batch=1), p, k, shape), 1)
            found.append((missing, n, f"max_running_requests is {p.running}, not {load.batch}"))
        longest_request = min(k.context_len, have - 1 if p.full_token_bytes and p.tokens.full else p.tokens.total - 1)
        beyond = load.context - longest_request
        if beyond > 0 and (p.full_token_bytes or p.swa_token_bytes):
            missing = -max(int(beyond * (p.full_token_bytes or p.swa_token_bytes)), 1)
            found.append((missing, n, f"the longest request it admits has {longest_request:,} tokens, not {load.context:,}"))
    if not found:
        return 0, 0, None
    return min(found, key=lambda item: item[0])


def request_bytes(load: Load, p: Pools, k: SglangPoolSettings, shape: SglangLayout) -> int:
    """Bytes that one sequence takes of one rank's pools, its state slots included."""
    full, swa = need(load._replace(batch=1), p, k)
    states = p.states.slot_bytes * k.slots_per_request if p.states else 0
    return int(full * p.full_token_bytes) // shape.dcp + int(swa * p.swa_token_bytes) + states


def capacity(
    d: Deployment, made: Sequence[Pools], bounds: tuple[int, int], load: Load, k: SglangPoolSettings, shape: SglangLayout
) -> Capacity:
    """Capacity in SGLang's terms: bytes of the fullest rank, tokens of one worker (max_total_num_tokens)."""
    fullest = max(made, key=lambda p: p.total_bytes)
    total = made[0].tokens.total * shape.dcp

    free = k._replace(context_len=_MOST)

    def holds(batch: int, context: int, under: SglangPoolSettings = free) -> bool:
        return margin(load._replace(batch=batch, context=context), made, under, shape)[0] >= 0

    unbounded = longest(lambda n: holds(1, n), _MOST)
    at_batch = longest(lambda n: holds(load.batch, n), _MOST)
    running = min(p.running for p in made)
    full, swa = need(load._replace(batch=1), fullest, k)
    rooms = [float(running)]
    rooms += [fullest.tokens.full * shape.dcp / full] if full and fullest.full_token_bytes else []
    rooms += [fullest.tokens.swa / swa] if swa and fullest.tokens.swa is not None else []
    return Capacity(
        kv_bytes=fullest.total_bytes,
        kv_bytes_low=bounds[0],
        kv_bytes_high=bounds[1],
        blocks=fullest.tokens.total // k.page,
        block_tokens=k.page,
        bytes_per_block=int(k.page * (fullest.full_token_bytes or fullest.swa_token_bytes)),
        request_bytes=request_bytes(load, fullest, k, shape),
        tokens=total,
        max_concurrency=min(rooms),
        max_context=min(unbounded, k.context_len),
        max_context_unbounded=None if unbounded >= _MOST else unbounded,
        max_context_at_batch=None if at_batch >= _MOST else at_batch,
        max_batch=longest(lambda n: holds(n, load.context, k), running),
        log_lines=log_lines(d, fullest, k, total),
        warnings=_warnings(d, total, k),
        groups=groups(fullest, k),
    )


def groups(p: Pools, k: SglangPoolSettings) -> tuple[Group, ...]:
    """The pools of one rank: full, window, states."""
    cells, found = p.stage.cells, []
    n_full = p.stage.compressed.layers if p.stage.compressed else cells.n_full
    if p.full_token_bytes:
        kind = "latent" if cells.latent or p.stage.compressed else "attention"
        page_bytes = int(k.page * p.full_token_bytes)
        found.append(Group(role="full", kind=kind, layers=n_full, block_tokens=k.page, page_bytes=page_bytes, cells=p.tokens.total))
    if p.tokens.swa is not None:
        layers = p.stage.compressed.layers if p.stage.compressed else cells.n_swa
        page_bytes = int(k.page * p.swa_token_bytes)
        span = p.stage.compressed.window if p.stage.compressed else cells.window
        found.append(
            Group(role="window", kind="window", layers=layers, block_tokens=k.page, page_bytes=page_bytes, cells=p.tokens.swa, span=span)
        )
    if p.states:
        state = Group(role="state", kind="recurrent", layers=0, page_bytes=p.states.slot_bytes, cells=p.states.slots, streams=p.running)
        found.append(state)
    return tuple(found)


def log_lines(d: Deployment, p: Pools, k: SglangPoolSettings, total: int) -> tuple[str, ...]:
    """The capacity lines that the engine prints at start, in its wording; its GB are GiB."""
    lines, cells, t = [], p.stage.cells, p.tokens
    dtype = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "fp8_e4m3": "float8_e4m3fn", "nvfp4": "float4_e2m1fn_x2"}
    name = f"torch.{dtype.get(d.kv_dtype or '', d.kv_dtype)}"
    if t.swa is not None and t.full:
        lines.append(f"Use sliding window memory pool. full_layer_tokens={t.full}, swa_layer_tokens={t.swa}")
    elif t.swa is not None:
        lines.append(f"Use sliding window memory pool (all SWA). swa_layer_tokens={t.swa}")
    if p.states:
        conv, state = (x * p.states.allocated / GIB for x in (cells.conv_state, cells.state))
        sizes = f"conv_state size: {conv:.2f}GB, ssm_state size: {state:.2f}GB"
        lines.append(f"Mamba Cache is allocated. max_mamba_cache_size: {p.states.slots}, {sizes}")
    for tokens, k_token, token_bytes in ((t.full, cells.full_k, cells.full), (t.swa, cells.swa_k, cells.swa)):
        if not tokens or not token_bytes:
            continue
        slots = tokens + k.page
        if cells.latent:
            sizes = f"KV size: {slots * token_bytes / GIB:.2f} GB"
        else:
            target_v = token_bytes - k_token
            sizes = f"K size: {slots * k_token / GIB:.2f} GB, V size: {slots * target_v / GIB:.2f} GB"
        lines.append(f"KV Cache is allocated. dtype: {name}, #tokens: {tokens}, {sizes}")
    lines.append(
        f"max_total_num_tokens={total}, chunked_prefill_size={k.chunk}, max_prefill_tokens={MAX_PREFILL_TOKENS}, "
        f"max_running_requests={p.running}, context_len={k.context_len}"
    )
    return tuple(lines)


def _warnings(d: Deployment, total: int, k: SglangPoolSettings) -> tuple[str, ...]:
    found = []
    if total < k.context_len:
        found.append(f"KV pool holds {total} tokens, fewer than --context-length {k.context_len}")
    if d.model.max_context and k.context_len > d.model.max_context:
        found.append(f"context length {k.context_len} is more than the {d.model.max_context} tokens that {d.model.id} declares")
    return tuple(found)
