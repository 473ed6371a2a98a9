"""exllamav3, and TabbyAPI that serves it: pages of 256 tokens for a fixed number of tokens, allocated whole, in f16 or in 2 to 8 bits.

turboderp-org/exllamav3 model/{model,model_ls}.py: cards are filled in order, one module after the other, each with its cache and tried on
a chunk of tokens; embeddings (modules/embedding.py, prefer_cpu) and tables of n-grams stay off them. What is not asked for is
TabbyAPI's (backends/exllamav3/model.py): 2,048 tokens a chunk, 96 MB kept free, four slots of states, no images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common import whole
from kvplan.engines.common.drafters import both_kept, drafter, unknown, without_weights
from kvplan.engines.common.lines import growth, modelled, weight_entries
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import ChosenBy, Engine, Outcome, Settled, refused
from kvplan.engines.common.registries import Registry, listed
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.common.settling import lowered, over_tp_and_pp, resolve, weight_formats
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.exllamav3 import passes, placed
from kvplan.engines.exllamav3.facts import FACTS
from kvplan.engines.exllamav3.kept import PAGE, Keeping, as_kept, held
from kvplan.engines.exllamav3.releases import RELEASES, RINGS
from kvplan.errors import SpecError
from kvplan.ledger import Entry, exact
from kvplan.tensors import Cache, CacheFormats, Layer, distinct
from kvplan.units import MIB, counted, round_up

SOURCE = "exllamav3 {} exllamav3/cache"
BESIDE = "embedding.py prefer_cpu; moe_cpu_offload"
FREE = "TabbyAPI autosplit_reserve; from 1.5.0 EXL3_AUTOSPLIT_MARGIN_MB"
CHUNK, KEPT_FREE, STAGED = 2048, 96, 65_536
#: Sequences that TabbyAPI serves at once: of models with states or rings, and of others.
SLOTS = (4, 128)
REGISTRY = Registry(listed("exllamav3/classes"), RELEASES.versions)
#: The last release with a class that is there no more.
LAST = {"NanoChatForCausalLM": "1.4.2"}


class _Settings(NamedTuple):
    version: str
    keeping: Keeping
    chunk: int
    kept_free: int
    beside: int


def settle(d: Deployment) -> Settled:
    """One cache for all jobs: `max_model_len` is its size in tokens (max_num_tokens), `max_num_seqs` its slots (max_batch_size)."""
    needed, pp = over_tp_and_pp(d, "exllamav3 splits a model over tp or pp")
    if d.kv_dtype not in (None, "auto", "f16", "fp16", "float16", "half"):
        raise SpecError("kv_dtype", [("", "exllamav3 keeps its cache in f16; smaller: engine_option k_bits and v_bits, 2 to 8")])
    version, rules, notes = RELEASES.find(d.engine_version)
    architecture = d.model.architecture or ""
    rings = architecture in RINGS and three_parts(version) >= release(RINGS[architecture])
    formats = CacheFormats(compute="f16", k="f16", v="f16", conv="f16", forced_state="f32")
    bare = lowered(d, formats)
    has_slots = rings or any(t.tokens_per_state is None for x in distinct(bare.layers) for cache in x.caches for t in cache.tensors)
    tokens = d.max_model_len or Options(d).count("cache_tokens")
    context = d.context or tokens or d.model.max_context
    slots = SLOTS[0] if has_slots and rules.slots else d.batch or 1 if has_slots else SLOTS[1]
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (FACTS.name, "kvplan"),
        "engine_version": (version, "kvplan"),
        "n_devices": (needed, "kvplan"),
        "pp": (pp, "kvplan"),
        "context": (context, "kvplan"),
        "max_model_len": (tokens or (round_up(context, PAGE) * (d.batch or 1) if context else None), "kvplan"),
        "max_num_seqs": (slots, "engine default"),
        "max_num_batched_tokens": (CHUNK, "engine default"),
        "block_size": (PAGE, "engine default"),
        "kv_dtype": ("f16", "engine default"),
        "memory_fraction": (1.0, "kvplan"),
        "multimodal": ("off", "engine default"),
    }
    question, chosen_by, notes = resolve(replace(d, kv_dtype=None if d.kv_dtype == "auto" else d.kv_dtype), defaults, notes)
    options, drafting = Options(question), read_speculative(question.speculative)
    k_bits, v_bits = options.count("k_bits"), options.count("v_bits")
    history = options.count("max_history", 0)
    keeping = Keeping(
        rules=rules,
        slots=question.max_num_seqs or slots,
        history=drafting.tokens if history is None and drafting else history or 0,
        k_bits=k_bits or v_bits,
        v_bits=v_bits or k_bits,
        rings=rings,
    )
    free = options.count("autosplit_reserve", 0)
    settings = _Settings(
        version=version,
        keeping=keeping,
        chunk=question.max_num_batched_tokens or CHUNK,
        kept_free=max((KEPT_FREE if free is None else free) * MIB, rules.margin),
        beside=options.count("cpu_moe_offload_layers", 0) or 0,
    )
    if keeping.k_bits:
        notes = (*notes, f"the cache is shown in f16; the ledger counts rows of {keeping.k_bits} bits (K) and {keeping.v_bits} (V)")
    if any(map(placed.has_table, bare.layers)):
        notes = (*notes, "its table of n-grams is read from its file, row by row (ngram_stream_from_disk)")
    if settings.beside:
        notes = (*notes, "experts go to the CPU where a file has them in the codebook mul1; others stay, with a line in its log")
    if d.max_num_seqs and not has_slots:
        notes = (*notes, "max_num_seqs: how many are served at once; no layer of this model has slots for them")
    model, found = both_kept(lowered(question, formats), drafter(question, bare, formats), partial(as_kept, s=keeping))
    drafts = without_weights(found.layers) if found else ()
    return Settled(question, chosen_by, notes, settings, model, drafts, drafter=found, unknown=unknown(question, found))


def plan(settled: Settled) -> Outcome:
    """The cache whole, whatever sequences share it, dealt out in pages; a load that does not fit its devices fails."""
    d, s = settled.question, settled.settings
    keeping, pool, context, batch = s.keeping, d.max_model_len or 1, d.context or 1, d.batch or 1
    if reason := _refusal(d, s):
        return refused(reason)
    model, beside = placed.on_devices(settled.model, d.multimodal == "on", s.beside)
    layers = distinct(model.layers)
    head = next((w for w in model.last if w.role == "head"), None)
    step = passes.of_chunk(layers, head, min(s.chunk, pool), d.tp or 1)

    def all_held(layer: Layer, caches: tuple[Cache, ...]) -> tuple[KeptTensor, ...]:
        return tuple(held(layer, cache, t, keeping) for cache in caches for t in cache.tensors)

    def cached(layer: Layer) -> int:
        return sum(one.at(pool) for one in all_held(layer, layer.caches))

    def transients(tokens: int, _: int, kept: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
        return [
            modelled("activations of a chunk", step, passes.SOURCE, "transient"),
            *_staged(keeping, tokens, kept),
            growth("buffers, graphs and kernels that first steps leave: no public log says it"),
            exact("kept free by a load", s.kept_free, FREE, "transient")._replace(phases=()),
        ]

    # one cache of `pool` tokens, whatever sequences share it
    formats, shared = weight_formats(d), replace(d, context=pool, batch=1, max_model_len=None)
    rules = whole.Allocation(
        held=all_held,
        transients=transients,
        source=SOURCE.format(s.version),
        fraction=d.memory_fraction or 1.0,
        torch=True,
        stages=placed.stages(model, formats, cached, d.pp or 1),
    )
    found = whole.plan(shared, model, formats, rules, settled.drafter)
    one = max(_one_sequence(rank, context, keeping.slots) for rank in whole.ranks(shared, model, formats, rules, settled.drafter))
    host = tuple(line._replace(source=BESIDE) for line in weight_entries(beside, formats, tp=1, ep=1))
    return _shared(found, pool, context, batch, keeping.slots, one)._replace(host=host)


def _staged(keeping: Keeping, tokens: int, kept: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
    """A quantised layer's K and V in f16, which prompts attend to (attention_fn/triton_paged.py EXL3_QC_STAGING; before 1.0 get_kv)."""
    if not keeping.k_bits or keeping.rules.staging == "none":
        return []
    rows: dict[str, int] = {}
    for one, _ in kept:
        rows[one.tensor] = max(rows.get(one.tensor, 0), one.row)
    n_bytes = sum(rows.values()) * (min(tokens, STAGED) if keeping.rules.staging == "window" else tokens)
    return [Entry("a layer's cache in f16", n_bytes, 0, n_bytes, "modelled", "EXL3_QC_STAGING", "transient")] if n_bytes else []


