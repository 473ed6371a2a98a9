"""One pipeline stage's ranks: their layers' cells, and the pools that a number of bytes makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvplan.engines.common.lines import Refusal
from kvplan.engines.sglang import deepseek_v4, deepseek_v41, one_pool, pools
from kvplan.engines.sglang.cells import Cells, LayerBytes, Split, add_up, encoder_rows, layer_bytes, together, with_draft, with_workspace
from kvplan.engines.sglang.ngram import Beside
from kvplan.engines.sglang.pools import SglangPoolSettings, States, Tokens
from kvplan.engines.sglang.rules import SglangRules
from kvplan.tensors import Layer, Lowered, distinct
from kvplan.units import LARGEST, cdiv


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangStage:
    """One stage: its layers and cells. `compressed`: DeepSeek-V4's layers, sized by rules of their own; `cross`: it has cross-attention.

    drafted       bytes of a token in the drafter's pool, which has as many tokens
    drafted_slot  bytes of a state slot in the drafter's, likewise
    """

    layers: range
    cells: Cells
    compressed: deepseek_v4.V4Model | deepseek_v41.V41Model | None
    cross: bool
    drafted: int = 0
    drafted_slot: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangPools:
    """What every rank of one stage allocates: tokens, states, running requests, and the bytes of each pool, padding included."""

    stage: SglangStage
    tokens: Tokens
    states: States | None
    running: int
    full_token_bytes: float
    swa_token_bytes: float
    full_bytes: int
    swa_bytes: int
    fixed_bytes: int
    draft_bytes: int = 0
    table_bytes: int = 0

    @property
    def state_bytes(self) -> int:
        return self.states.n_bytes if self.states else 0

    @property
    def lines(self) -> dict[str, int]:
        """The bytes of each pool that there is, by the name of its line."""
        sizes = {
            "full pool": self.full_bytes,
            "window pool": self.swa_bytes,
            "state pool": self.state_bytes,
            "fixed states": self.fixed_bytes,
            "drafter": self.draft_bytes,
            "tables of the one pool": self.table_bytes,
        }
        return {f"cache: {name}": n_bytes for name, n_bytes in sizes.items() if n_bytes}


class Drafted(NamedTuple):
    """What a drafter adds to a token: `layers` as large as the target's, or its own; `known`: whose they are; `own`: charged by those.

    tp       ranks that its heads are charged as split over, where a release does not see that they share prompts
    counted  layers that a token is charged for beside
    """

    layers: int
    known: tuple[Layer, ...]
    own: bool
    tp: int
    counted: tuple[Layer, ...] = ()


def read_stage(
    model: Lowered, layers: range, split: Split, rules: SglangRules, *, draft: Drafted, dtype: str, beside: Beside
) -> SglangStage:
    """The stage's cells; the draft of speculation is on every stage that has layers, as the engine counts it.

    A draft worker has a pool of its own of as many tokens; what a token is charged for it is a share of the target's, before 0.5.14
    nothing; for DFlash and DSpark a share, since 0.5.18 the drafter's own. `beside`: what it takes that is not charged.
    """
    lowered = list(model.layers[layers.start : layers.stop])
    if deepseek_v4.is_compressed(model.layers):
        empty = add_up((), windows=False)
        if split.records is not None:
            made = deepseek_v41.read(lowered, split.records, len(draft.known))
            return SglangStage(layers=layers, cells=empty, compressed=made, cross=False)
        return SglangStage(layers=layers, cells=empty, compressed=deepseek_v4.read(lowered, len(model.draft)), cross=False)
    if rules.next_window and split.windows:
        lowered += model.layers[layers.stop : layers.stop + 1]
    held = [layer_bytes(layer, split, rules) for layer in lowered]
    held += encoder_rows(held, split)
    if not split.windows:
        held = _alike(held, [layer_bytes(layer, split, rules) for layer in distinct(model.layers)])
    if split.whole_index and (keys := max((x.index_token for x in held), default=0)):
        held = [x if x.index_token or not x.latent else x._replace(index_token=keys, charged=x.charged + keys) for x in held]
    at = 4 if split.replayed and any(x.state for x in held) else 0  # where a slot's ring is written next
    cells = with_workspace(add_up(held, windows=split.windows, at=at), held, rules, dtype, split)
    charged = with_draft(cells, draft.layers, split.dcp if rules.dcp_index else 1, by_float=rules.scaled_drafts)
    drafted, slot = charged.full_held - cells.full_held, 0
    if draft.known:
        drafted, slot = _own_rows(draft, split, rules)
        if draft.own and rules.block_drafts != "shared":
            seen = split if rules.block_drafts == "own" else split._replace(attn_tp=draft.tp)
            charged = cells._replace(full=cells.full + _own_rows(draft, seen, rules)[0])
    if draft.counted:
        charged = cells._replace(full=cells.full + sum(layer_bytes(layer, split, rules).kv_token for layer in draft.counted))
    if draft.own and rules.block_drafts == "shared":
        layers_of_both = cells.n_full + (len(draft.known) or draft.layers)
        charged = cells if split.windows or not cells.n_full else cells._replace(full=cdiv(cells.full * layers_of_both, cells.n_full))
    elif not rules.draft_in_cell or (split.windows and not rules.window_drafts):
        charged, drafted = cells, drafted if draft.known else 0
    cells = charged._replace(full_held=cells.full_held, ring=beside.request, spare_rings=beside.spare, beside=cells.beside + beside.slot)
    return SglangStage(layers=layers, cells=cells, compressed=None, cross=any(x.cross for x in held), drafted=drafted, drafted_slot=slot)


def _own_rows(draft: Drafted, split: Split, rules: SglangRules) -> tuple[int, int]:
    """Bytes of a token and of a request's states in the drafter's pool; index keys may be of all the context's ranks already."""
    wide = 1 if rules.dcp_index else split.dcp
    own = [layer_bytes(layer, split, rules) for layer in draft.known]
    return sum(x.kv_token * split.dcp + x.index_token * wide for x in own), sum(x.conv_state + x.state for x in own)


