"""From pools to an answer: what limits the requests of one worker, what the engine logs, what every rank holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.pooled import Figures, Requests, Room
from kvplan.engines.common.protocol import Group
from kvplan.engines.sglang.memory import MAX_PREFILL_TOKENS
from kvplan.engines.sglang.pools import SglangPoolSettings, window_tokens_per_request
from kvplan.engines.sglang.rank import SglangPools
from kvplan.units import GIB, round_up


def need(requests: Requests, p: SglangPools, k: SglangPoolSettings) -> tuple[int, int]:
    """Tokens of the full and of the window pool, all decode-context ranks together, that these requests keep."""
    tokens = round_up(requests.context + (requests.encoder if p.stage.cross else 0), k.page)
    if not p.tokens.swa:
        return requests.batch * tokens, 0
    window = p.stage.compressed.window if p.stage.compressed else p.stage.cells.window
    kept = min(tokens, round_up(window_tokens_per_request(window, k), k.page))
    return (requests.batch * tokens if p.tokens.full else 0), requests.batch * kept


def rooms(requests: Requests, p: SglangPools, limit: int, k: SglangPoolSettings, dcp: int) -> Iterator[Room]:
    """What the pools, the running requests and the longest request leave; `limit`: --context-length."""
    full, swa = need(requests, p, k)
    have = p.tokens.full * dcp
    if p.full_token_bytes and p.tokens.full:
        spare = int((have - full) * p.full_token_bytes) // dcp
        yield Room(spare, f"{full:,} tokens do not fit the KV pool of {have:,}" if spare < 0 else None)
    if p.tokens.swa:
        spare = int((p.tokens.swa - swa) * p.swa_token_bytes)
        yield Room(spare, f"{swa:,} tokens do not fit the window pool of {p.tokens.swa:,}" if spare < 0 else None)
    over = requests.batch - p.running
    if over > 0:
        missing = -over * max(request_bytes(requests, p, k, dcp), 1)
        yield Room(missing, f"max_running_requests is {p.running}, not {requests.batch}", setting=True)
    most = have - 1 if p.full_token_bytes and p.tokens.full else p.tokens.total - 1
    longest = min(limit, most)
    beyond = requests.context - longest
    if beyond > 0 and (p.full_token_bytes or p.swa_token_bytes):
        missing = -max(int(beyond * (p.full_token_bytes or p.swa_token_bytes)), 1)
        yield Room(missing, f"the longest request it admits has {longest:,} tokens, not {requests.context:,}", setting=limit <= most)


def request_bytes(requests: Requests, p: SglangPools, k: SglangPoolSettings, dcp: int) -> int:
    """Bytes that one request takes of one rank's pools, its state slots included."""
    full, swa = need(requests._replace(batch=1), p, k)
    states = p.states.slot_bytes * k.slots_per_request if p.states else 0
    return int(full * p.full_token_bytes) // dcp + int(swa * p.swa_token_bytes) + states


def figures(
    d: Deployment, fullest: SglangPools, made: Sequence[SglangPools], requests: Requests, k: SglangPoolSettings, dcp: int
) -> Figures:
    """SGLang's terms: tokens of one worker (max_total_num_tokens)."""
    total = made[0].tokens.total * dcp
    full, swa = need(requests._replace(batch=1), fullest, k)
    per_worker = [float(min(p.running for p in made))]
    per_worker += [fullest.tokens.full * dcp / full] if full and fullest.full_token_bytes else []
    per_worker += [fullest.tokens.swa / swa] if swa and fullest.tokens.swa is not None else []
    return Figures(
        request_bytes=request_bytes(requests, fullest, k, dcp),
        tokens=total,
        max_concurrency=min(per_worker),
        blocks=fullest.tokens.total // k.page,
        block_tokens=k.page,
        bytes_per_block=int(k.page * (fullest.full_token_bytes or fullest.swa_token_bytes)),
        log_lines=log_lines(d, fullest, k, total),
        warnings=_warnings(d, fullest, total, k),
        groups=groups(fullest, k),
    )


def groups(p: SglangPools, k: SglangPoolSettings) -> tuple[Group, ...]:
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


def log_lines(d: Deployment, p: SglangPools, k: SglangPoolSettings, total: int) -> tuple[str, ...]:
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
    step = Options(d).count("max_prefill_tokens") or MAX_PREFILL_TOKENS
    lines.append(
        f"max_total_num_tokens={total}, chunked_prefill_size={k.chunk}, max_prefill_tokens={step}, "
        f"max_running_requests={p.running}, context_len={k.context_len}"
    )
    return tuple(lines)


def _warnings(d: Deployment, p: SglangPools, total: int, k: SglangPoolSettings) -> tuple[str, ...]:
    found, cells = [], p.stage.cells
    held = cells.full_held + cells.swa_held + p.stage.drafted
    if held > cells.full + cells.swa:
        found.append(
            f"this release charges {cells.full + cells.swa} bytes for a token and stores {held}: "
            "its pools exceed their budget, and it may run out of memory when it starts"
        )
    if total < k.context_len:
        found.append(f"KV pool holds {total} tokens, fewer than --context-length {k.context_len}")
    if d.model.max_context and k.context_len > d.model.max_context:
        found.append(f"context length {k.context_len} is more than the {d.model.max_context} tokens that {d.model.id} declares")
    return tuple(found)
