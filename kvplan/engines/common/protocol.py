"""What an engine is to the planner: the values that go in and come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.methods import Drafting
from kvplan.engines.common.tiers import Tier
from kvplan.errors import SpecError
from kvplan.forms import Form
from kvplan.ledger import Entry, Ledger, Phase
from kvplan.tensors import Curve, Layer, Lowered, WeightTensor
from kvplan.weights import WeightFormats

ChosenBy = Literal["you", "engine default", "model", "kvplan"]
Certainty = Literal["certain", "likely", "too close to call"]


Defaults = Mapping[str, tuple[Any, ChosenBy]]


class Resolved(NamedTuple):
    """A question with every name resolved, and who chose each. `notes` are assumptions the report shows."""

    question: Deployment
    chosen_by: Mapping[str, ChosenBy]
    notes: tuple[str, ...] = ()


class Drafter(NamedTuple):
    """What drafts tokens beside a model, as an engine loads it.

    name     the spec or file it is read from
    layers   its layers; weights: all tensors it loads beside the target's, in `formats`
    source   where its shapes are published
    """

    name: str
    layers: tuple[Layer, ...]
    weights: tuple[WeightTensor, ...]
    formats: WeightFormats
    source: str


class Settled(NamedTuple):
    """A question as an engine understands it: read and lowered once, for everything that comes after.

    settings  the engine's own, typed; nobody else looks inside
    model     the model as tensors, in the formats that the engine stores
    drafts    draft layers whose caches it keeps beside the model's
    misfit    why those formats can not hold this model's rows, where the engine is to refuse that in its own words (`model` is then
              in the compute type)
    drafter   what drafts tokens; its caches are in `drafts` where the engine keeps them for as many tokens as the model's
    unknown   what is held and can not be sized as asked, and how to say it: then nothing that fits is called so
    limits    whether the longest context and the most sequences are asked for, which cost an engine many tries
    undecided why a start is too close to call, whatever room is left: what public starts ran out of and nothing here sizes
    room      share of a device that a start leaves beyond the ends of all intervals, or is likely at most; 0: any
    branch    whether it is a build of a branch, older than its model's class: what the release itself checks is not what that one does
    passed    options that the engine has and no line follows (passed.py)
    runs      how the engine is run, where what it drafts by differs by that (methods.py)
    lacks     why its release does not start, whatever memory there is: it has no such way of drafting, or no adapters; empty: it has
    stopped   why it stops at engine options beside what else was chosen (own_names.py); empty: it does not
    slots     sequences that its server keeps states of where nobody says how many, which the question did not
    """

    question: Deployment
    chosen_by: Mapping[str, ChosenBy]
    notes: tuple[str, ...]
    settings: Any
    model: Lowered
    drafts: tuple[Layer, ...] = ()
    misfit: SpecError | None = None
    drafter: Drafter | None = None
    unknown: str = ""
    limits: bool = True
    undecided: tuple[str, ...] = ()
    room: float = 0.0
    branch: bool = False
    passed: tuple[Any, ...] = ()
    runs: str = ""
    lacks: str = ""
    stopped: str = ""
    slots: int = 0

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers whose caches it keeps."""
        return self.model.layers + self.drafts


class Group(NamedTuple):
    """Layers whose pages an engine manages together; None where the engine has no such thing. `span`: their window or chunk in tokens.

    block_bytes  one block of all its layers on a rank that had all stages, without what brings pages to one size
    """

    role: str
    kind: str
    layers: int
    n_groups: int = 1
    block_tokens: int | None = None
    page_bytes: int | None = None
    cells: int | None = None
    streams: int | None = None
    k_bytes: int | None = None
    v_bytes: int | None = None
    span: int | None = None
    block_bytes: int | None = None


class Capacity(NamedTuple):
    """What the cache memory holds: bytes and blocks per rank, tokens and sequences per replica.

    max_context            longest single request admitted under max_model_len; max_context_unbounded: without that limit
    max_context_at_batch   longest context at which all sequences of the question fit, every other setting unchanged
    max_batch              most sequences at its context; an engine says it of a replica, a plan of the question, for all replicas
    offloaded              layers on the devices, of how many, the output layer counted as one; None where no engine leaves any out
    beside                 layers on the devices of which some tensors, mostly experts, are in host memory
    """

    kv_bytes: int
    kv_bytes_low: int
    kv_bytes_high: int
    request_bytes: int
    tokens: int | None
    max_concurrency: float | None
    max_context: int | None
    max_context_unbounded: int | None
    max_context_at_batch: int | None
    max_batch: int | None
    mean_concurrency: float | None = None
    blocks: int | None = None
    block_tokens: int | None = None
    bytes_per_block: int | None = None
    log_lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    offloaded: tuple[int, int] | None = None
    beside: int = 0


Memory = Literal["device", "host"]


class Risk(NamedTuple):
    """Something that may run out: bytes of a rank (the estimate and the ends), the phase, and the setting or flag that removes it.

    memory  whose: of the device, or the host's, where all ranks of a server take it together
    """

    name: str
    bytes: int
    low: int
    high: int
    phase: Phase
    removes: str
    memory: Memory = "device"