def _alike(held: list[LayerBytes], kinds: list[LayerBytes]) -> list[LayerBytes]:
    """One pool has one geometry: window layers that keep every token take the heads of those that are made to."""
    full = next((x for x in kinds if x.kv_token and not x.window and not x.latent), None)
    if full is None:
        return held
    return [x._replace(k_token=full.k_token, v_token=full.v_token, charged=full.charged) if x.window and x.kv_token else x for x in held]


def build(stages: Sequence[SglangStage], rest: int, k: SglangPoolSettings, rules: SglangRules, ratio: float | None) -> list[SglangPools]:
    """The pools of every stage from the bytes each rank may give them; all stages agree on the fewest tokens. Raises Refusal."""
    if stages[0].compressed is not None:
        return _agree_compressed(stages, rest, k, rules, ratio)
    whole = together([stage.cells for stage in stages])
    slot = max(stage.cells.slot for stage in stages) if rules.staged_states == "charged" else whole.slot
    if slot and rules.staged_states == "all":
        stages = [replace(stage, cells=whole) for stage in stages]
    elif rules.staged_states == "whole":
        stages = [replace(s, cells=s.cells._replace(conv_state=whole.conv_state, state=whole.state)) for s in stages]
    states = pools.states(rest, slot, k, rules)
    left = rest - (states.charged_bytes if states else 0)
    if left <= 0:
        raise Refusal(f"Not enough memory. Please try to increase --mem-fraction-static. Current value: {k.fraction:g}")
    alone = not any(_keeps_kv(s) for s in stages)
    slots = states.slots if states else None
    profiled = min(left // (s.cells.full + s.cells.swa) if _keeps_kv(s) else LARGEST for s in stages)
    rows = 0
    if rules.draft_headroom and k.draft_steps and k.draft_tokens and stages[0].cells.n_full:
        told = None if states else k.max_running
        rows = _headroom(told or pools.running_requests(profiled, profiled, k, rules, slots), k)
    found = [_tokens(left + rows * (s.cells.full + s.cells.swa), s.cells, k, rules, alone=alone) for s in stages]
    fewest = min(t.total for t in found)
    agreed = [t if t.total == fewest else pools.at_most(t, s.cells, k, rules, fewest) for t, s in zip(found, stages, strict=True)]
    running = pools.running_requests(profiled, fewest, k, rules, slots)
    made = [_pools(stage, t, states, running, k, rules) for stage, t in zip(stages, agreed, strict=True)]
    return [_in_one(p, left, fewest, k, rules) for p in made] if k.shared else made


def _in_one(p: SglangPools, left: int, fewest: int, k: SglangPoolSettings, rules: SglangRules) -> SglangPools:
    """The pools in one buffer, without rows to spare, and its tables."""
    own, cells = p.states, p.stage.cells
    free = _tokens(left, cells, k._replace(max_total_tokens=None), rules, alone=False).total == fewest
    found = one_pool.shared(left if free else None, p.tokens, cells, own.slots if own else 0, k, rules)
    swa = (p.tokens.swa or 0) * cells.swa_held
    return replace(
        p, full_bytes=found.rows - swa, swa_bytes=swa, table_bytes=found.tables, states=own and own._replace(allocated=own.slots)
    )


def _headroom(running: int, k: SglangPoolSettings) -> int:
    """Rows beside the budget for the drafts of running requests and what is verified of them (0.5.6 model_runner.py init_memory_pool)."""
    return running * (k.draft_steps * k.draft_branches + k.draft_tokens) + 100


def _keeps_kv(stage: SglangStage) -> bool:
    return bool(stage.cells.n_full or stage.cells.n_swa)


def _tokens(left: int, cells: Cells, k: SglangPoolSettings, rules: SglangRules, *, alone: bool) -> Tokens:
    """A stage without any KV does not limit the others."""
    if not alone and not cells.n_full and not cells.n_swa:
        return Tokens(LARGEST, LARGEST, None)
    found = pools.tokens(left, cells, k, rules)
    grown = k.shared and not rules.own_numbers and cells.n_swa and cells.n_full and not k.max_total_tokens
    return one_pool.whole_tokens(found, left, cells, k) if grown else found


def _pools(stage: SglangStage, t: Tokens, states: States | None, running: int, k: SglangPoolSettings, rules: SglangRules) -> SglangPools:
    cells, page = stage.cells, k.page
    if t.swa is not None and rules.split_from == "layers":
        page = 1  # SWAKVPool of 0.4.10 gives its two pools no page size
    if states and rules.plain_rows:
        page = 1  # nor does HybridLinearKVPool of 0.5.2
    # keys of rows in host memory, which were beside the budget at first, have no page to spare; pages of one token have one more of keys
    spare = (page == 1) * cells.indexer  # mem_cache/hisparse_memory_pool.py, index_key_cache.py
    if k.index_copies > 1:
        charged = rules.dsa_charge == "stored"
        spare += (k.index_copies - 1) * (-page * cells.indexer // k.index_copies if charged else t.total * cells.indexer)
    own = states and states.at(cells, running, k, rules)
    if own and rules.radix_states == "none":
        held = min(k.max_running or running, own.slots)  # 0.5.3 model_runner.py init_memory_pool: asked requests, of all groups
        own = own._replace(allocated=max(held, running) + 1)
    return SglangPools(
        stage=stage,
        tokens=t,
        states=own,
        running=running,
        full_token_bytes=cells.full_held + stage.drafted,
        swa_token_bytes=cells.swa_held,
        full_bytes=(t.total + page) * cells.full_held + spare,
        swa_bytes=0 if t.swa is None else (t.swa + page) * cells.swa_held,
        fixed_bytes=(running + cells.spare_rings) * cells.ring,
        draft_bytes=(t.total + page) * stage.drafted + (own.allocated if own else 0) * stage.drafted_slot,
    )


def _agree_compressed(
    stages: Sequence[SglangStage], rest: int, k: SglangPoolSettings, rules: SglangRules, ratio: float | None
) -> list[SglangPools]:
    shared = [stage.compressed for stage in stages if isinstance(stage.compressed, deepseek_v41.V41Model)]
    models = [stage.compressed for stage in stages if isinstance(stage.compressed, deepseek_v4.V4Model)]
    charged = models if rules.v4_staged or shared else [deepseek_v4.together(models)] * len(models)
    sizes = [deepseek_v41.size(rest, m, k, rules, ratio) for m in shared]  # of one stage: the engine refuses more
    sizes += [deepseek_v4.size(rest, m, k, rules, ratio, c) for m, c in zip(models, charged, strict=True)]
    fewest = min(s.tokens.total for s in sizes)
    if len(sizes) > 1:
        capped = k._replace(max_total_tokens=min(fewest, k.max_total_tokens or fewest))
        sizes = [deepseek_v4.size(rest, m, capped, rules, ratio, c) for m, c in zip(models, charged, strict=True)]
    running = pools.running_requests(fewest, fewest, k, rules, None)
    made = []
    for stage, s in zip(stages, sizes, strict=True):
        made.append(
            SglangPools(
                stage=stage,
                tokens=s.tokens,
                states=None,
                running=running,
                full_token_bytes=s.per_full_token,
                swa_token_bytes=s.per_swa_token,
                full_bytes=s.full_bytes,
                swa_bytes=s.swa_bytes,
                fixed_bytes=s.fixed,
                draft_bytes=s.drafted,
            )
        )
    return made
