"""One request's cache on its way from a prefill worker to a decode worker: what moves, in how many pieces, how long that takes.

vLLM    NixlConnector, which llm-d and Dynamo run: every decode rank reads its own heads from the prefill ranks that hold them, a latent
        whole from one (distributed/kv_transfer/kv_connector/v1/nixl/tp_mapping.py compute_tp_mapping). A block id moves with all layers
        behind it (base_worker.py _compute_desc_ids); of a window the last ceil(W / block) + 1 blocks, of states the running one
        (base_scheduler.py get_exchange_clipped_blocks)
SGLang  --disaggregation-mode: pages of the full pool, of windows from the page on in which they start, a slot of states
        (disaggregation/prefill.py send_kv_chunk); pieces that lie side by side are sent as one, so that descriptors are at most these
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.engines.common.protocol import Apart, Group, Settled
from kvplan.engines.common.releases import release
from kvplan.errors import KvplanError, SpecError, UnsupportedError
from kvplan.forms import STATES
from kvplan.planner.evaluate import read_and_evaluate
from kvplan.planner.links import LINKS, Link, host_link, peer_link
from kvplan.planner.plan import Plan, plain
from kvplan.planner.speed import bounds
from kvplan.planner.workers import Workers, workers
from kvplan.units import cdiv

SCHEMA = "kvplan.transfer/1"
PLENTY = 1 << 50  # of cache memory: what moves does not depend on it
NETWORKS = ("100gb", "200gb", "400gb")
BOUNDS = (
    "bounds, not predictions: the links' ceilings, one of every GPU, and the devices' peak rates; no handshake, no descriptors' overhead. "
    "By layer: where each layer leaves while the next is computed; vLLM's NixlConnector reads when the prompt is done, and hides nothing"
)


class Moved(NamedTuple):
    """Equal page groups of one decode rank: `pieces` of each, `piece_bytes` each, in so many descriptors (None: not known)."""

    kind: Literal["full", "window", "state"]
    groups: int
    pieces: int
    piece_bytes: int
    descriptors: int

    @property
    def bytes(self) -> int:
        return self.groups * self.pieces * self.piece_bytes


class Time(NamedTuple):
    """Over one link of every GPU: all after the prompt, and what is left after it where layers leave as they are computed."""

    link: str
    gb_per_s: float
    seconds: float
    by_layer_seconds: float | None


class Transfer(NamedTuple):
    """The answer: bytes of one decode rank, of all, and of the prefill rank that sends most; `sources`: it reads from so many of those."""

    plan: Plan
    decode: Plan
    prompt_tokens: int
    moved: tuple[Moved, ...]
    rank_bytes: int
    total_bytes: int
    sent_bytes: int
    sources: int
    prefill_seconds: float | None
    times: tuple[Time, ...]
    workers: Workers | None
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (schema `kvplan.transfer/1`)."""
        shown, decode = self.plan.as_dict(), self.decode.question
        return {
            "schema": SCHEMA, "model": shown["model"], "question": shown["question"],
            "decode": {name: decode[name][0] for name in ("device", "tp", "pp", "n_devices")},
            "prompt_tokens": self.prompt_tokens,
            "moved": [plain(one) | {"bytes": one.bytes} for one in self.moved],
            **{name: getattr(self, name) for name in ("rank_bytes", "total_bytes", "sent_bytes", "sources", "prefill_seconds")},
            "times": [plain(one) for one in self.times],
            "workers": None if self.workers is None else plain(self.workers),
            "notes": list(self.notes),
        }  # fmt: skip


def transfer(
    d: Deployment, decode: Deployment, prompt: int | None, output: int | None, links: Sequence[Link], n_gpus: int | None
) -> Transfer:
    """What one request of `prompt` tokens moves from a worker of `d` to one of `decode`. Raises UnsupportedError where that is unknown."""
    way = connector(d)
    d, decode = connected(d, way), connected(decode, way)
    here, there = _geometry(d), _geometry(decode)
    tokens = prompt or here.plan.asked("context")
    sizes: tuple[int, int] = (here.plan.asked("tp") or 1, there.plan.asked("tp") or 1)
    if max(sizes) % min(sizes):
        raise SpecError("decode_tp", [("", f"one of the two must divide the other: tp {sizes[0]} prefills, tp {sizes[1]} decodes")])
    first = [*sources(0, *sizes, there.heads, there.latent)], [*state_sources(0, *sizes)]
    moved = tuple(_moved(there, group, tokens, way, len(first[_kind(group) == "state"])) for group in there.groups)
    rank, sent = sum(one.bytes for one in moved), _sent(there, moved, *sizes)
    notes: list[str] = []
    seconds = None
    try:
        seconds = bounds(d)(tokens).seconds
    except KvplanError as error:
        notes.append(f"the prompt is not timed: {error}")
    busiest, layers = max(rank, sent), _layers(there.settled)
    times = tuple(_time(link, busiest, seconds, layers) for link in links or _usual(d))
    made = None
    if output is not None:
        made = workers(d, decode, tokens, output, n_gpus)
    elif n_gpus is not None:
        raise SpecError("output", [("", "a split needs the tokens of an answer too")])
    read = {*first[0], *first[1]} if any(one.kind == "state" for one in moved) else {*first[0]}
    total = rank * sizes[1]
    return Transfer(here.plan, there.plan, tokens, moved, rank, total, sent, len(read), seconds, times, made, (*notes, BOUNDS))


