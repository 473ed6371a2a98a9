"""A settled question on its way to an outcome: what a set-aside pool asks of TensorRT-LLM."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvplan.deployment import Deployment
from kvplan.dtypes import row_bytes
from kvplan.engines.common.lines import Refusal
from kvplan.engines.common.options import read_lora
from kvplan.engines.common.pooled import Requests, SetAside, answer, encoder_tokens, staged_weights
from kvplan.engines.common.protocol import RULE, Engine, Outcome, Settled
from kvplan.engines.common.stops import refuse, warned
from kvplan.engines.common.tiers import Tier, tier_lines
from kvplan.engines.tensorrt_llm.answer import figures, pool_lines, rooms
from kvplan.engines.tensorrt_llm.beside_pools import adapter_pages, drafter_buffers, host_pool, states
from kvplan.engines.tensorrt_llm.budget import budget, measured
from kvplan.engines.tensorrt_llm.cells import layer_cache, windows_of
from kvplan.engines.tensorrt_llm.dry_run import sparse_prompt, with_dry_run
from kvplan.engines.tensorrt_llm.facts import FACTS
from kvplan.engines.tensorrt_llm.pools import RESUME, TrtPools, TrtPoolSettings, nothing_kept, v1, v2
from kvplan.engines.tensorrt_llm.refusals import CHECKS
from kvplan.engines.tensorrt_llm.settle import TrtSettings, settings_of, settle
from kvplan.engines.tensorrt_llm.workspace import held_back
from kvplan.ledger import Entry, exact
from kvplan.parallel import split_layers
from kvplan.tensors import Layer, Role
from kvplan.units import GIB, cdiv

KV_DTYPES = ("f16", "bf16", "f32", "fp8_e4m3", "int8", "nvfp4")


def check(settled: Settled) -> None:
    """Raises Refusal for a cache format that KvCacheConfig.dtype does not take, and for the checks of refusals.py."""
    asked = settled.settings.formats
    if asked.k != asked.v or asked.k not in KV_DTYPES:
        raise Refusal(f"kv_cache_config.dtype: {(settled.question.kv_dtype or '')[:40]!r} is not one of {', '.join(KV_DTYPES)}", sure=RULE)
    refuse(CHECKS, settled)


def stage_pools(settled: Settled, stages: list[range], n_bytes: int) -> list[TrtPools]:
    """The pools of every stage; all stages agree on the fewest tokens. Raises Refusal."""
    k: TrtPoolSettings = settled.settings.pools
    found = [_stage_pools(settled, stage, n_bytes, k) for stage in stages]
    fewest = min(p.tokens for p in found)
    if all(p.tokens == fewest for p in found) or any(len(p.pools) > 1 for p in found):
        return found
    limits = [int(fewest * RESUME) + 1 if p.v2 else fewest for p in found]
    return [_stage_pools(settled, stage, n_bytes, k._replace(max_tokens=n)) for stage, n in zip(stages, limits, strict=True)]


def _stage_pools(settled: Settled, stage: range, n_bytes: int, k: TrtPoolSettings) -> TrtPools:
    s: TrtSettings = settled.settings
    last = settled.drafts if stage.stop == len(settled.model.layers) and not s.own_buffers else ()
    layers = [layer_cache(layer, s.layout.attn_tp) for layer in (*(settled.model.layers[i] for i in stage), *last)]
    drafted = sum(layer_cache(layer, s.layout.attn_tp).token for layer in last)
    if not any(layer.token or layer.state for layer in layers):
        return nothing_kept(k)
    cross = sum(layer.cross for layer in layers)
    share = int(n_bytes * (s.cross_fraction or 0.5)) if cross else 0
    if s.v2 and not k.windows:
        made = v2(n_bytes - share, layers, [layer.window for layer in layers], k)
    else:
        windows = windows_of(layers, k.windows, k.max_seq_len, stage.start)
        made = v2(n_bytes - share, layers, windows, k) if s.v2 else v1(n_bytes - share, layers, windows, k)
    return made._replace(
        drafted=(drafted, sum(layer.token for layer in layers)), cross_token=cross, cross_blocks=share // (cross * k.block) if cross else 0
    )


def plan(settled: Settled) -> Outcome:
    """What TensorRT-LLM does with a settled question."""
    d, model, s = settled.question, settled.model, settings_of(settled)
    shape, k = s.layout, s.pools
    stages = split_layers(len(model.layers), shape.pp, "first")
    requests = Requests(cdiv(d.batch or 1, shape.workers), d.context or 1, encoder_tokens(settled))
    role_tp: dict[Role, int] = dict.fromkeys(("attention", "state"), shape.attn_tp)

    def adapters(layers: Sequence[Layer]) -> list[Entry]:
        return adapter_pages(d, layers, shape.attn_tp, row_bytes(s.formats.compute, 1))

    weights = staged_weights(d, model, stages, shape, settled.drafter, role_tp, adapters)
    weights[-1] += drafter_buffers(settled)
    for lines, stage in zip(weights, stages, strict=True):
        lines += states([model.layers[i] for i in stage], s)
    modelled = partial(budget, d, s.release, shape.tp * shape.pp, s.profiled)
    free = modelled if s.peak is None else partial(measured, d, s.peak, s.temporary)
    found = answer(
        SetAside(
            question=d,
            limits=settled.limits,
            layout=shape,
            weights=weights,
            requests=requests,
            limit=k.max_seq_len,
            limited="max_model_len" not in settled.chosen_by,
            source="tensorrt_llm/_torch/pyexecutor/resource_manager.py and kv_cache/kv_cache_manager_v2.py",
            check=partial(check, settled),
            budget=lambda device, lines: held_back(settled, stages, with_dry_run(settled, stages, free(device, lines), device)),
            pools=partial(stage_pools, settled, stages),
            rooms=partial(rooms, k=k),
            lines=partial(pool_lines, k=k),
            tables=lambda found, p: (),
            per_token=lambda p: p.pools[0].token_bytes,
            running=lambda made: k.max_batch,
            figures=lambda fullest, made, quota: figures(fullest, made, requests, k, _host_bytes(settled, quota)),
            tiers=lambda made, quota: host_pool(made, k.block, _host_bytes(settled, quota), shape.tp, own=s.host_bytes is None),
        )
    )
    return warned(found, CHECKS, settled)._replace(host=_host(settled, found.tiers))


def _host_bytes(settled: Settled, quota: int) -> int:
    """The host tier of a rank: as asked; V2 makes one of its own where host memory is known, the ranks' share of half of it at most.

    kv_cache_manager_v2.py, _compute_auto_host_tier_quota (2026); the memlock limit, of which it takes four fifths, is left out.
    """
    s, host = settings_of(settled), settled.question.host_memory
    if s.host_bytes is not None:
        return s.host_bytes
    return min(quota, int(host / (s.layout.tp * s.layout.pp) * 0.5)) if host and s.v2 else 0


def _host(settled: Settled, tiers: Sequence[Tier]) -> tuple[Entry, ...]:
    """Host lines of one server: the tier of evicted blocks of every rank, and the cache of adapters (1 GiB a rank by default)."""
    s, d = settings_of(settled), settled.question
    ranks = s.layout.tp * s.layout.pp
    found = tier_lines(tiers)
    if read_lora(d.lora):
        found.append(exact("LoRA host cache", GIB * ranks, "peftCacheManager.h, kDefaultHostCacheSize of each rank", "weights"))
    return tuple(found)


def settled_with_doubts(d: Deployment) -> Settled:
    """The settled question, with what the dry run's warm-up leaves undecided."""
    found = settle(d)
    return found._replace(undecided=(*found.undecided, *sparse_prompt(found)))


ENGINE = Engine(FACTS, settled_with_doubts, plan)