class Outcome(NamedTuple):
    """An engine's answer. `fits` is None where nothing limits memory; `reason` is the condition that fails, with its numbers.

    start_certainty  how sure `starts` is, as an engine says it of its own checks; a plan has it of the whole start
    survives   the device holds its largest step too, after the start; None where that is not known
    risk       the condition that fails then; risks: what else may come that no profile saw
    host_risks what may come of host memory, where nobody says how much there is
    split      it runs all the same, with layers in RAM that nobody asked for: `starts` and `fits` are of the whole model on its devices
    unknown    what would have to be known first; empty where nothing
    host       what one server holds in host memory, all its ranks together: no device's total counts it
    tiers      where its cache goes beside the devices
    undecided  why a start is too close to call, whatever room is left
    """

    ledgers: tuple[Ledger, ...]
    capacity: Capacity | None
    starts: bool | None
    fits: bool | None
    margin_bytes: int | None
    limiting_rank: int | None
    certainty: Certainty = "certain"
    reason: str | None = None
    survives: bool | None = None
    risk: str | None = None
    unknown: str = ""
    host: tuple[Entry, ...] = ()
    tiers: tuple[Tier, ...] = ()
    start_certainty: Certainty | None = None
    risks: tuple[Risk, ...] = ()
    host_risks: tuple[Risk, ...] = ()
    split: bool = False
    undecided: tuple[str, ...] = ()

    @property
    def tightest(self) -> Ledger | None:
        """The ledger of the rank that limits it."""
        return next((ledger for ledger in self.ledgers if self.limiting_rank in ledger.ranks), None)


#: How sure a refusal is that compares no memory. It is a check of the release as published: of 14 that were asked blind (the sixth to
#: the tenth set, docs/limits.md) ten had started, on builds that were patched or with a limit that an environment variable lifts.
RULE: Certainty = "likely"


def refused(reason: str, sure: Certainty = RULE) -> Outcome:
    """An outcome of an engine that would not start, in its own words, before it looked at memory."""
    return Outcome(
        ledgers=(), capacity=None, starts=False, fits=False, margin_bytes=None, limiting_rank=None, certainty=sure, reason=reason
    )


class RankSurface(NamedTuple):
    """One distinct rank: the cache of one sequence as a curve, what else it holds, and what it has for caches (None: no limit)."""

    curve: Curve
    fixed_bytes: int
    kv_bytes: int | None


class Surface(NamedTuple):
    """An engine's whole answer over context and batch, where it is a curve: for sweeps on arrays. `replicas` share the batch.

    longest  tokens of the longest request that somebody set; None: nobody did
    """

    whole: Curve
    ranks: tuple[RankSurface, ...]
    replicas: int
    longest: int | None = None


class Pooled(NamedTuple):
    """An engine's whole answer over context and batch where its pool depends on neither: for sweeps on arrays.

    request     units (blocks) of one sequence over its tokens: of each group the most, all groups together
    free_units  units that sequences may take, of `unit_bytes` on the rank that runs out first
    lack_bytes  where the engine would not start: what is left (below zero) of the memory it checks; else None
    longest     tokens of the longest request it admits; `most`: sequences that a replica runs at once
    """

    whole: Curve
    replicas: int
    rank_total_bytes: int
    kv_bytes: int
    tokens: int
    max_concurrency: float
    free_units: int
    unit_bytes: int
    request: tuple[tuple[Curve, ...], ...]
    lack_bytes: int | None
    longest: int
    most: int


class Setting(NamedTuple):
    """A switch that advice may offer: the engine option, its values in the order in which they are tried, what to call the change."""

    option: str
    values: tuple[str, ...]
    change: str


class Apart(NamedTuple):
    """How a request's cache moves from a worker that prefills to one that decodes.

    unit           rows: a block id with all layers behind it; pages: pages of each pool
    together_from  the release from which K and V of a layer lie in one piece; empty: they lie apart
    one_group      the option that makes window layers keep every token, and the release before which a connector sets it
    """

    unit: Literal["rows", "pages"]
    together_from: str = ""
    one_group: tuple[str, str] | None = None


