"""vLLM: from the layers' tensors to block size, groups, blocks, tokens and admission, by release (0.2 to 0.33).

rules.py  rules by release, as data        settle.py  defaults and options
layers.py    whose caches count               specs.py     the cache of one layer
blocks.py    the block size                   groups.py    shared block tables and the cost of a block
capacity.py  blocks, tokens, admission        budget.py    bytes left for the cache on a device
tiers.py     where it goes beside the devices
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import FORMATS
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Engine, Outcome, Pooled, Settled, refused
from kvplan.engines.common.stops import stop_of, warned
from kvplan.engines.vllm.before_v1 import holds_all_states, state_slots
from kvplan.engines.vllm.blocks import Choice, choose_blocks
from kvplan.engines.vllm.budget import Budget, caveats, stage_budget
from kvplan.engines.vllm.capacity import Tables, make_pool, make_tables
from kvplan.engines.vllm.facts import FACTS
from kvplan.engines.vllm.groups import Member
from kvplan.engines.vllm.host import host, offloaded_bytes
from kvplan.engines.vllm.layers import Mixer, mixers, stages
from kvplan.engines.vllm.outcome import Asked, ledgers, outcome, pooled, replica_batch
from kvplan.engines.vllm.refusals import CHECKS
from kvplan.engines.vllm.risks import risks
from kvplan.engines.vllm.rules import KV_FORMATS
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.settle import settle
from kvplan.engines.vllm.specs import Blocks, Spec, cache_specs, unquantised
from kvplan.engines.vllm.states import drafts_kept
from kvplan.engines.vllm.tiers import tiers, unsized
from kvplan.engines.vllm.wordings import Refused
from kvplan.forms import Form
from kvplan.units import show_bytes


def plan(settled: Settled) -> Outcome:
    """vLLM's planner of the KV cache, and a modelled budget before it where a device is given."""
    d, s = settled.question, settled.settings
    try:
        members, choice, budgets, notes = _ready(settled)
        tables = make_tables(members, s) if s.rules.v1 or _is_sized(d) else None
        found = warned(_outcome(settled, tables, choice, budgets, notes), CHECKS, settled)
        weights = max(sum(e.bytes for e in budget.entries if e.kind == "weights") for budget in budgets)
        below = tiers(d, s, make_pool(tables, [budget.available for budget in budgets], s)) if tables and s.rules.v1 else ()
        if (told := unsized(Options(d), s)) and found.capacity is not None:
            found = found._replace(capacity=found.capacity._replace(warnings=(*found.capacity.warnings, told)))
        return found._replace(host=host(d, s, weights + offloaded_bytes(d), below), tiers=below)
    except Refused as refusal:
        return refused(str(refusal), refusal.sure)


def surface(d: Deployment) -> Pooled | None:
    """The answer over every context and batch where max_model_len is chosen, over every batch at d's context where not; else None."""
    if (d.max_model_len or d.context) is None or (d.device is None and d.kv_memory is None):
        return None
    settled = settle(d)
    s = settled.settings
    if settled.misfit is not None or s.auto_fit or settled.unknown:
        return None
    try:
        ready = _ready(settled)
        return pooled(settled, make_tables(ready.members, s), ready.budgets)
    except Refused:
        return None


class _Ready(NamedTuple):
    """What a release makes of a question before it looks at its sequences."""

    members: list[Member]
    choice: Choice
    budgets: list[Budget]
    notes: Sequence[str]


def _ready(settled: Settled) -> _Ready:
    d, s = settled.question, settled.settings
    model = s.served
    _check_formats(s)
    if reason := stop_of(CHECKS, settled):
        raise Refused(reason)
    owners, notes = mixers(model, s)
    choice = choose_blocks(owners, s)
    members, states = _apart(_members(owners, choice.blocks, s), d, s)
    budgets = [stage_budget(d, model, stage, s, states.get(n, 0)) for n, stage in enumerate(stages(model, s))]
    return _Ready(members, choice, budgets, notes)


def _apart(members: list[Member], d: Deployment, s: VllmSettings) -> tuple[list[Member], dict[int, int]]:
    """The layers of the block tables, and bytes of states by stage that V0's models keep beside them, a slot for each sequence.

    Both are there when the profile run ends.
    """
    kept = [m for m in members if m.spec.kind == "mamba"]
    if s.rules.v1 or not kept:
        return members, {}
    n, whole = state_slots(d, s), holds_all_states(d)
    held: Counter[int] = Counter()
    for m in kept:
        for stage in range(s.pp) if whole else (m.stage,):
            held[stage] += m.spec.state_bytes * n
    return [m for m in members if m.spec.kind != "mamba"], held


def _is_sized(d: Deployment) -> bool:
    return d.kv_memory is not None or d.device is not None


def _outcome(settled: Settled, tables: Tables | None, choice: Choice, budgets: list[Budget], notes: Sequence[str]) -> Outcome:
    d, s = settled.question, settled.settings
    if tables is None or not _is_sized(d):
        return Outcome(
            ledgers=ledgers(d, s, budgets, None, 0), capacity=None, starts=None, fits=None, margin_bytes=None, limiting_rank=None
        )
    asked = Asked(replica_batch(d), None if s.auto_fit and not s.context_chosen else d.context)
    lines = list(choice.lines)
    if d.kv_memory is None and s.rules.v1:
        lines.append(f"Available KV cache memory: {min(b.available for b in budgets) / (1 << 30):.2f} GiB")
    found = outcome(d, s, tables, budgets, asked, [*notes, *caveats(d)], lines, limits=settled.limits)
    if found.capacity is not None:
        found = found._replace(capacity=found.capacity._replace(block_tokens=choice.blocks.primary))
    if found.margin_bytes is not None and found.reason and min(b.available for b in budgets) <= 0 and d.kv_memory is None:
        short = -min(b.available for b in budgets)
        found = found._replace(reason=f"{found.reason} ({show_bytes(short)} are missing before any cache)")
    return found


def _members(owners: list[Mixer], blocks: Blocks, s: VllmSettings) -> list[Member]:
    held = s.rules.checkpoints and s.state_mode == "align"
    plain = s.plain_latents or "latent+index" not in s.forms  # layers that share another's chosen tokens are sparse, too
    made, known = [], dict[tuple[Form, int, bool], list[Spec]]()
    for stage, form, tensors, draft, skipped in owners:
        key = (form, id(tensors), skipped)
        if key not in known:
            kept = unquantised(tensors, s.formats.compute) if skipped else tensors
            known[key] = cache_specs(
                form, kept, blocks, tp=s.tp, draft_tokens=drafts_kept(form, s.draft_tokens, s.release), checkpoints=held,
                exports=s.exports_states, chunked=s.rules.chunked_spec, pooled=s.pooled, records=s.records, plain_latents=plain,
                rows_apart=s.rows_apart, replayed=s.replayed, compute=s.formats.compute,
            )  # fmt: skip
        made += [Member(stage, spec, draft) for spec in known[key]]
    return made


def _check_formats(s: VllmSettings) -> None:
    for name in (s.formats.k, s.formats.v):
        first = KV_FORMATS.get(name)
        if name not in FORMATS or first is None or not s.since(first):
            raise Refused(f"vLLM {s.release} has no KV cache format {name}")
    if s.formats.k != s.formats.v and not s.formats.k.startswith("turboquant"):
        raise Refused(f"vLLM stores K and V in one format, not {s.formats.k} and {s.formats.v}")


ENGINE = Engine(FACTS, settle, plan, surface, risks=risks)