def connector(d: Deployment) -> Apart:
    """How the engine of a question moves caches. Raises UnsupportedError where that is not known."""
    facts = engines.facts(d.engine or engines.default(d))
    if facts.apart is None:
        known = ", ".join(name for name in engines.ENGINES if engines.facts(name).apart)
        raise UnsupportedError(f"{facts.name} is not modelled with prefill and decode apart; {known} are")
    return facts.apart


def connected(d: Deployment, way: Apart) -> Deployment:
    """The question with what its release sets where a connector is there, unless it was chosen."""
    if way.one_group is None or way.one_group[0] in dict(d.engine_option) or d.engine_version is None:  # the newest release is not before
        return d
    if release(engines.settle(d)[1].question.engine_version or "") >= release(way.one_group[1]):
        return d
    return replace(d, engine_option=(*d.engine_option, (way.one_group[0], "true")))


class _Side(NamedTuple):
    """One worker: its plan with plenty of memory, as its engine read it."""

    plan: Plan
    settled: Settled
    groups: tuple[Group, ...]
    heads: int
    latent: bool


def _geometry(d: Deployment) -> _Side:
    settled, plan = read_and_evaluate(replace(d, kv_memory=PLENTY), limits=False)
    if plan.capacity is None:
        raise UnsupportedError(f"transfer: {plan.verdict}")
    if (plan.asked("dcp") or 1) > 1:
        raise UnsupportedError("transfer: decode context parallelism is not modelled with prefill and decode apart")
    tensors = [t for layer in settled.layers for cache in layer.caches for t in cache.tensors]
    heads = max((t.heads for t in tensors if t.name == "k"), default=0)
    if not plan.capacity.groups:
        raise UnsupportedError(f"transfer: {plan.model.id} keeps nothing that could move")
    return _Side(plan, settled, plan.capacity.groups, heads or 1, not heads and any(t.name == "latent" for t in tensors))


def _kind(group: Group) -> Literal["full", "window", "state"]:
    word = group.kind.split()[0]
    if group.role == "state" or word == "mamba":
        return "state"
    return "window" if word in ("sliding_window", "sliding_window_mla", "window") else "full"


def _moved(side: _Side, group: Group, tokens: int, way: Apart, n_sources: int) -> Moved:
    """A group's part of one decode rank."""
    kind, block = _kind(group), group.block_tokens or 1
    whole, span = cdiv(tokens, block), group.span or 0
    pieces = whole
    if kind == "state":
        pieces = 1
    elif kind == "window":
        pieces = min(whole, cdiv(span, block) + 1) if way.unit == "rows" else whole - max(tokens - span, 0) // block
    plan = side.plan
    n_bytes = group.page_bytes or 0
    if way.unit == "rows":
        several = kind != "state" and (plan.asked("pp") or 1) == 1
        n_bytes = (plan.capacity.bytes_per_block if several and plan.capacity else None) or group.block_bytes or 0
    return Moved(kind, group.n_groups, pieces, n_bytes, group.n_groups * pieces * _regions(side, group, kind, way) * n_sources)


def _regions(side: _Side, group: Group, kind: str, way: Apart) -> int:
    """Stretches of memory that one piece lies in."""
    layers = max(one.layers for one in side.groups) if way.unit == "rows" else group.layers
    if kind == "state":
        states = [cache for layer in side.settled.layers for cache in layer.caches if cache.form in STATES]
        if way.unit == "pages":
            return 2 * len(states)
        return group.layers * (2 if any(cache.form == "mamba1" for cache in states) else 4)  # three parts of the convolution, one state
    if side.latent:
        return layers
    version = side.plan.asked("engine_version") or ""
    together = way.together_from and release(version) >= release(way.together_from)
    return layers if together else 2 * layers  # K and V apart


def sources(rank: int, prefill: int, decode: int, heads: int, latent: bool) -> list[int]:
    """Prefill ranks from which a decode rank reads its heads: those that hold them, each head once."""
    if latent or decode >= prefill:
        return [rank * prefill // decode]
    first: dict[int, int] = {}
    for source in range(rank * prefill // decode, (rank + 1) * prefill // decode):
        first.setdefault(source * heads // prefill, source)
    return list(first.values())


def state_sources(rank: int, prefill: int, decode: int) -> list[int]:
    """Prefill ranks from which it reads states: every one that has a part of its own."""
    return list(range(rank * prefill // decode, (rank + 1) * prefill // decode)) if decode < prefill else [rank * prefill // decode]


def _sent(side: _Side, moved: Sequence[Moved], prefill: int, decode: int) -> int:
    """Bytes that the busiest prefill rank sends."""
    out: Counter[int] = Counter()
    for rank in range(decode):
        for one in moved:
            own = state_sources(rank, prefill, decode) if one.kind == "state" else sources(rank, prefill, decode, side.heads, side.latent)
            for source in own:
                out[source] += one.bytes // len(own)
    return max(out.values(), default=0)


def _layers(settled: Settled) -> int:
    return max(sum(1 for layer in settled.layers if any(cache.tensors for cache in layer.caches)), 1)


def _time(link: Link, n_bytes: int, prompt: float | None, layers: int) -> Time:
    """The last layer leaves when the prompt is done; before it the others had all but one layer's time of it."""
    whole = link.seconds(n_bytes)
    left = None if prompt is None else max(whole / layers, whole - prompt * (layers - 1) / layers)
    return Time(link.name, link.gb_per_s, whole, left)


def _usual(d: Deployment) -> list[Link]:
    """The device's own links, and networks."""
    own = [link for link in (peer_link(d.device), host_link(d.device)) if link is not None]
    return [*own, *(LINKS[network] for network in NETWORKS)]
