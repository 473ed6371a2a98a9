"""exllamav3: pages of 256 tokens for a fixed number of tokens, allocated whole, in f16 or in 2 to 8 bits.

turboderp-org/exllamav3 1.6.5 exllamav3/cache/{cache,fp16,quant,mla}.py, modules/sliding_attn.py, modules/gated_delta_net.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common import whole
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import ChosenBy, Engine, Outcome, Settled
from kvplan.engines.common.releases import nearest_version
from kvplan.engines.common.settling import lowered, resolve, weight_formats
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.exllamav3.facts import FACTS
from kvplan.errors import SpecError, UnsupportedError
from kvplan.ledger import Entry
from kvplan.tensors import Cache, CacheFormats, CacheTensor, Layer
from kvplan.units import round_up

PAGE, SLOTS, WINDOW_SLACK, GROUP = 256, 16, 512, 32
F16, F32 = 2, 4
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
    for size in ("dp", "ep", "dcp"):
        if (getattr(d, size) or 1) > 1:
            raise UnsupportedError(f"{size}: exllamav3 splits a model over tp or pp")
    needed = (d.tp or 1) * (d.pp or 1)
    pp = d.pp
    if d.n_devices is not None and d.n_devices != needed:
        if d.tp or d.pp:
            raise SpecError("n_devices", [("", f"tp {d.tp or 1} x pp {d.pp or 1} needs {needed} devices, not {d.n_devices}")])
        pp = needed = d.n_devices
    if d.kv_dtype not in (None, "auto", "f16", "fp16", "float16", "half"):
        raise SpecError("kv_dtype", [("", "exllamav3 keeps its cache in f16; smaller: engine_option k_bits and v_bits, 2 to 8")])
    version, notes = nearest_version(d.engine_version, FACTS.versions, FACTS.name)
    tokens = d.max_model_len or Options(d).count("cache_tokens")
    context = d.context or tokens or d.model.max_context
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (FACTS.name, "kvplan"),
        "engine_version": (version, "kvplan"),
        "n_devices": (needed, "kvplan"),
        "pp": (pp or 1, "kvplan"),
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
    model = lowered(question, CacheFormats(compute="f16", k="f16", v="f16", conv="bf16"))
    return Settled(question, chosen_by, notes, settings, model)


def plan(settled: Settled) -> Outcome:
    """The cache whole, whatever sequences share it, dealt out in pages."""
    d, s = settled.question, settled.settings
    pool, context, batch = d.max_model_len or 1, d.context or 1, d.batch or 1
    if pool % PAGE:
        return whole.refused(f"max_num_tokens must be a multiple of {PAGE}.")
    if s.k_bits and not (2 <= s.k_bits <= 8 and 2 <= s.v_bits <= 8):
        return whole.refused("quantized cache must be from 2 to 8 bits")

    def held(layer: Layer, caches: tuple[Cache, ...]) -> tuple[KeptTensor, ...]:
        return tuple(one for cache in caches for t in cache.tensors for one in _held(layer, cache, t, s))

    def transients(tokens: int, _: int, all_held: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
        if s.k_bits is None or s.fused:
            return []
        full = max((h.row * tokens for h, _ in all_held), default=0)
        return [Entry(name="transient: a layer dequantised", bytes=2 * full, low=0, high=2 * full, basis="modelled", source=SOURCE)]

    # one cache of `pool` tokens, whatever sequences share it
    rules = whole.Allocation(held=held, transients=transients, source=SOURCE, fraction=d.memory_fraction or 1.0)
    found = whole.plan(replace(d, context=pool, batch=1, max_model_len=None), settled.model, weight_formats(d), rules)
    return _shared(found, pool, context, batch, s.slots)


def _held(layer: Layer, cache: Cache, t: CacheTensor, s: _Settings) -> list[KeptTensor]:
    elems = t.heads * t.elems_per_state
    if t.tokens_per_state is None:
        # the kernel's whole width in 16 bits, the state in f32, once for each slot and past step kept
        width = elems // t.columns * (t.columns + 1) * F16 if t.columns else elems * F32
        n_bytes = s.slots * (1 + s.history) * width
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


def _shared(found: Outcome, pool: int, context: int, batch: int, slots: int) -> Outcome:
    """The same outcome, with the pool dealt out to sequences in whole pages."""
    pages = round_up(context, PAGE)
    capacity = found.capacity
    if capacity:
        most = capacity.max_context_unbounded
        capacity = capacity._replace(
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
        reason = f"{batch} x {context} tokens need {batch * pages} tokens of pages and {batch} slots; the cache has {pool} and {slots}"
        return found._replace(capacity=capacity, fits=False, reason=reason, certainty="certain")
    return found._replace(capacity=capacity)


ENGINE = Engine(FACTS, settle, plan)
