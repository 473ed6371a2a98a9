"""Engines that set their pools aside at start: a budget in bytes makes pools, pools make the answer. Shared arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common.drafters import drafter_weights
from kvplan.engines.common.lines import Refusal, Span, least_sure, stage_weights, sure_by, weight_entries
from kvplan.engines.common.measured import stage_entries
from kvplan.engines.common.protocol import Capacity, Drafter, Group, Outcome, Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.common.tiers import Tier
from kvplan.ledger import Entry, Ledger, exact, held_by_others, left_to_the_gpu
from kvplan.tensors import Layer, Lowered, Role
from kvplan.units import MOST_TOKENS, longest

P = TypeVar("P")
"""An engine's pools of one rank."""


class Requests(NamedTuple):
    """What one worker serves: requests, tokens of each, encoder tokens of each."""

    batch: int
    context: int
    encoder: int = 0


class Budget(NamedTuple):
    """What a rank has for its pools.

    rest     bytes for all of them
    entries  its lines without them
    slack    bytes kept free for activations and graphs
    outside  lines that are held after the pools are made, in what is kept free
    """

    rest: Span
    entries: tuple[Entry, ...]
    slack: int = 0
    outside: tuple[Entry, ...] = ()


class Room(NamedTuple):
    """What a limit leaves: spare bytes (negative: missing), and the condition that fails. `setting`: more memory would not move it."""

    spare: int
    reason: str | None = None
    setting: bool = False


class Figures(NamedTuple):
    """An engine's own figures of its pools, for a request of the question; tokens, blocks and groups are those of the fullest rank."""

    request_bytes: int
    tokens: int | None
    max_concurrency: float
    blocks: int | None
    block_tokens: int
    bytes_per_block: int
    log_lines: tuple[str, ...]
    warnings: tuple[str, ...]
    groups: tuple[Group, ...]


class Ranks(Protocol):
    """How ranks are arranged: `n_devices` are some servers of tp x pp."""

    @property
    def tp(self) -> int: ...
    @property
    def pp(self) -> int: ...
    @property
    def ep(self) -> int: ...
    @property
    def n_devices(self) -> int: ...


class SetAside(NamedTuple, Generic[P]):
    """What an engine says of a settled question.

    weights   lines of each pipeline stage
    limit     the most tokens of a request (max_model_len); `limited`: it was asked for, and does not follow the context
    check     raises Refusal where it would not start at all
    budget    what a rank of that device with these weights has for its pools. Raises Refusal
    pools     bytes of a rank -> pools of every stage. Raises Refusal
    rooms     what each limit on these requests leaves in one rank's pools, under that many tokens of a request
    lines     bytes of one rank's pools by name
    tables    what a rank holds beside pools and budgeted lines
    per_token bytes of the cache per token
    running   the most requests of a worker
    figures   (the fullest rank's pools, all stages' pools, the budget's bytes) -> figures
    tiers     (all stages' pools, the budget's bytes) -> where the cache goes beside the devices
    limits    the longest context and most sequences are asked for too
    """

    question: Deployment
    layout: Ranks
    weights: Sequence[Sequence[Entry]]
    requests: Requests
    limit: int
    limited: bool
    source: str
    check: Callable[[], None]
    budget: Callable[[Device, Sequence[Entry]], Budget]
    pools: Callable[[int], Sequence[P]]
    rooms: Callable[[Requests, P, int], Iterable[Room]]
    lines: Callable[[P], Mapping[str, int]]
    tables: Callable[[Budget, P | None], Sequence[Entry]]
    per_token: Callable[[P], float]
    running: Callable[[Sequence[P]], int]
    figures: Callable[[P, Sequence[P], int], Figures]
    tiers: Callable[[Sequence[P], int], tuple[Tier, ...]] = lambda *_: ()
    limits: bool = True


