"""What an engine is to the planner, and the arithmetic that all engines share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, canonical_weight, parse_kv_dtype
from kvplan.errors import SpecError
from kvplan.ledger import Ledger
from kvplan.spec import lower
from kvplan.tensors import CacheFormats, Curve, Lowered, Role, tensor_curve, total
from kvplan.weights import WeightFormats, asked_formats, is_quantized, role_formats, with_stored

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


def settle(d: Deployment, defaults: Defaults, notes: tuple[str, ...] = ()) -> Settled:
    """`d` with `defaults` for what was not chosen, then what every engine resolves the same way: model facts and sizes of one."""
    common: dict[str, tuple[Any, ChosenBy]] = dict.fromkeys(("tp", "pp", "dp", "ep", "dcp", "batch"), (1, "kvplan"))
    common |= {
        "dtype": (d.model.dtype, "model"),
        "weight_dtype": (_checkpoint_format(d), "model"),
        "kv_dtype": ("auto", "kvplan"),
        "context": (d.max_model_len or d.model.max_context, "you" if d.max_model_len else "model"),
        "encoder_tokens": (d.model.encoder_tokens, "model"),
        "reserve": (0, "kvplan"),
        "multimodal": ("on" if d.model.towers else "off", "model"),
        "speculative": ("off", "kvplan"),
        "lora": ("off", "kvplan"),
        "enforce_eager": (False, "kvplan"),
        "calibration": ("packaged", "kvplan"),
        **defaults,
    }
    chosen: dict[str, ChosenBy] = {}
    filled: dict[str, Any] = {}
    for name, (value, by) in common.items():
        if getattr(d, name) is None:
            filled[name], chosen[name] = value, by
    if (filled.get("context") or d.context) is None:
        raise SpecError("context", [("", f"{d.model.id} declares no maximum length; say how many tokens with --context")])
    settled = replace(d, **filled)
    for name in ("context", "batch"):
        if getattr(settled, name) < 1:
            raise SpecError(name, [("", "at least 1")])
    return Settled(settled, chosen, notes)


def _checkpoint_format(d: Deployment) -> str:
    formats = sorted({q.format for q in d.model.quantization})
    return "+".join(formats) if formats else d.model.dtype


def cache_formats(d: Deployment, *, state: str = "f32") -> CacheFormats:
    """The cache formats of a settled question: `auto` is what the checkpoint declares, else the compute type."""
    compute = canonical(d.dtype or d.model.dtype, "dtype")
    asked = d.kv_dtype or "auto"
    if asked == "auto":
        asked = d.model.kv_dtype or compute
    k, v = parse_kv_dtype(asked)
    return CacheFormats(compute=compute, k=k, v=v, conv=compute, state=state)


def stored_as(settled: Settled) -> CacheFormats:
    """The formats that the engine stores caches and states in."""
    return settled.formats or cache_formats(settled.question)


def lowered(d: Deployment, formats: CacheFormats, *, cast: bool = False) -> Lowered:
    """The question's model as tensors, with the bytes its checkpoint stores where they are known and no other format is asked for.

    cast  the engine makes its parameters in the compute type, whatever plain type a file has
    """
    model = lower(d.model, formats)
    if d.stored is None or d.weight_dtype not in (None, _checkpoint_format(d)):
        return model
    return with_stored(model, d.stored.cast(2 if formats.compute in ("f16", "bf16") else 4) if cast else d.stored)


def whole_curve(d: Deployment, formats: CacheFormats) -> Curve:
    """The cache of one sequence of a settled question over its length, whole and unreplicated."""
    layers = lowered(d, formats).layers
    return total(tensor_curve(t, encoder_tokens=d.encoder_tokens) for layer in layers for cache in layer.caches for t in cache.tensors)


def weight_formats(d: Deployment) -> WeightFormats:
    """Role -> format of the weights: the checkpoint's own, or the one asked for (a quantised one applies to the layers' matrices)."""
    base = canonical_weight(d.model.dtype)
    own: dict[Role, str] = {role: canonical_weight(q.format) for q in d.model.quantization for role in q.roles}
    if d.weight_dtype in (None, _checkpoint_format(d)):
        return role_formats(base, own)
    asked = canonical_weight(d.weight_dtype or "")
    if not is_quantized(asked):
        return role_formats(asked, {})
    routed = any(getattr(mlp, "experts", 0) for block in d.model.blocks.values() for mlp in block.mlps)
    return asked_formats(base, asked, routed=routed)


def only_known_options(d: Deployment, engine: Engine) -> None:
    """Raises SpecError for an engine_option that the engine does not have: none is ever ignored."""
    for key, _ in d.engine_option:
        if key not in engine.options:
            known = f"it takes: {', '.join(engine.options)}" if engine.options else "it takes none"
            raise SpecError("engine_option", [(key, f"engine {engine.name} has no such option; {known}")])
