"""From bytes to pools: tokens of the full and the window pool, state slots, running requests.

Source: sglang 0.5.23 model_executor/pool_configurator.py, DefaultPoolConfigurator, HybridSWAPoolConfigurator,
SWARequestCapPoolConfigurator, compute_swa_request_cap; mem_cache/kv_cache_configurator.py, _handle_max_mamba_cache,
_calculate_mamba_ratio, resolve_max_num_reqs. Divisions are the engine's own, floats included.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.lines import Refusal
from kvplan.engines.sglang.cells import Cells
from kvplan.engines.sglang.rules import SglangRules
from kvplan.units import GIB, MIB, round_up

EVICTION_INTERVAL = 128
FEW_RECEIVED = 32  # requests up to which a server that only decodes has room for others that come in
NO_RADIX_STATES = 512  # state slots of 0.5.3 to 0.5.6 without a prefix cache (model_runner.py)


class SglangPoolSettings(NamedTuple):
    """The settings that pools depend on, resolved.

    draft_tokens    tokens verified per step, 0 without speculation; draft_chain: they are one chain, no tree
    draft_branches  tokens that a step branches into; idle_drafts: tokens to verify that are given without a drafter
    state_groups    attention groups that the slots of states are dealt out to
    decodes         the server only decodes; tracked: state slots that it gives a request for prefixes at once
    shared          one buffer is for states or windows and the full cache
    index_copies    tokens of index keys for each of rows: those of rows in host memory, too
    swa_tails       prefixes whose windows are kept (--swa-prefix-tails); replays: each request has a window of its own
    evicted_every   decoded tokens after which what left a window is given back
    told_running    running requests that were asked for
    """

    page: int
    context_len: int
    chunk: int
    max_running: int | None
    attention_dp: int
    draft_tokens: int
    draft_steps: int
    draft_chain: bool
    radix: bool
    overlap: bool
    swa_ratio: float
    mamba_ratio: float
    max_states: int | None
    slots_per_request: int
    max_total_tokens: int | None
    fraction: float
    draft_branches: int = 1
    idle_drafts: int = 0
    state_groups: int = 1
    decodes: bool = False
    tracked: int = 0
    index_copies: int = 1
    shared: bool = False
    swa_tails: int | None = None
    replays: bool = False
    evicted_every: int = EVICTION_INTERVAL
    told_running: int | None = None

    @property
    def running_per_worker(self) -> int | None:
        return None if self.max_running is None else max(1, self.max_running // self.attention_dp)

    def received(self, running: int, rules: SglangRules) -> int:
        """Requests that a server which only decodes has room for beside those that run, while they come in.

        Source: model_executor/model_runner.py init_memory_pool (0.5.2 to 0.5.13); arg_groups/pd_disaggregation_hook.py.
        """
        told = max(1, self.told_running // self.attention_dp) if self.told_running else 0
        requests = told if rules.decode_received else running
        return 2 * requests if self.decodes and requests <= FEW_RECEIVED else 0


class States(NamedTuple):
    """The state pool: `slots` that requests can get, slots allocated (one is padding), slots charged, copies charged for drafts.

    drafted  bytes of those copies as allocated; beside: of a slot, not charged
    """

    slots: int
    allocated: int
    charged: int
    draft: int
    slot_bytes: int
    drafted: int = 0
    beside: int = 0

    @property
    def n_bytes(self) -> int:
        return self.allocated * (self.slot_bytes + self.beside) + self.drafted

    @property
    def charged_bytes(self) -> int:
        return (self.charged + self.draft) * self.slot_bytes

    def at(self, cells: Cells, running: int, k: SglangPoolSettings, rules: SglangRules) -> States:
        """The slots as a stage allocates them: its own layers', and a draft's copies for every running request and one more.

        A server that only decodes has slots for requests that run and that come in (at most the charged: capped), for those that come in
        beside the charged, or the larger of either (least).

        Source: mem_cache/memory_pool.py, MambaPool; disaggregation/decode.py, HybridMambaDecodeReqToTokenPool. Copies of one chain of
        drafts share convolution windows from 0.5.14 on.
        """
        n, received = k.draft_tokens or k.idle_drafts, k.received(running, rules)
        allocated = (
            self.slots
            if not k.decodes
            else {
                "": self.slots,
                "requests": running + received,
                "capped": min(self.slots, running + received),
                "beside": self.slots + received,
                "least": max(self.slots, (running + received) * (1 + k.tracked)),
            }[rules.decode_slots]
        )
        windows = cells.conv_state * n
        if rules.shared_windows and k.draft_chain and cells.window_columns:
            windows = cells.conv_state // cells.window_columns * (n + cells.window_columns - 1)
        copies = (allocated if rules.draft_states in ("free", "slots") else running + received) + 1
        drafted = copies * (windows + (cells.state + cells.beside) * n) if n else 0
        return self._replace(allocated=allocated + 1, slot_bytes=cells.slot, beside=cells.beside, drafted=drafted)


class Tokens(NamedTuple):
    """Tokens of the pools, before request limits. swa is None without a window pool; full is 0 where all layers have windows."""

    total: int
    full: int
    swa: int | None


def states(rest: float, slot: int, k: SglangPoolSettings, rules: SglangRules) -> States | None:
    """The state pool out of `rest` bytes; None for a model without recurrent states. Raises Refusal."""
    if not slot:
        return None
    padding, workers, charged = int(rules.padded_states), k.running_per_worker or 0, 0
    draft = k.draft_tokens or k.idle_drafts * int(rules.draft_states == "slots")
    if rules.draft_states == "requests":
        rest -= workers * draft * slot
    dealt = (k.max_running or 0) * draft * int(rules.draft_states == "dealt")
    given = k.max_states if rules.radix_states != "ratio" or not k.radix else None
    if given is None and not k.radix and rules.fixed_states:
        given = k.max_running or NO_RADIX_STATES
    if given is not None:
        slots = given // k.state_groups
        requests = min(workers, slots // k.slots_per_request)
    elif not k.radix and k.max_running is not None:
        slots = requests = k.running_per_worker or 1
    else:
        rest -= dealt * slot
        charged = dealt
        budget = rest * k.mamba_ratio / (1 + k.mamba_ratio)
        if draft and rules.draft_states == "slots":
            slots = int(budget // slot // (1 + draft))
        elif draft and rules.draft_states == "shared":
            slots = int((budget - padding * slot * (1 + draft)) // (slot * (1 + draft / k.slots_per_request)))
        else:
            slots = int((budget - padding * slot) // slot)
        slots //= k.state_groups if rules.radix_states == "ratio" else 1  # 0.5.4 to 0.5.6 model_runner.py handle_max_mamba_cache
        requests = min(workers, slots // k.slots_per_request)
    if slots <= 0:
        raise Refusal(
            f"Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size={slots} "
            f"(total_rest_memory={rest / GIB:.2f} GB, mamba_cache_per_req={slot / MIB:.2f} MB)"
        )
    copies = {"free": 0, "slots": slots, "dealt": 0, "requests": workers, "shared": requests + padding}[rules.draft_states]
    return States(slots, slots + 1, slots + padding, copies * draft + charged, slot)


def request_cap(window: int, k: SglangPoolSettings, rules: SglangRules) -> int:
    """Window slots that max_running_requests can hold live at worst, in tokens."""
    draft, steps, branches = max(k.draft_tokens, 1), k.draft_steps, k.draft_branches
    per_request = window_tokens_per_request(window, k)
    if not k.draft_tokens:
        decode = k.page
    elif k.overlap:  # mem_cache/common.py get_alloc_len_per_decode: two steps are outstanding, a branch in pages has its own
        decode = 2 * max((steps if 1 in (k.page, branches) else round_up(k.page - 1 + steps, k.page)) * branches, draft)
    else:  # utils/common.py spec_decode_alloc_len_per_request
        tail = k.page if k.page > 1 and branches > 1 else 0
        decode = max(round_up(steps + tail, k.page) * branches, round_up(draft, k.page))
    held = (per_request + decode) * (k.running_per_worker or 1)
    if k.decodes:
        return held + (window + k.page) * k.received(0, rules)
    return held + (2 if k.overlap else 1) * k.chunk + k.page


def window_tokens_per_request(window: int, k: SglangPoolSettings) -> int:
    """Window slots that one decoding request keeps: window, what is not evicted yet, and the page its start lies in."""
    return window + k.evicted_every * max(k.draft_tokens or k.idle_drafts, 1) + k.page


def tokens(rest: int, cells: Cells, k: SglangPoolSettings, rules: SglangRules) -> Tokens:
    """Tokens that `rest` bytes hold, page-aligned, after --max-total-tokens. Raises Refusal."""
    if not cells.n_swa:
        total = (rest // cells.full if cells.full else k.max_total_tokens or k.context_len) // k.page * k.page
        found = Tokens(total, total, None)
    elif not cells.n_full:
        total = int(rest // (cells.swa + cells.full)) // k.page * k.page
        found = Tokens(total, 0, total)
    elif _is_capped(k, rules):
        found = _capped(rest, cells, k, rules)
    elif rules.split_from != "bytes":
        return _from_tokens(rest, cells, k, rules)
    else:
        found = _by_ratio(int(rest // (cells.full + k.swa_ratio * cells.swa)), k)
    return at_most(found, cells, k, rules, k.max_total_tokens)


def at_most(found: Tokens, cells: Cells, k: SglangPoolSettings, rules: SglangRules, limit: int | None) -> Tokens:
    """The pools under a token limit (--max-total-tokens, or the smallest pipeline stage), which can only lower them. Raises Refusal."""
    if limit is not None and limit < found.total:
        total = limit // k.page * k.page
        if found.swa is None:
            found = Tokens(total, total, None)
        elif not found.full:
            found = Tokens(total, 0, total)
        elif _is_capped(k, rules):
            found = Tokens(total, total, min(found.swa or 0, limit))
        else:
            found = _by_ratio(limit, k)
    if found.total <= 0:
        raise Refusal(f"Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static={k.fraction:g}")
    checked = (rules.window_checked == "all" and not k.shared) or (
        rules.window_checked == "ratio" and found.full and not _is_capped(k, rules)
    )
    if checked and found.swa is not None and cells.window + k.page >= found.swa:
        raise Refusal(
            f"SWA pool ({found.swa} tokens) cannot hold even one request: the prefill admission floor is sliding_window_size "
            f"({cells.window}) + page_size ({k.page}). Increase --swa-full-tokens-ratio or the total KV budget"
        )
    return found


def _is_capped(k: SglangPoolSettings, rules: SglangRules) -> bool:
    """Whether the window pool is sized from the requests that were asked for."""
    return rules.request_caps and not k.radix and k.max_running is not None


def _by_ratio(limit: int, k: SglangPoolSettings) -> Tokens:
    full = limit // k.page * k.page
    return Tokens(full, full, int(full * k.swa_ratio) // k.page * k.page)


def _from_tokens(rest: int, cells: Cells, k: SglangPoolSettings, rules: SglangRules) -> Tokens:
    """The split of tokens that all layers would hold alike; a token limit comes first, so that the split pool may exceed it.

    Sources: 0.4.10 model_runner.py set_num_token_hybrid; 0.5.9 model_runner_kv_cache_mixin.py set_num_tokens_hybrid_swa.
    """
    alike = min(rest // (cells.full + cells.swa), k.max_total_tokens or rest) // k.page * k.page
    by_bytes = rules.split_from == "tokens"
    full, swa = (cells.full_held, cells.swa_held) if by_bytes else (cells.n_full, cells.n_swa)
    total = int(alike * (full + swa) / (full + k.swa_ratio * swa))
    page = 1 if rules.split_from == "layers" else k.page  # 0.5.8 is split by layers and cut to pages
    if total <= 0:
        raise Refusal(f"Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static={k.fraction:g}")
    return Tokens(total // page * page, total // page * page, int(total * k.swa_ratio) // page * page)


def _capped(rest: int, cells: Cells, k: SglangPoolSettings, rules: SglangRules) -> Tokens:
    swa = round_up(request_cap(cells.window, k, rules), k.page)
    full = (rest - swa * cells.swa) // cells.full // k.page * k.page
    if full <= 0:
        raise Refusal(
            f"SWA pool cap ({swa} tokens, {swa * cells.swa / GIB:.2f} GiB) leaves no room for the full KV pool within the available "
            f"{rest / GIB:.2f} GiB. Reduce --max-running-requests or increase --mem-fraction-static"
        )
    return Tokens(full, full, swa)


def running_requests(profiled: int, total: int, k: SglangPoolSettings, rules: SglangRules, state_slots: int | None) -> int:
    """max_running_requests of one worker; `profiled`: tokens before --max-total-tokens. Raises Refusal where states serve no request."""
    asked = k.running_per_worker
    estimated = max(min(int((profiled if rules.running == "asked" else total) / k.context_len * 512), 4096), 2048)
    if asked is None:
        limit = min(estimated + rules.spare_request, total // 2)
    else:
        limit = min(asked, {"asked": asked, "estimated": estimated, "half": total // 2}[rules.running])
    if limit <= 0:
        raise Refusal("max_running_request is zero")
    if state_slots is not None:
        limit = min(limit, state_slots // k.slots_per_request)
        if limit <= 0:
            raise Refusal(
                "Hybrid (mamba/linear-attention) state cache is too small to serve any requests. "
                f"max_mamba_cache_size={state_slots}, mamba_ratio={k.slots_per_request}, resulting max_num_reqs={limit}"
            )
    return limit