def _refusal(d: Deployment, s: _Settings) -> str:
    architecture = d.model.architecture
    if architecture:
        first, last = REGISTRY.later(architecture, d.engine_version), LAST.get(architecture)
        if first or architecture not in REGISTRY.first or (last and three_parts(s.version) > three_parts(last)):
            told = f" (its first release is {first})" if first else f" (its last release is {last})" if last else ""
            return f"Unknown architecture {architecture} in config.json{told}"
    if (d.max_model_len or 1) % PAGE:
        return f"max_num_tokens must be a multiple of {PAGE}."
    if any(bits is not None and not 2 <= bits <= 8 for bits in (s.keeping.k_bits, s.keeping.v_bits)):
        return "quantized cache must be from 2 to 8 bits"
    return ""


def _one_sequence(rank: whole.Rank, context: int, slots: int) -> int:
    """Bytes that one sequence takes of a rank: its pages, and a slot of whatever has slots."""
    return sum(n * (h.at(context) if h.group.endswith("paged") else h.at(context) // slots) for h, n in rank.held)


def _shared(found: Outcome, pool: int, context: int, batch: int, slots: int, one: int) -> Outcome:
    """The same outcome, with the pool dealt out to sequences in whole pages. The cache is allocated while the model is loaded."""
    found = found._replace(starts=found.fits, start_certainty=found.certainty)
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