class Facts(NamedTuple):
    """What an engine is, for everyone who asks about it without running it.

    title            as its makers write it
    versions         releases whose rules are known, oldest first
    read_from        the oldest release whose start is modelled, where that is before the first of `versions`
    options          engine_option keys, each with what it means
    forms            forms of cache that it models; others are refused by name
    unused           names of a question that it has no use for -> what follows from that, for a note
    pool             `set aside`: cache memory is taken at start, whatever sequences come; `per context`: for the context it is given;
                     `grows`: with the sequences
    pages            how its sequences take pages: block ids of one pool; a pool of blocks for each group; the same with a radix tree;
                     cells; None: no page manager of it is modelled
    null_blocks      block ids that no sequence gets
    shares_prefixes  requests share prefixes unless an option says otherwise
    vendors          makes of devices it runs on; empty: any
    least_capability the least compute capability of NVIDIA GPUs that its makers name (70 is 7.0); None: not known
    kernels_from     from a release on, the least compute capability that any published build has kernels for; default_from: that the
                     default build has, or that its makers still support
    rocm_builds      from a release on, AMD's names of the GPUs that the default build for ROCm has kernels for
    offloads         layers may stay in memory beside the device
    machines         its ranks may be on several machines (Ray, --nnodes, MPI); else beyond_one: how several are asked for all the same
    over_ranks       its option after which dp is of the attention alone, over the ranks of tp; empty: none that advice may offer
    weight_schemes   families of checkpoint formats it loads (kvplan/dtypes.py `scheme`); empty: any
    own_formats      what bare bits of weights are to it: spelling -> a name of kvplan/dtypes.py; empty: what they are to all
    stated_caches    from a release on, ways of quantisation (a spec's `method`) whose cache format `auto` does not follow; before the first
                     release it follows none; None: it follows all
    drafting         what its releases draft by; None: any method
    adapting         which of its releases take adapters (methods.py ADAPTERS); None: all that are known
    serves_files     a tag of Ollama's library that names no type is to it the file that Ollama has, else the model as it was released
    bare_is_latest   a name without a tag is its library's `:latest`
    drafters_beside  how a target's class begins (lower case) and its width -> the drafter of `mtp` in a file beside the model's, its type
    picks_drafts     methods of speculation for which it picks the tokens itself (METHOD:auto)
    kv_advice        cache formats that advice may offer, with their bits; weight_advice likewise; weight_further: formats
                     beyond them, where those are not enough
    settings         switches that advice may offer
    fraction_ceiling advice raises the memory fraction up to here; None: not above its own default
    driver_from      the first release whose builds need a driver of CUDA 13: what an older one holds is no question; None: it is none
    whole_prompts    releases before this one read a prompt in one step, so that smaller steps are no advice
    constants        the name of its measured constants; None: it has none
    measured_from    the release from which five or more public start-up logs are behind them; None: fewer are
    tiers            options that ask for a tier of the cache beside the devices, as words; empty: none is modelled
    apart            how caches move between prefill and decode workers; None: not modelled
    free_batch       nothing of it follows the batch: the most sequences of a plan that fits hold as its pool says
    shares_experts   replicas have the experts between them; else each has all
    measured_sizes   sizes that lines measured in its logs depend on; measured_names: other names, beside those of every engine
    """

    name: str
    title: str
    versions: tuple[str, ...]
    options: Mapping[str, str]
    forms: frozenset[Form]
    unused: Mapping[str, str] = {}
    pool: Literal["set aside", "per context", "grows"] = "grows"
    pages: Literal["blocks", "pools", "radix", "cells"] | None = None
    null_blocks: int = 0
    shares_prefixes: bool = True
    vendors: frozenset[str] = frozenset()
    least_capability: int | None = None
    kernels_from: tuple[tuple[str, int], ...] = ()
    default_from: tuple[tuple[str, int], ...] = ()
    rocm_builds: tuple[tuple[str, tuple[str, ...]], ...] = ()
    offloads: bool = False
    machines: bool = False
    beyond_one: str = ""
    over_ranks: str = ""
    weight_schemes: frozenset[str] = frozenset()
    own_formats: Mapping[str, str] = {}
    stated_caches: tuple[tuple[str, tuple[str, ...]], ...] | None = None
    drafting: Drafting | None = Drafting()
    adapting: Drafting | None = None
    serves_files: bool = False
    bare_is_latest: bool = False
    drafters_beside: Mapping[tuple[str, int], tuple[str, str]] = {}
    picks_drafts: tuple[str, ...] = ()
    kv_advice: tuple[tuple[str, int], ...] = ()
    weight_advice: tuple[tuple[str, int], ...] = ()
    weight_further: tuple[tuple[str, int], ...] = ()
    settings: tuple[Setting, ...] = ()
    fraction_ceiling: float | None = None
    driver_from: str | None = None
    whole_prompts: tuple[int, ...] = ()
    constants: str | None = None
    measured_from: str | None = None
    read_from: str | None = None
    measured_sizes: tuple[str, ...] = ("tp", "pp", "max_num_seqs", "max_num_batched_tokens")
    measured_names: tuple[str, ...] = ()
    tiers: str = ""
    free_batch: bool = False
    shares_experts: bool = False
    apart: Apart | None = None


class Engine(NamedTuple):
    """One engine.

    settle   the question with its defaults filled in, read and lowered. Raises SpecError where two choices contradict
    plan     what it does with it; a refusal to start is an outcome
    surface  the whole answer over context and batch, where it is one; None where it is not, for that question
    risks    what a start of it may meet later that only this engine has, whatever room is left
    """

    facts: Facts
    settle: Callable[[Deployment], Settled]
    plan: Callable[[Settled], Outcome]
    surface: Callable[[Deployment], Surface | Pooled | None] | None = None
    risks: Callable[[Settled, Outcome], Sequence[Risk]] | None = None
