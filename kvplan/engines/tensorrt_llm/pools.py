"""From bytes to blocks: the V1 manager (one pool, shares per window, states), and the V2 manager (one quota).

Source: tensorrt_llm/_torch/pyexecutor/resource_manager.py, calculate_max_num_blocks, calculate_max_num_blocks_from_cpp (1.0 to 1.2),
calculate_max_num_blocks_for_vswa, _calculate_max_num_blocks_for_linear_attention; cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp,
calculateMaxNumBlocks and calculateWindowSizeToShare; mamba_cache_manager.py, MambaCacheManager (1.0 to 1.2);
kv_cache/kv_cache_manager_v2.py, _get_max_tokens_from_quota, _estimate_swa_cache_size; kv_cache/mamba_cache_manager,
MambaHybridCacheManagerV2._get_quota_from_max_tokens. Divisions are the engine's own, floats included. Releases differ as
rules.py says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.lines import Refusal
from kvplan.engines.common.protocol import RULE
from kvplan.engines.tensorrt_llm.cells import LayerCache
from kvplan.units import LARGEST, cdiv, longest, round_up

RESUME = 0.95  # max_util_for_resume: V2 keeps this share for requests that come back


class TrtPoolSettings(NamedTuple):
    """The settings that pools depend on, resolved.

    shares     of memory per window, smallest window first; None: by_window, else equal
    up         tokens are rounded up to blocks, in one pool and in pools by window
    by_window  shares follow window x bytes of a token
    dry_run    the budget is of a dry run, and max_tokens bounds it
    apart      recurrent states are tensors of their own beside the pool
    spare      state slots that no request has: graph padding, and attention data parallelism's dummy
    counted    bytes a token by which a budget becomes tokens, as a fraction of the pool's
    alone      one rank, which agrees on no number of tokens with others (KVCacheManagerV2.__init__)
    """

    block: int
    max_seq_len: int
    max_batch: int
    max_num_tokens: int
    pp: int
    draft_tokens: int
    max_tokens: int | None
    windows: tuple[int, ...]
    shares: tuple[float, ...] | None
    scratch: bool
    reuse: bool
    snapshot: int
    up: tuple[bool, bool] = (False, False)
    by_window: bool = False
    dry_run: bool = True
    apart: bool = False
    spare: int = 1
    counted: tuple[int, int] = (1, 1)
    alone: bool = False


class TrtPool(NamedTuple):
    """Blocks that layers of one window share. `window` 0: all tokens."""

    window: int
    layers: int
    token_bytes: int
    tokens: int
    blocks: int

    def n_bytes(self, block: int) -> int:
        return self.blocks * block * self.token_bytes


class TrtPools(NamedTuple):
    """One rank's pools, largest window first; state slots and the bytes of one; what V2 keeps per request for windows.

    apart                      the states are no part of the pools' bytes
    cross_token, cross_blocks  bytes of an encoder token, and blocks of the pool of its own that cross-attention has
    drafted                    of a token's bytes those of the drafter's layers, and all
    """

    v2: bool
    pools: tuple[TrtPool, ...]
    state_slots: int
    state_bytes: int
    window_reserve: int
    quota: int
    cross_token: int = 0
    cross_blocks: int = 0
    drafted: tuple[int, int] = (0, 0)
    apart: bool = False

    @property
    def tokens(self) -> int:
        return self.pools[0].tokens if self.pools else 0


def nothing_kept(k: TrtPoolSettings) -> TrtPools:
    """The pools of ranks whose layers keep no tokens and no states: they limit nothing."""
    return TrtPools(False, (TrtPool(0, 0, 0, LARGEST, LARGEST // k.block),), 0, 0, 0, 0)


def v1(n_bytes: int, layers: Sequence[LayerCache], windows: Sequence[int], k: TrtPoolSettings) -> TrtPools:
    """KV cache manager V1: one pool, or a share of memory for each distinct window. Raises Refusal."""
    state = sum(x.state for x in layers)
    if state and not k.apart:
        return _v1_states(n_bytes, layers, state, k)
    kept = [(x, w) for x, w in zip(layers, windows, strict=True) if x.token]
    tokens = _of_windows(kept)
    whole = max(tokens, default=0) >= k.max_seq_len
    if len(tokens) > 1 and k.dry_run:
        held = _shrunk(n_bytes, tokens, k)
        kept = [(x, held[w]) for x, w in kept]
        tokens = _of_windows(kept)
        _check_shares(len(tokens), k)
    counts = _v1_windows(n_bytes, tokens, k) if len(tokens) > 1 else {w: _v1_blocks(n_bytes, token, k) for w, token in tokens.items()}
    pools = [
        TrtPool(0 if whole and w == max(tokens) else w, sum(1 for _, at in kept if at == w), tokens[w], counts[w] * k.block, counts[w])
        for w in reversed(tokens)
    ]
    if not kept:
        pools = list(nothing_kept(k).pools)
    _check(pools)
    return TrtPools(False, tuple(pools), k.max_batch if state else 0, state, 0, n_bytes, apart=bool(state))


def _check_shares(n_windows: int, k: TrtPoolSettings) -> None:
    """Raises Refusal for shares of another number of windows, or that floats do not add up to 1 (from 1.3 on)."""
    if k.shares and len(k.shares) != n_windows:
        raise Refusal("Number of shares in TRTLLM_WINDOW_SIZE_SHARES must match number of window sizes", sure=RULE)
    if k.shares and not k.up[1] and sum(k.shares) != 1.0:
        raise Refusal("Sum of shares in TRTLLM_WINDOW_SIZE_SHARES must be 1.0", sure=RULE)


def _of_windows(kept: Sequence[tuple[LayerCache, int]]) -> dict[int, int]:
    """Bytes of a token in the layers of each window, smallest window first."""
    return {window: sum(x.token for x, w in kept if w == window) for window in sorted({w for _, w in kept})}


def _shrunk(n_bytes: int, tokens: dict[int, int], k: TrtPoolSettings) -> dict[int, int]:
    """Each window, as it is where one sequence fits in all of them, else cut to what is left (adjust_window_sizes_for_vswa)."""
    if sum(window * token for window, token in tokens.items()) < n_bytes:
        return {window: window for window in tokens}
    found: dict[int, int] = {}
    left, held, before, rest = n_bytes, 0, 0, sum(tokens.values())
    for window, token in tokens.items():
        if left > 0:
            more = min(left // rest, window - before)
            left, held = (left - more * rest, held + more) if held + more >= window else (0, held + more)
            if k.max_tokens is not None and held >= k.max_tokens:
                left, held = 0, k.max_tokens
        found[window], before, rest = held, window, rest - token
    return found


def _v1_blocks(n_bytes: int, token: int, k: TrtPoolSettings) -> int:
    """Blocks of one pool. An estimate that counts other bytes a token than the pool has leaves the rest unused."""
    tokens = n_bytes // max(token * k.counted[0] // k.counted[1], token)
    tokens = tokens if k.max_tokens is None else min(tokens, k.max_tokens)
    return cdiv(tokens, k.block) if k.up[0] else tokens // k.block


def _v1_windows(n_bytes: int, tokens: dict[int, int], k: TrtPoolSettings) -> dict[int, int]:
    """Blocks of each window, smallest first. max_tokens bounds the memory of all (_util.py, configure_kv_cache_capacity)."""
    if k.max_tokens is not None and k.dry_run:
        n_bytes = min(n_bytes, k.max_tokens * sum(tokens.values()))
    weights = [window * token if k.by_window else 1 for window, token in tokens.items()]
    shares = k.shares or [weight / sum(weights) for weight in weights]
    most = k.max_tokens if k.max_tokens is not None and k.by_window and not k.dry_run else LARGEST
    held = {window: min(n_bytes * share / token, most) for (window, token), share in zip(tokens.items(), shares, strict=True)}
    return {window: cdiv(int(n), k.block) if k.up[1] else int(n // k.block) for window, n in held.items()}


def _v1_states(n_bytes: int, layers: Sequence[LayerCache], state: int, k: TrtPoolSettings) -> TrtPools:
    """Recurrent states live in the same pool: one per running request, and one per `snapshot` tokens where prefixes are reused."""
    token = sum(x.token for x in layers)
    interval = k.snapshot if k.reuse else 0
    slope = token + (state // interval if interval else 0)
    tokens = max((n_bytes - k.max_batch * k.pp * state) // max(slope, 1), 0)
    tokens = tokens if k.max_tokens is None else min(tokens, k.max_tokens)
    slots = k.max_batch * k.pp + 1 + k.draft_tokens + (tokens // interval if interval else 0)
    blocks = tokens // k.block
    pool = TrtPool(0, sum(1 for x in layers if x.token), token, blocks * k.block, blocks)
    if blocks <= 0 and (token or n_bytes < k.max_batch * k.pp * state):
        raise Refusal(
            f"Impossible to fit in any sequence in kvCache: {n_bytes} bytes hold no block beside the states of {k.max_batch * k.pp} "
            f"requests, {k.max_batch * k.pp * state} bytes"
        )
    return TrtPools(False, (pool,), slots, state, 0, n_bytes)


def _check(pools: Sequence[TrtPool]) -> None:
    if any(pool.blocks <= 0 for pool in pools) or not pools:
        raise Refusal("Impossible to fit in any sequence in kvCache")


class _Sizes(NamedTuple):
    """Bytes per token of full layers, of window layers while a prompt is read; bytes of all windows of one request; of one state."""

    full: int
    context: int
    request: int
    state: int


def _sizes(layers: Sequence[LayerCache], windows: Sequence[int], k: TrtPoolSettings) -> _Sizes:
    full = context = request = 0
    shapes = set()
    for x, window in zip(layers, windows, strict=True):
        if not window or window >= k.max_seq_len:
            full += x.token
            continue
        request += round_up(window, k.block) * x.token
        context += 0 if k.scratch and (window, x.token) in shapes else x.token
        shapes.add((window, x.token))
    return _Sizes(full, context, request, sum(x.state for x in layers))


def v2(n_bytes: int, layers: Sequence[LayerCache], windows: Sequence[int], k: TrtPoolSettings) -> TrtPools:
    """KV cache manager V2: one quota. Every request's windows are set aside first; a prompt counts window layers too. Raises Refusal.

    A rank alone takes the quota as it is: where it does not hold a block beside all windows, fewer requests run at once
    (NVIDIA/TensorRT-LLM#18523: Gemma 3 27B in 42.4 GiB, where the windows of 2,048 requests are 416).
    """
    s = _sizes(layers, windows, k)
    if k.alone and not s.state and n_bytes < k.max_batch * s.request + k.block * (s.full + s.context):
        k = k._replace(max_batch=max(1, n_bytes // (s.request + k.max_seq_len * s.full)))
    tokens = _v2_states(n_bytes, s, k) if s.state else _v2_tokens(n_bytes, s, k)
    if k.max_tokens is not None:
        tokens = min(tokens, int(k.max_tokens / RESUME))
    plain = not s.request and not s.state
    blocks = tokens // k.block
    if blocks <= 0:
        raise Refusal(
            f"Impossible to fit in any sequence in kvCache: the quota of {n_bytes} bytes holds no block beside "
            f"{k.max_batch * k.pp if s.state else k.max_batch} requests' windows and states"
        )
    n_full = sum(1 for x, w in zip(layers, windows, strict=True) if x.token and not 0 < w < k.max_seq_len)
    pools = [TrtPool(0, n_full, s.full, blocks * k.block if plain else tokens, blocks)]
    for window in sorted({w for w in windows if 0 < w < k.max_seq_len}, reverse=True):
        held = [x for x, w in zip(layers, windows, strict=True) if w == window and x.token]
        kept = round_up(window, k.block) * k.max_batch
        pools.append(TrtPool(window, len(held), sum(x.token for x in held), kept, kept // k.block))
    slots = _slots(tokens, k) if s.state else 0
    return TrtPools(True, tuple(pools), slots, s.state, k.max_batch * s.request, n_bytes)


def _v2_tokens(quota: int, s: _Sizes, k: TrtPoolSettings) -> int:
    reserve = k.max_batch * s.request
    if quota < reserve:
        return 0
    per_token = s.full + s.context
    limit = k.max_num_tokens * per_token + reserve
    if quota <= limit or not s.full:
        return int((quota - reserve) / per_token) if per_token else 0
    return int(k.max_num_tokens + (quota - limit) / s.full)


def _slots(tokens: int, k: TrtPoolSettings) -> int:
    """State slots of V2; no request reaches a snapshot that is further than the longest (_mamba_regular_snapshot_interval)."""
    snapshots = tokens // k.snapshot if k.reuse and 0 < k.snapshot <= k.max_seq_len else 0
    return k.max_batch * k.pp + k.spare + snapshots


def _v2_states(quota: int, s: _Sizes, k: TrtPoolSettings) -> int:
    """The most tokens whose attention pages, states and snapshots fit the quota."""

    def holds(tokens: int) -> bool:
        slots = _slots(tokens, k)
        step = min(tokens, k.max_num_tokens) * s.context
        partial = k.max_batch * k.pp * s.full * k.block if slots > k.max_batch * k.pp + k.spare else 0
        return tokens * s.full + step + k.max_batch * s.request + slots * s.state + partial <= quota

    return longest(holds)