def staged_weights(
    d: Deployment,
    model: Lowered,
    stages: Sequence[range],
    layout: Ranks,
    drafter: Drafter | None,
    role_tp: Mapping[Role, int],
    adapters: Callable[[Sequence[Layer]], list[Entry]] = lambda _: [],
) -> list[list[Entry]]:
    """The weight lines of each stage's ranks; the drafter is at the last.

    role_tp   roles split over fewer ranks than tp
    adapters  lines of the adapters of a stage's layers
    """
    formats, found = weight_formats(d), []
    for stage in stages:
        entries = weight_entries(stage_weights(model, stage), formats, tp=layout.tp, ep=layout.ep, role_tp=role_tp)
        if drafter and stage.stop == len(model.layers):
            entries += drafter_weights(drafter, tp=layout.tp, ep=layout.ep, role_tp=role_tp)
        found.append([*entries, *adapters([model.layers[i] for i in stage])])
    return found


def encoder_tokens(settled: Settled) -> int:
    """Encoder tokens of a request: those of the question, else what cross-attention keeps by itself; 0 without any."""
    if settled.question.encoder_tokens:
        return settled.question.encoder_tokens
    tensors = (t for layer in settled.layers for cache in layer.caches for t in cache.tensors)
    return max((t.keep.tokens for t in tensors if t.keep.kind == "source"), default=0)


def answer(e: SetAside[P]) -> Outcome:
    """What becomes of the question; a refusal to start is an outcome with the engine's own condition."""
    try:
        e.check()
        return _outcome(e)
    except Refusal as refusal:
        return Outcome(
            ledgers=_ledgers(e, None, None), capacity=None, starts=False, fits=False,
            certainty=refusal.sure, margin_bytes=None, limiting_rank=0, reason=str(refusal),
        )  # fmt: skip


class _Tried(NamedTuple, Generic[P]):
    """The pools of every stage: from the estimate, from the interval's ends (None: refused)."""

    made: Sequence[P]
    low: Sequence[P] | None
    high: Sequence[P] | None


def _outcome(e: SetAside[P]) -> Outcome:
    """Pools from the bytes given, or from the device's budget; without either only what the question would hold."""
    d, found = e.question, None
    if d.kv_memory is not None:
        rest = Span(d.kv_memory, d.kv_memory, d.kv_memory)
    elif d.device is not None:
        found = e.budget(d.device, max(e.weights, key=lambda entries: sum(entry.bytes for entry in entries)))
        rest = found.rest
    else:
        return Outcome(ledgers=_ledgers(e, None, None), capacity=None, starts=None, fits=None, margin_bytes=None, limiting_rank=None)
    start_sure = sure_by(lambda reach: _try(e, rest.at(reach)) is not None)
    try:
        tried = _Tried(e.pools(rest.point), _try(e, rest.low), _try(e, rest.high))
    except Refusal as refusal:
        raise Refusal(str(refusal), sure=least_sure(refusal.sure, start_sure)) from None
    room, stage = _tightest(e, e.requests, tried.made, e.limit, memory=True)
    fits = _holds(e, e.requests, tried.made, e.limit)
    if room.spare >= 0 and not fits:
        room = room._replace(reason=_tightest(e, e.requests, tried.made, e.limit)[0].reason)
    return Outcome(
        ledgers=_ledgers(e, found, tried),
        capacity=_capacity(e, tried, rest.point),
        starts=True,
        fits=fits,
        certainty=sure_by(lambda reach: (made := _try(e, rest.at(reach))) is not None and _holds(e, e.requests, made, e.limit)),
        margin_bytes=room.spare,
        limiting_rank=_numbers(e.layout, stage)[0],
        reason=room.reason,
        tiers=e.tiers(tried.made, rest.point),
        start_certainty=start_sure,
    )


def _try(e: SetAside[P], n_bytes: int) -> Sequence[P] | None:
    try:
        return e.pools(n_bytes)
    except Refusal:
        return None


