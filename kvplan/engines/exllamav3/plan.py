"""exllamav3: pages of 256 tokens for a fixed number of tokens, allocated whole, in f16 or in 2 to 8 bits.

turboderp-org/exllamav3 1.6.5 exllamav3/cache/{cache,fp16,quant,mla}.py, modules/sliding_attn.py, modules/gated_delta_net.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common import whole
from kvplan.engines.common.drafters import both_kept, drafter, unknown, without_weights
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import ChosenBy, Engine, Outcome, Settled, refused
from kvplan.engines.common.releases import nearest_version
from kvplan.engines.common.settling import lowered, over_tp_and_pp, resolve, weight_formats, without_towers
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.exllamav3.facts import FACTS
from kvplan.engines.exllamav3.registry import CLASSES
from kvplan.errors import SpecError
from kvplan.ledger import Entry
from kvplan.tensors import Cache, CacheFormats, CacheTensor, Layer
from kvplan.units import counted, round_up

PAGE, SLOTS, WINDOW_SLACK, GROUP, F16 = 256, 16, 512, 32, 2
SOURCE = "exllamav3 1.6.5 exllamav3/cache"


class _Settings(NamedTuple):
    slots: int
    history: int
    k_bits: int | None
    v_bits: int | None
    fused: bool


def quantized_row(elems: int, bits: int) -> int:
    """Bytes of one token: for each 32 elements `bits` 32-bit words and an f16 scale. Source: CacheLayer_quant."""
    groups = elems // GROUP
    return groups * bits * 4 + groups * F16


def settle(d: Deployment) -> Settled:
    """One cache for all jobs: `max_model_len` is its size in tokens (max_num_tokens), `max_num_seqs` its state slots (max_batch_size)."""
    needed, pp = over_tp_and_pp(d, "exllamav3 splits a model over tp or pp")
    if d.kv_dtype not in (None, "auto", "f16", "fp16", "float16", "half"):
        raise SpecError("kv_dtype", [("", "exllamav3 keeps its cache in f16; smaller: engine_option k_bits and v_bits, 2 to 8")])
    version, notes = nearest_version(d.engine_version, FACTS.versions, FACTS.name)
    tokens = d.max_model_len or Options(d).count("cache_tokens")
    context = d.context or tokens or d.model.max_context
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (FACTS.name, "kvplan"),
        "engine_version": (version, "kvplan"),
        "n_devices": (needed, "kvplan"),
        "pp": (pp, "kvplan"),
        "context": (context, "kvplan"),
        "max_model_len": (tokens or (round_up(context, PAGE) * (d.batch or 1) if context else None), "kvplan"),
        "max_num_seqs": (SLOTS, "engine default"),
        "block_size": (PAGE, "engine default"),
        "kv_dtype": ("f16", "engine default"),
        "memory_fraction": (1.0, "kvplan"),
    }
    question, chosen_by, notes = resolve(replace(d, kv_dtype=None if d.kv_dtype == "auto" else d.kv_dtype), defaults, notes)
    options = Options(question)
    k_bits, v_bits = options.count("k_bits"), options.count("v_bits")
    slots, history = question.max_num_seqs or SLOTS, options.count("max_history", 0) or 0
    settings = _Settings(slots, history, k_bits or v_bits, v_bits or k_bits, options.flag("fused", True))
    if settings.k_bits:
        notes = (*notes, f"the cache is shown in f16; the ledger counts rows of {settings.k_bits} bits (K) and {settings.v_bits} (V)")
    formats = CacheFormats(compute="f16", k="f16", v="f16", conv="f16", forced_state="f32")
    model = lowered(question, formats)
    model, found = both_kept(model, drafter(question, model, formats), _as_kept)
    drafts = without_weights(found.layers) if found else ()
    return Settled(question, chosen_by, notes, settings, model, drafts, drafter=found, unknown=unknown(question, found))


def _as_kept(_: Layer, cache: Cache) -> Cache:
    """The cache with convolutions as wide as their kernels."""

    def kept(t: CacheTensor) -> CacheTensor:
        n = t.columns
        return replace(t, elems_per_state=t.elems_per_state // n * (n + 1), columns=n + 1) if n else t

    return replace(cache, tensors=tuple(kept(t) for t in cache.tensors))


def plan(settled: Settled) -> Outcome:
    """The cache whole, whatever sequences share it, dealt out in pages."""
    d, s = settled.question, settled.settings
    pool, context, batch = d.max_model_len or 1, d.context or 1, d.batch or 1
    if d.model.architecture and d.model.architecture not in CLASSES:
        return refused(f"Unknown architecture {d.model.architecture} in config.json")
    if pool % PAGE:
        return refused(f"max_num_tokens must be a multiple of {PAGE}.")
    if s.k_bits and not (2 <= s.k_bits <= 8 and 2 <= s.v_bits <= 8):
        return refused("quantized cache must be from 2 to 8 bits")

    def held(layer: Layer, caches: tuple[Cache, ...]) -> tuple[KeptTensor, ...]:
        return tuple(one for cache in caches for t in cache.tensors for one in _held(layer, cache, t, s))

    def transients(tokens: int, _: int, all_held: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
        if s.k_bits is None or s.fused:
            return []
        full = max((h.row * tokens for h, _ in all_held), default=0)
        return [Entry("transient: a layer dequantised", 2 * full, 0, 2 * full, "modelled", SOURCE, "transient")]

    # one cache of `pool` tokens, whatever sequences share it
    rules = whole.Allocation(held=held, transients=transients, source=SOURCE, fraction=d.memory_fraction or 1.0)
    formats, shared = weight_formats(d), replace(d, context=pool, batch=1, max_model_len=None)
    model = without_towers(settled.model) if d.multimodal == "off" else settled.model  # a component of its own (Model.from_config)
    found = whole.plan(shared, model, formats, rules, settled.drafter)
    one = max(_one_sequence(rank, context, s.slots) for rank in whole.ranks(shared, model, formats, rules, settled.drafter))
    return _shared(found, pool, context, batch, s.slots, one)


def _one_sequence(rank: whole.Rank, context: int, slots: int) -> int:
    """Bytes that one sequence takes of a rank: its pages, and a slot of whatever has slots."""
    return sum(n * (h.at(context) if h.group.endswith("paged") else h.at(context) // slots) for h, n in rank.held)


def _held(layer: Layer, cache: Cache, t: CacheTensor, s: _Settings) -> list[KeptTensor]:
    elems = t.heads * t.elems_per_state
    if t.tokens_per_state is None:  # once for each slot and past step kept
        n_bytes = s.slots * (1 + s.history) * t.bytes_per_state
        return [KeptTensor("recurrent", cache.kind, t.name, lambda n: n_bytes, "v" if t.name == "state" else "k")]
    if t.keep.kind == "window":
        n_bytes = s.slots * round_up(t.keep.tokens + WINDOW_SLACK, PAGE) * elems * F16
        return [KeptTensor("sliding", cache.kind, t.name, lambda n: n_bytes, t.name)]
    bits = s.v_bits if t.name == "v" else s.k_bits
    row = elems * F16
    if bits is not None and t.name == "latent":
        rank = next((w.shape[0] for w in layer.weights if w.name == "kv_a_norm"), elems)
        row = quantized_row(rank, bits) + (elems - rank) * F16  # the rotary part stays in f16
    elif bits is not None:
        row = quantized_row(elems, bits)
    return [KeptTensor("paged", cache.kind, t.name, lambda n: row * round_up(n, PAGE), "v" if t.name == "v" else "k", elems * F16)]


def _shared(found: Outcome, pool: int, context: int, batch: int, slots: int, one: int) -> Outcome:
    """The same outcome, with the pool dealt out to sequences in whole pages. The cache is allocated while the model is loaded."""
    found = found._replace(starts=found.fits)
    pages = round_up(context, PAGE)
    capacity = found.capacity
    if capacity:
        most = capacity.max_context_unbounded
        capacity = capacity._replace(
            request_bytes=one,
            tokens=pool,
            block_tokens=PAGE,
            blocks=pool // PAGE,
            max_concurrency=float(min(pool // pages, slots)),
            max_context=pool,
            max_context_at_batch=None if most is None else most // PAGE // batch * PAGE,
            max_batch=None if most is None else min(most // pages, slots),
        )
    short = batch * pages > pool or batch > slots
    if short and found.reason is None:
        need = f"{batch * pages:,} tokens of pages and {counted(batch, 'slot')}"
        reason = f"{batch:,} x {context:,} tokens need {need}; the cache has {pool:,} and {slots:,}"
        return found._replace(capacity=capacity, fits=False, reason=reason, certainty="certain")
    return found._replace(capacity=capacity)


ENGINE = Engine(FACTS, settle, plan)
