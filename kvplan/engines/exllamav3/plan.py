"""exllamav3, and TabbyAPI that serves it: pages of 256 tokens for a fixed number of tokens, allocated whole, in f16 or in 2 to 8 bits.

turboderp-org/exllamav3 model/{model,model_ls}.py: cards are filled in order, one module after the other, each with its cache and tried on
a chunk of tokens; embeddings (modules/embedding.py, prefer_cpu) and tables of n-grams stay off them. What is not asked for is
TabbyAPI's (backends/exllamav3/model.py): 2,048 tokens a chunk, 96 MB kept free, four slots of states, no images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common import whole
from kvplan.engines.common.drafters import both_kept, drafter, drafter_weights, unknown, without_weights
from kvplan.engines.common.lines import growth, modelled
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import ChosenBy, Engine, Outcome, Settled, refused
from kvplan.engines.common.registries import Registry, listed
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.common.settling import lowered, over_tp_and_pp, resolve, weight_formats
from kvplan.engines.common.whole import KeptTensor
from kvplan.engines.exllamav3 import passes, placed
from kvplan.engines.exllamav3.asked import CHUNK, asked
from kvplan.engines.exllamav3.cards import Cards, named
from kvplan.engines.exllamav3.cards import asked as cards_asked
from kvplan.engines.exllamav3.experts import worst
from kvplan.engines.exllamav3.facts import FACTS
from kvplan.engines.exllamav3.kept import PAGE, Keeping, as_kept, held
from kvplan.engines.exllamav3.placed import Beside
from kvplan.engines.exllamav3.releases import RELEASES, RINGS, Rules
from kvplan.errors import SpecError
from kvplan.ledger import Entry, exact
from kvplan.tensors import Cache, CacheFormats, Layer, Lowered, distinct
from kvplan.units import counted, round_up, show_bytes
from kvplan.weights import rank_bytes

SOURCE = "exllamav3 {} exllamav3/cache"
BESIDE = "embedding.py prefer_cpu; moe_cpu_offload, moe_cpu_split; row_table.py"
FREE = "TabbyAPI autosplit_reserve; from 1.5.0 EXL3_AUTOSPLIT_MARGIN_MB"
TWICE = "util/memory.py set_memory_fraction_reserve"
STAGED = 65_536
#: Lines of a step that a load tries, and those of what is loaded before the model.
STEP, STAGE, RINGS_OF = "activations of a chunk", "a layer's cache in f16", "rings for experts from the CPU"
WITHIN, BEFORE = (STEP, STAGE), ("weights: drafter", "weights: tower", "cache: drafter")
#: Sequences that TabbyAPI serves at once: of models with states or rings, and of others.
SLOTS = (4, 128)
REGISTRY = Registry(listed("exllamav3/classes"), RELEASES.versions)
#: The last release with a class that is there no more.
LAST = {"NanoChatForCausalLM": "1.4.2"}


class _Settings(NamedTuple):
    version: str
    keeping: Keeping
    drafts: Keeping
    chunk: int
    longest: int | None
    cards: Cards
    beside: Beside
    refusal: str


def settle(d: Deployment) -> Settled:
    """One cache for all jobs: `max_model_len` is its size in tokens (max_num_tokens), `max_num_seqs` its slots (max_batch_size)."""
    split = None if d.tp or d.pp or d.n_devices else named(Options(d))
    needed, pp = over_tp_and_pp(replace(d, n_devices=split or d.n_devices), "exllamav3 splits a model over tp or pp")
    if d.kv_dtype not in (None, "auto", "f16", "fp16", "float16", "half"):
        raise SpecError("kv_dtype", [("", "exllamav3 keeps its cache in f16; smaller: engine_option k_bits and v_bits, 2 to 8")])
    version, rules, notes = RELEASES.find(d.engine_version)
    said = asked(d, version)
    architecture = d.model.architecture or ""
    rings = architecture in RINGS and three_parts(version) >= release(RINGS[architecture])
    formats = CacheFormats(compute="f16", k="f16", v="f16", conv="f16", forced_state="f32")
    bare = lowered(d, formats)
    has_slots = rings or any(t.tokens_per_state is None for x in distinct(bare.layers) for cache in x.caches for t in cache.tensors)
    context = d.context or min(filter(None, (said.longest, said.tokens)), default=d.model.max_context)
    slots = SLOTS[0] if has_slots and rules.slots else d.batch or 1 if has_slots else SLOTS[1]
    defaults: dict[str, tuple[Any, ChosenBy]] = {
        "engine": (FACTS.name, "kvplan"),
        "engine_version": (version, "kvplan"),
        "n_devices": (needed, "kvplan"),
        "pp": (pp, "kvplan"),
        "context": (context, "kvplan"),
        "max_model_len": (said.tokens or (round_up(context, PAGE) * (d.batch or 1) if context else None), "kvplan"),
        "max_num_seqs": (slots, "engine default"),
        "max_num_batched_tokens": (said.chunk or CHUNK, "you" if said.chunk else "engine default"),
        "block_size": (PAGE, "engine default"),
        "kv_dtype": ("f16", "engine default"),
        "memory_fraction": (1.0, "kvplan"),
        "multimodal": ("off", "engine default"),
    }
    question, chosen_by, notes = resolve(replace(d, kv_dtype=None if d.kv_dtype == "auto" else d.kv_dtype), defaults, notes)
    cards, of_cards = cards_asked(question, pp, rules)
    drafting, history = read_speculative(question.speculative), Options(question).count("max_history", 0)
    keeping = Keeping(
        rules=rules,
        slots=question.max_num_seqs or slots,
        history=drafting.tokens if history is None and drafting else history or 0,
        k_bits=said.bits[0],
        v_bits=said.bits[1],
        rings=rings,
    )
    beside = said.beside._replace(experts=_of_each(bare, said.beside.experts, rules))
    settings = _Settings(
        version=version,
        keeping=keeping,
        drafts=keeping._replace(k_bits=said.draft_bits[0], v_bits=said.draft_bits[1]),
        chunk=question.max_num_batched_tokens or CHUNK,
        longest=said.longest,
        cards=cards,
        beside=beside,
        refusal=said.refusal,
    )
    model, found = both_kept(lowered(question, formats), drafter(question, bare, formats), partial(as_kept, s=keeping))
    drafts = without_weights(found.layers) if found else ()
    notes = (*notes, *of_cards, *_notes(question, settings, said.beside, bare, has_slots=has_slots, chosen=d))
    return Settled(question, chosen_by, notes, settings, model, drafts, drafter=found, unknown=unknown(question, found))


def _of_each(model: Lowered, asked_for: int, rules: Rules) -> int:
    """How many experts of each layer go to the CPU: all of them is none, or, by release, all but one."""
    most = min((w.experts for layer in distinct(model.layers) for w in layer.weights if w.experts), default=0)
    return asked_for if asked_for < most else most - 1 if rules.all_but_one and most > 1 else 0


def _notes(d: Deployment, s: _Settings, asked_for: Beside, model: Lowered, *, has_slots: bool, chosen: Deployment) -> Iterator[str]:
    if s.keeping.k_bits:
        yield f"the cache is shown in f16; the ledger counts rows of {s.keeping.k_bits} bits (K) and {s.keeping.v_bits} (V)"
    if s.drafts[3:5] != s.keeping[3:5] and d.speculative not in (None, "off"):
        bits = f"rows of {s.drafts.k_bits} bits (K) and {s.drafts.v_bits} (V)" if s.drafts.k_bits else "f16"
        yield f"the drafter's cache is counted in {bits} (draft_cache_mode)"
    has_table, experts = any(map(placed.has_table, model.layers)), any(w.experts for x in distinct(model.layers) for w in x.weights)
    if has_table and not s.beside.tables:
        yield "its table of n-grams is read from its file, row by row (ngram_stream_from_disk)"
    if s.beside.tables and not has_table:
        yield "ngram_ram: the model has no table of n-grams"
    if s.beside.towers and d.multimodal != "on":
        yield "vision_offload: no images are asked for, so no tower is loaded"
    if (s.beside.layers or asked_for.experts) and not experts:
        yield "experts on the CPU: the model has none"
    elif asked_for.experts > s.beside.experts:
        yield f"cpu_moe_split_experts {asked_for.experts}: this release leaves it at {s.beside.experts} of each layer"
    elif s.beside.layers or s.beside.experts:
        yield "experts go to the CPU where a file has them in the codebook mul1; others stay, with a line in its log"
    if s.longest and s.longest > (d.max_model_len or 1):
        yield f"max_seq_len: TabbyAPI takes the {d.max_model_len:,} tokens of the cache for it"
    if chosen.max_num_seqs and not has_slots:
        yield "max_num_seqs: how many are served at once; no layer of this model has slots for them"


def plan(settled: Settled) -> Outcome:
    """The cache whole, whatever sequences share it, dealt out in pages; a load that does not fit its devices fails."""
    d, s = settled.question, settled.settings
    pool, context, batch, tp = d.max_model_len or 1, d.context or 1, d.batch or 1, d.tp or 1
    keeping, cards = s.keeping, s.cards
    of_release: Rules = keeping.rules
    if reason := s.refusal or _refusal(d, s):
        return refused(reason)
    model, beside = placed.on_devices(settled.model, d.multimodal == "on", s.beside)
    layers = distinct(model.layers)
    head = next((w for w in model.last if w.role == "head"), None)
    steps = min(s.chunk, pool)
    of_experts = worst(settled.model.layers, steps, s.beside, of_release) if tp == 1 else (0, 0)
    step = passes.of_chunk(layers, head, steps, tp, of_experts)

    def all_held(layer: Layer, caches: tuple[Cache, ...], as_asked: Keeping = keeping) -> tuple[KeptTensor, ...]:
        return tuple(held(layer, cache, t, as_asked) for cache in caches for t in cache.tensors)

    def cached(layer: Layer) -> int:
        return sum(one.at(pool) for one in all_held(layer, layer.caches))

    def transients(tokens: int, _: int, kept: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
        return [
            modelled(STEP, step, passes.SOURCE, "transient"),
            *_staged(keeping, tokens, kept),
            growth("buffers, graphs and kernels that first steps leave: no public log says it"),
        ]

    # one cache of `pool` tokens, whatever sequences share it
    formats, shared = weight_formats(d), replace(d, context=pool, batch=1, max_model_len=None)
    drafts = partial(all_held, as_asked=s.drafts)
    before = [0] * len(cards.kept)  # on each card when the model is loaded
    before[0] += sum(rank_bytes(w, formats, tp=tp, ep=1) for w in model.first if w.role == "tower")
    host = placed.host_lines(beside, formats, d.weight_dtype or "")
    if (found := settled.drafter) and s.beside.experts and d.drafter is None:  # a model's own modules have its config
        kept, off = placed.split(found.weights, s.beside.experts)
        host += drafter_weights(found._replace(weights=off), tp=1, ep=1)
        found = found._replace(weights=kept)
    if found:
        before[cards.drafter] += sum(line.bytes for line in drafter_weights(found, tp=tp, ep=1))
        before[cards.drafter] += sum(one.at(pool) for layer in found.layers for one in drafts(layer, layer.caches))
    streams = any(w.experts for w, _ in beside)

    def of_card(n: int) -> list[Entry]:
        again = cards.again(before[n], of_release)
        return [
            exact("kept free by a load", cards.kept[n], FREE, "transient")._replace(phases=()),
            *([exact("counted twice by a load", again, TWICE, "transient")._replace(phases=())] if again else ()),
            *([modelled(RINGS_OF, placed.rings_of_experts(of_release), "moe_cpu_host.py", "transient")] if streams else ()),
        ]

    def in_split(line: Entry) -> bool:
        earlier = line.name.startswith(BEFORE)
        if line.name == RINGS_OF:  # before, they are made by the first prompt
            return of_release.worst_case
        return line.name in WITHIN or (line.kind in ("weights", "cache") and (of_release.split_of_all or not earlier))

    room = d.device.memory_bytes - sum(e.bytes for e in whole.process_lines(d, True)) - (d.reserve or 0) if d.device else 0
    rules = whole.Allocation(
        held=all_held,
        transients=transients,
        source=SOURCE.format(s.version),
        fraction=d.memory_fraction or 1.0,
        torch=True,
        stages=placed.stages(model, formats, cached, cards.taken(room, before, of_release)),
        drafts=drafts,
        draft_stage=cards.drafter,
        of_stage=of_card,
        caps=cards.use,
        capped=in_split,
    )
    if found and cards.drafts is not None and before[cards.drafter] > cards.drafts:
        return refused(f"Insufficient VRAM in split for model and cache: the drafter takes {show_bytes(before[cards.drafter])} of a card")
    outcome = whole.plan(shared, model, formats, rules, found)
    one = max(_one_sequence(rank, context, keeping.slots) for rank in whole.ranks(shared, model, formats, rules, found))
    return _shared(outcome, pool, context, batch, s, one)._replace(host=tuple(line._replace(source=BESIDE) for line in host))


def _staged(keeping: Keeping, tokens: int, kept: Sequence[tuple[KeptTensor, int]]) -> list[Entry]:
    """A quantised layer's K and V in f16, which prompts attend to (attention_fn/triton_paged.py EXL3_QC_STAGING; before 1.0 get_kv)."""
    if not keeping.k_bits or keeping.rules.staging == "none":
        return []
    rows: dict[str, int] = {}
    for one, _ in kept:
        rows[one.tensor] = max(rows.get(one.tensor, 0), one.row)
    n_bytes = sum(rows.values()) * (min(tokens, STAGED) if keeping.rules.staging == "window" else tokens)
    return [Entry(STAGE, n_bytes, 0, n_bytes, "modelled", "EXL3_QC_STAGING", "transient")] if n_bytes else []


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


def _shared(found: Outcome, pool: int, context: int, batch: int, s: _Settings, one: int) -> Outcome:
    """The same outcome, with the pool dealt out to sequences in whole pages. The cache is allocated while the model is loaded."""
    slots = s.keeping.slots
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
            max_context=min(pool, s.longest or pool),
            max_context_at_batch=None if most is None else most // PAGE // batch * PAGE,
            max_batch=None if most is None else min(most // pages, slots),
        )
    if s.longest and context > s.longest and found.reason is None:
        reason = f"{context:,} tokens are more than the {s.longest:,} of max_seq_len"
        return found._replace(capacity=capacity, fits=False, reason=reason, certainty="certain")
    short = batch * pages > pool or batch > slots
    if short and found.reason is None:
        need = f"{batch * pages:,} tokens of pages and {counted(batch, 'slot')}"
        reason = f"{batch:,} x {context:,} tokens need {need}; the cache has {pool:,} and {slots:,}"
        return found._replace(capacity=capacity, fits=False, reason=reason, certainty="certain")
    return found._replace(capacity=capacity)


ENGINE = Engine(FACTS, settle, plan)
