"""What an engine is to the planner: the values that go in and come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

from kvplan.deployment import Deployment
from kvplan.ledger import Ledger
from kvplan.tensors import CacheFormats, Curve

ChosenBy = Literal["you", "engine default", "model", "kvplan"]


Defaults = Mapping[str, tuple[Any, ChosenBy]]


class Settled(NamedTuple):
    """A question with every name resolved, and who chose each. `notes` are assumptions the report shows.

    formats  how the engine stores caches and states, where that is not what `cache_formats` reads from the question alone
    """

    question: Deployment
    chosen_by: Mapping[str, ChosenBy]
    notes: tuple[str, ...] = ()
    formats: CacheFormats | None = None


class Group(NamedTuple):
    """Layers whose pages an engine manages together; None where the engine has no such thing. `span`: their window or chunk in tokens."""

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


class Capacity(NamedTuple):
    """What the cache memory holds: bytes and blocks per rank, tokens and sequences per replica.

    max_context            longest single request admitted under max_model_len; max_context_unbounded: without that limit
    max_context_at_batch   longest context at which all sequences of the question fit; max_batch: most of them at its context
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


class Outcome(NamedTuple):
    """An engine's answer. `fits` is None where nothing limits memory; `reason` is the condition that fails, with its numbers."""

    ledgers: tuple[Ledger, ...]
    capacity: Capacity | None
    starts: bool | None
    fits: bool | None
    margin_bytes: int | None
    limiting_rank: int | None
    certainty: Literal["certain", "likely", "too close to call"] = "certain"
    reason: str | None = None


class RankSurface(NamedTuple):
    """One distinct rank: the cache of one sequence as a curve, what else it holds, and what it has for caches (None: no limit)."""

    curve: Curve
    fixed_bytes: int
    kv_bytes: int | None


class Surface(NamedTuple):
    """An engine's whole answer over context and batch, where it is a curve: for sweeps on arrays. `replicas` share the batch."""

    whole: Curve
    ranks: tuple[RankSurface, ...]
    replicas: int


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


class Engine(Protocol):
    """One engine: which releases and options it knows, what it fills in, what it makes of a settled question."""

    name: str
    versions: tuple[str, ...]
    options: tuple[str, ...]

    def settle(self, d: Deployment) -> Settled:
        """The question with this engine's defaults filled in. Raises SpecError where two choices contradict."""
        ...

    def plan(self, settled: Settled) -> Outcome:
        """What the engine does with it; a refusal to start is an outcome."""
        ...