def _tightest(e: SetAside[P], requests: Requests, made: Sequence[P], limit: int, *, memory: bool = False) -> tuple[Room, int]:
    """The limit that leaves least, and the stage it is on; of memory alone, or of the engine's settings too."""
    found = [(room, n) for n, pools in enumerate(made) for room in e.rooms(requests, pools, limit) if not (memory and room.setting)]
    return min(found, key=lambda pair: pair[0].spare, default=(Room(0), 0))


def _holds(e: SetAside[P], requests: Requests, made: Sequence[P], limit: int) -> bool:
    return _tightest(e, requests, made, limit)[0].spare >= 0


def _total(e: SetAside[P], pools: P) -> int:
    return sum(e.lines(pools).values())


def _capacity(e: SetAside[P], tried: _Tried[P], n_bytes: int) -> Capacity:
    made = tried.made
    fullest = max(made, key=lambda pools: _total(e, pools))

    def holds(batch: int, context: int, limit: int = MOST_TOKENS) -> bool:
        return _holds(e, e.requests._replace(batch=batch, context=context), made, limit)

    unbounded = at_batch = e.limit
    most = 0
    if e.limits:
        unbounded = longest(lambda n: holds(1, n), MOST_TOKENS)
        at_batch = longest(lambda n: holds(e.requests.batch, n), MOST_TOKENS)
        most = longest(lambda n: holds(n, e.requests.context, e.limit), e.running(made))
    low, high = (max(_total(e, pools) for pools in ends) if ends else 0 for ends in (tried.low, tried.high))
    return Capacity(
        kv_bytes=_total(e, fullest),
        kv_bytes_low=low,
        kv_bytes_high=high,
        max_context=min(unbounded, e.limit),
        max_context_unbounded=None if unbounded >= MOST_TOKENS else unbounded,
        max_context_at_batch=min(at_batch, e.limit) if e.limited else None if at_batch >= MOST_TOKENS else at_batch,
        max_batch=most if e.limits else None,
        **e.figures(fullest, made, n_bytes)._asdict(),
    )


def _numbers(layout: Ranks, stage: int) -> tuple[int, ...]:
    """The ranks of a stage, on every server."""
    server = layout.tp * layout.pp
    return tuple(first + stage * layout.tp + n for first in range(0, layout.n_devices, server) for n in range(layout.tp))


def _ledgers(e: SetAside[P], found: Budget | None, tried: _Tried[P] | None) -> tuple[Ledger, ...]:
    return tuple(_ledger(e, n, found, tried) for n in range(len(e.weights)))


def _ledger(e: SetAside[P], n: int, found: Budget | None, tried: _Tried[P] | None) -> Ledger:
    d, entries = e.question, stage_entries(e.weights[n], found.entries if found else ())
    pools = tried.made[n] if tried else None
    if tried is not None:
        entries += _pool_entries(e, tried, n)
    if found is not None:
        entries += e.tables(found, pools)
    if d.device and d.device.uncertain_bytes:
        entries.append(left_to_the_gpu(d.device.uncertain_bytes))
    if d.reserve:
        entries.append(held_by_others(d.reserve))
    cache, per_token = (0, 0.0) if pools is None else (_total(e, pools), e.per_token(pools))
    whole = int(per_token) if per_token == int(per_token) else per_token
    limit = d.device.memory_bytes if d.device else None
    beside, known = (found.outside, limit) if found else ((), None)
    return Ledger(_numbers(e.layout, n), d.device.id if d.device else None, cache, whole, tuple(entries), limit, beside, known)


def _pool_entries(e: SetAside[P], tried: _Tried[P], n: int) -> list[Entry]:
    """A line per pool; modelled where the budget is."""
    low, high = (dict(e.lines(ends[n])) if ends else {} for ends in (tried.low, tried.high))
    found = []
    for name, point in e.lines(tried.made[n]).items():
        ends = sorted((low.get(name, 0), point, high.get(name, point)))
        if ends[0] == ends[2]:
            found.append(exact(name, point, e.source, "cache"))
        else:
            found.append(Entry(name, point, ends[0], ends[2], "modelled", e.source, "cache"))
    return found
