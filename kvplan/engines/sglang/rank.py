"""One pipeline stage's ranks: their layers' cells, and the pools that a number of bytes makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.engines.common.lines import Refusal
from kvplan.engines.sglang import deepseek_v4, pools
from kvplan.engines.sglang.cells import Cells, Split, add_up, layer_bytes, with_draft
from kvplan.engines.sglang.pools import SglangPoolSettings, States, Tokens
from kvplan.engines.sglang.rules import SglangRules
from kvplan.tensors import Lowered
from kvplan.units import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: its layers and cells. `compressed`: DeepSeek-V4's layers, sized by rules of their own; `cross`: it has cross-attention."""

    layers: range
    cells: Cells
    compressed: deepseek_v4.Model | None
    cross: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """What every rank of one stage allocates: tokens, states, running requests, and the bytes of each pool, padding included."""

    stage: Stage
    tokens: Tokens
    states: States | None
    running: int
    full_token_bytes: float
    swa_token_bytes: float
    full_bytes: int
    swa_bytes: int
    fixed_bytes: int

    @property
    def state_bytes(self) -> int:
        return self.states.n_bytes if self.states else 0

    @property
    def total_bytes(self) -> int:
        return self.full_bytes + self.swa_bytes + self.fixed_bytes + self.state_bytes


def read_stage(model: Lowered, layers: range, split: Split, *, windows: bool, draft: int) -> Stage:
    """The stage's cells; the draft of speculation is on every stage that has layers, as the engine counts it."""
    lowered = [model.layers[i] for i in layers]
    if deepseek_v4.is_compressed(model.layers):
        empty = add_up((), windows=False)
        return Stage(layers=layers, cells=empty, compressed=deepseek_v4.read(lowered), cross=False)
    held = [layer_bytes(layer, split) for layer in lowered]
    cells = with_draft(add_up(held, windows=windows), draft, split.dcp)
    return Stage(layers=layers, cells=cells, compressed=None, cross=any(x.cross for x in held))


def build(stages: Sequence[Stage], rest: int, k: SglangPoolSettings, rules: SglangRules, ratio: float | None) -> list[Pools]:
    """The pools of every stage from the bytes each rank may give them; all stages agree on the fewest tokens. Raises Refusal."""
    if stages[0].compressed is not None:
        return _agree_compressed(stages, rest, k, rules, ratio)
    slot = max(stage.cells.slot for stage in stages)
    states = pools.states(rest, slot, k, rules)
    left = rest - (states.n_bytes if states else 0)
    if left <= 0:
        raise Refusal(f"Not enough memory. Please try to increase --mem-fraction-static. Current value: {k.fraction:g}")
    found = [_tokens(left, stage.cells, k, rules, alone=not any(_keeps_kv(s) for s in stages)) for stage in stages]
    fewest = min(t.total for t in found)
    agreed = [pools.at_most(t, s.cells, k, rules, fewest) for t, s in zip(found, stages, strict=True)]
    running = pools.running_requests(fewest, k, rules, states.slots if states else None)
    return [_pools(stage, t, states, running, k) for stage, t in zip(stages, agreed, strict=True)]


def _keeps_kv(stage: Stage) -> bool:
    return bool(stage.cells.n_full or stage.cells.n_swa)


def _tokens(left: int, cells: Cells, k: SglangPoolSettings, rules: SglangRules, *, alone: bool) -> Tokens:
    """A stage without any KV does not limit the others."""
    if not alone and not cells.n_full and not cells.n_swa:
        return Tokens(LARGEST, LARGEST, None)
    return pools.tokens(left, cells, k, rules)


def _pools(stage: Stage, t: Tokens, states: States | None, running: int, k: SglangPoolSettings) -> Pools:
    cells = stage.cells
    own = states and states.at(cells.slot)
    return Pools(
        stage=stage,
        tokens=t,
        states=own,
        running=running,
        full_token_bytes=cells.full,
        swa_token_bytes=cells.swa,
        full_bytes=(t.total + k.page) * cells.full,
        swa_bytes=0 if t.swa is None else (t.swa + k.page) * cells.swa,
        fixed_bytes=0,
    )


def _agree_compressed(stages: Sequence[Stage], rest: int, k: SglangPoolSettings, rules: SglangRules, ratio: float | None) -> list[Pools]:
    models = [stage.compressed for stage in stages if stage.compressed is not None]
    sizes = [deepseek_v4.size(rest, m, k, ratio) for m in models]
    fewest = min(s.tokens.total for s in sizes)
    if len(sizes) > 1:
        capped = k._replace(max_total_tokens=min(fewest, k.max_total_tokens or fewest))
        sizes = [deepseek_v4.size(rest, m, capped, ratio) for m in models]
    running = pools.running_requests(fewest, k, rules, None)
    made = []
    for stage, s in zip(stages, sizes, strict=True):
        swa = s.tokens.swa or 0
        made.append(
            Pools(
                stage=stage,
                tokens=s.tokens,
                states=None,
                running=running,
                full_token_bytes=s.per_full_token,
                swa_token_bytes=s.per_swa_token,
                full_bytes=int((s.tokens.full + k.page) * s.per_full_token),
                swa_bytes=int((swa + k.page) * s.per_swa_token),
                fixed_bytes=s.fixed,
            )
        )
    return made
