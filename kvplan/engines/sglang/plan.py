"""A settled question on its way to an outcome: what would keep SGLang from starting, and what a set-aside pool asks of it."""

from __future__ import annotations

from functools import partial

from kvplan.dtypes import row_bytes
from kvplan.engines.common.copies import drafter_with_copies, with_copies
from kvplan.engines.common.drafters import drafter_weights
from kvplan.engines.common.lines import Refusal
from kvplan.engines.common.pooled import Budget, Requests, SetAside, answer, encoder_tokens, staged_weights
from kvplan.engines.common.protocol import RULE, Engine, Outcome, Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import without_towers
from kvplan.engines.common.stops import refuse, warned
from kvplan.engines.common.tiers import tier_lines
from kvplan.engines.sglang import adapters, exchange, inkling, ngram, replicated
from kvplan.engines.sglang.answer import figures, rooms
from kvplan.engines.sglang.budget import budget
from kvplan.engines.sglang.deepseek_v4 import is_compressed
from kvplan.engines.sglang.deepseek_v41 import as_loaded, is_shared
from kvplan.engines.sglang.facts import FACTS
from kvplan.engines.sglang.layout import cut
from kvplan.engines.sglang.outside import outside
from kvplan.engines.sglang.rank import Drafted, SglangPools, build, read_stage
from kvplan.engines.sglang.refusals import CHECKS
from kvplan.engines.sglang.risks import risks
from kvplan.engines.sglang.served import towerless
from kvplan.engines.sglang.settle import SglangSettings, per_worker, settings_of, settle
from kvplan.engines.sglang.tiers import tiers
from kvplan.ledger import HELD, Entry, exact

KV_DTYPES = ("bf16", "fp8_e4m3", "fp8_e5m2", "nvfp4", "mxfp8")


def check(settled: Settled) -> None:
    """Raises Refusal for what the engine does not start with: a cache format, and the checks of refusals.py."""
    s, d = settled.settings, settled.question
    if s.formats.k != s.formats.v or s.formats.k not in (*KV_DTYPES, s.formats.compute):
        raise Refusal(f"argument --kv-cache-dtype: invalid choice: {(d.kv_dtype or '')[:40]!r} (takes {', '.join(KV_DTYPES)})", sure=RULE)
    compressed = is_compressed(settled.model.layers)
    checked = compressed or (s.split.sparse and release(s.release) >= (0, 5, 5))
    if checked and s.formats.k not in ("bf16", "fp8_e4m3"):
        kind = "DeepSeek-V4" if compressed else "DeepSeek DSA"
        raise Refusal(f"{kind} only supports bf16/bfloat16 or fp8_e4m3 kv_cache_dtype, not {s.formats.k}", sure=RULE)
    refuse(CHECKS, settled)


def plan(settled: Settled) -> Outcome:
    """What SGLang does with a settled question."""
    d, s = settled.question, settings_of(settled)
    copies = exchange.copies(d)
    whole, drafting = with_copies(settled.model, copies), drafter_with_copies(settled.drafter, copies)
    if drafting and is_shared(whole.layers):
        drafting = drafting._replace(weights=tuple(map(as_loaded, drafting.weights)))
    model = ngram.without_table(d, without_towers(whole) if towerless(d, s.release) else whole)
    shape, k, rules = s.layout, s.pools, s.rules
    stages = cut(len(model.layers), shape.pp, piled=rules.piled)
    requests = Requests(per_worker(d.batch or 1, shape), d.context or 1, encoder_tokens(settled))
    role_tp = replicated.role_tp(d, s.release, shape)

    def pools(rest: int) -> list[SglangPools]:
        inkling.apart(d)
        draft = Drafted(s.draft_layers, settled.drafts, s.by_drafter, shape.tp, s.counted)
        beside = [ngram.read_beside(d.model, model, layers, s.split.group, k.draft_tokens) for layers in stages]
        read = [
            read_stage(model, layers, s.split, rules, draft=draft, dtype=s.formats.k, beside=more)
            for layers, more in zip(stages, beside, strict=True)
        ]
        return build(read, rest, k, rules, s.swa_ratio)

    drafter = None if rules.draft_in_cell else drafting

    spread = adapters.Widths(shape.attn_tp if rules.lora_attention else shape.tp, shape.tp, shape.tp // shape.ep, shape.ep)
    buffers = adapters.slots(d, settled.model, spread, rules, row_bytes(s.formats.compute, 1))  # of all layers, on every stage
    buffers += exchange.balancing(d, model, shape.ep)
    buffers += inkling.vocabularies(d, shape.attn_tp, row_bytes(s.formats.compute, 1))

    later = drafter_weights(drafter, tp=shape.tp, ep=shape.ep, role_tp=role_tp) if drafter else []
    found = answer(
        SetAside(
            question=d,
            limits=settled.limits,
            layout=shape,
            weights=staged_weights(d, model, stages, shape, drafting if rules.draft_in_cell else None, role_tp, lambda _: buffers),
            requests=requests,
            limit=k.context_len,
            limited="max_model_len" not in settled.chosen_by,
            source="sglang model_executor/pool_configurator.py",
            check=partial(check, settled),
            budget=partial(budget, d, rules, s.release, shape.tp * shape.pp, k.fraction, outside(d, model, s)),
            pools=pools,
            rooms=partial(rooms, k=k, dcp=s.widened),
            lines=lambda p: p.lines,
            tables=partial(_tables, s, later),
            per_token=lambda p: p.full_token_bytes or p.swa_token_bytes,
            running=lambda made: min(p.running for p in made),
            figures=lambda fullest, made, _: figures(d, fullest, made, requests, k, s.widened),
            tiers=lambda made, _: tiers(d, made, k, shape, s.release),
        )
    )
    return warned(found, CHECKS, settled)._replace(host=(*tier_lines(found.tiers), *ngram.host_lines(d, whole)))


def _tables(s: SglangSettings, later: list[Entry], found: Budget, p: SglangPools | None) -> list[Entry]:
    """req_to_token: an int32 row per request and one more, with headroom beyond the context; and the slack that is left.

    later  weights that are loaded once the pools are made: the drafter's before 0.5.14
    """
    requests = p.running + s.pools.received(p.running, s.rules) if p else 0
    table = (requests + 1) * (s.pools.context_len + 4 + s.pools.draft_tokens) * 4
    over = max(sum(p.lines.values()) - found.rest.point, 0) if p else 0  # padding pages, and rows that are not charged
    spare = max(found.slack - table - over - sum(e.bytes for e in later), 0)
    kept, source = "kept free for activations and graphs", "(1 - mem_fraction_static) of free memory"
    return [
        *(e._replace(phases=HELD["cache"]) for e in later),
        exact("request table", table, "sglang mem_cache/memory_pool.py, ReqToTokenPool", "tables"),
        Entry(kept, spare, spare, found.slack, "modelled", source, "activations", phases=()),
    ]


ENGINE = Engine(FACTS, settle, plan, risks=risks)
