"""Ollama: llama-server started with Ollama's own defaults.

ollama/ollama llm/llama_server.go, server/routes.go, server/sched.go, envconfig/config.go (main of August 2026, llama.cpp b10488):
-c is num_ctx x parallel and -np is always given, so the cache is split into slots and never unified.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.protocol import Engine, Settled
from kvplan.engines.llama_cpp.ollama.facts import BUNDLED, FACTS, VERSION
from kvplan.engines.llama_cpp.plan import plan
from kvplan.engines.llama_cpp.rules import RULES, LlamaRules
from kvplan.engines.llama_cpp.settle import settle_with
from kvplan.errors import SpecError
from kvplan.units import GIB

#: From this much memory over all devices on, num_ctx is this many tokens where nobody set it.
CONTEXT_TIERS: tuple[tuple[int, int], ...] = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096))
#: Above this context the batch is this many tokens.
BATCH_TIERS: tuple[tuple[int, int], ...] = ((32_768, 2048), (4_096, 1024), (0, 512))


def settle(d: Deployment) -> Settled:
    """The question with Ollama's defaults; `max_model_len` is num_ctx, the length of one slot."""
    rules, notes = _rules(d)
    if len(set((d.kv_dtype or "").split("/"))) > 1:
        raise SpecError("kv_dtype", [("", "OLLAMA_KV_CACHE_TYPE sets K and V together: write one format")])
    given = dict(d.engine_option)
    num_ctx = d.max_model_len or _count(given, "num_ctx") or d.context or default_context(d)
    if d.model.max_context:
        num_ctx = min(num_ctx, d.model.max_context)
    parallel = d.max_num_seqs or _count(given, "num_parallel") or 1
    batch = d.max_num_batched_tokens or _count(given, "num_batch") or default_batch(num_ctx)
    kept = tuple((key, text) for key, text in d.engine_option if key not in ("num_ctx", "num_parallel", "num_batch"))
    server = replace(
        d,
        engine_version=None,
        max_model_len=num_ctx * parallel,
        max_num_seqs=parallel,
        max_num_batched_tokens=batch,
        context=d.context or num_ctx,
        engine_option=kept if "n_ubatch" in given else (*kept, ("n_ubatch", str(batch))),
    )
    settled = settle_with(server, rules, notes, name=FACTS.name, version=VERSION)
    chosen = dict(settled.chosen_by)
    for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "context"):
        if getattr(d, name) is None:
            chosen[name] = "engine default"
    chosen["engine_version"] = "kvplan"
    question = replace(settled.question, engine_version=d.engine_version or VERSION)
    own_cells = d.max_model_len is not None or "num_ctx" in given
    return settled._replace(question=question, chosen_by=chosen, settings=settled.settings._replace(own_cells=own_cells))


def default_context(d: Deployment) -> int:
    """num_ctx by the memory of all devices; without a device, the smallest."""
    memory = (d.n_devices or 1) * d.device.memory_bytes if d.device else 0
    return next(tokens for least, tokens in CONTEXT_TIERS if memory >= least)


def default_batch(num_ctx: int) -> int:
    """The batch by context; Ollama makes it smaller where memory is tight, which is not modelled."""
    return next(tokens for above, tokens in BATCH_TIERS if num_ctx > above)


def _rules(d: Deployment) -> tuple[LlamaRules, tuple[str, ...]]:
    rules = max((r for r in RULES if r.build <= BUNDLED), key=lambda r: r.build)
    if d.engine_version in (None, VERSION):
        return rules, ()
    return rules, (f"ollama {d.engine_version} is not known by itself; the rules of {VERSION} (llama.cpp b{BUNDLED}) are used",)


def _count(given: dict[str, str], key: str) -> int:
    if key not in given:
        return 0
    if not given[key].isdecimal() or not 0 < int(given[key]) <= 1 << 31:
        raise SpecError("engine_option", [(key, f"{given[key][:60]!r} is not a whole number above 0")])
    return int(given[key])


ENGINE = Engine(FACTS, settle, plan)
