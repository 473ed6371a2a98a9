"""What the tiers of a plan's cache hold, how long a prefix takes to come back from each, and whether computing it again is faster.

Both are bounds: bytes over the link's ceiling, operations over the device's peak (kvplan/roofline.py). Whether a tier pays is decided by
operations alone: beside other requests a step reads the weights anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.engines.common.tiers import Tier
from kvplan.errors import KvplanError, SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.links import LINKS, Link, host_link
from kvplan.planner.plan import Plan, plain
from kvplan.planner.speed import bounds
from kvplan.units import longest, round_up

SCHEMA = "kvplan.tiers/1"
From = Literal["cpu", "disk", "remote"]
PLACES: tuple[From, ...] = ("cpu", "disk", "remote")
#: The longest prefix that is tried for `pays_from`.
MOST_TOKENS = 1 << 24
BOUNDS = (
    "bounds, not predictions: the links' ceilings, every rank over its own to RAM, all together over one to a disk or a remote store; "
    "computing again at the device's peak rate, alone"
)


class Load(NamedTuple):
    """A prefix on its way back from one place, all pools of it together.

    piece_bytes    over the link for one piece of the largest pool, prefix_bytes for the prefix: a rank's to RAM, all ranks' to a disk
    pays_from      tokens of the shortest prefix from which on coming back is faster than computing; None: none that was tried, or not known
    """

    place: From
    link: str
    gb_per_s: float
    piece_bytes: int
    piece_seconds: float
    prefix_bytes: int
    prefix_seconds: float
    pays_from: int | None


class Tiers(NamedTuple):
    """The answer: `plan.outcome.tiers` with what a prefix of `prefix_tokens` takes from each place, and to compute (None: no rates)."""

    plan: Plan
    prefix_tokens: int
    loads: tuple[Load, ...]
    recompute_seconds: float | None
    notes: tuple[str, ...]

    @property
    def tiers(self) -> tuple[Tier, ...]:
        return self.plan.outcome.tiers

    @property
    def gpu_bytes(self) -> int:
        """The cache of the same server on its devices."""
        ledgers, ranks = self.plan.ledgers, max((tier.ranks for tier in self.tiers), default=1)
        return sum(ledger.cache_bytes * len(ledger.ranks) for ledger in ledgers) * ranks // sum(len(ledger.ranks) for ledger in ledgers)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (schema `kvplan.tiers/1`)."""
        plan = self.plan.as_dict()
        return {
            "schema": SCHEMA,
            **{name: plan[name] for name in ("model", "question", "starts", "fits", "verdict", "host")},
            "prefix_tokens": self.prefix_tokens,
            "gpu": None if self.plan.capacity is None else {
                "bytes": self.gpu_bytes,
                "tokens": self.plan.capacity.tokens, "pieces": self.plan.capacity.blocks, "piece_tokens": self.plan.capacity.block_tokens,
            },
            "tiers": plan["tiers"],
            "loads": [plain(load) for load in self.loads],
            "recompute_seconds": self.recompute_seconds,
            "notes": list(self.notes),
        }  # fmt: skip


def tiers(d: Deployment, prefix: int | None, links: dict[str, Link | None]) -> Tiers:
    """The tiers of a question. `links`: by place (cpu, disk, remote), None: the usual one. Raises SpecError without a tier."""
    plan = evaluate(d)
    found = plan.outcome.tiers
    if not found and plan.starts is not False:
        how = f"no tier was asked for; {_how(plan)}" if plan.cache.total_bytes else "the model keeps no cache that a tier could hold"
        raise SpecError("tiers", [("engine_option", how)])
    tokens = prefix or plan.asked("context")
    notes, compute = [], None
    try:
        compute = bounds(d)
    except KvplanError as error:
        notes.append(f"computing again is not timed: {error}")
    loads = []
    ways = {"cpu": links.get("cpu") or host_link(d.device), "disk": links.get("disk") or LINKS["nvme4"], "remote": links.get("remote")}
    if found and ways["cpu"] is None:
        notes.append("how the device is joined to its machine's memory is not known; name it with --link")
    for place in PLACES:
        here = [tier for tier in found if tier.place == place] or (list(found[:1]) if place == "remote" else [])
        way = ways[place]
        if here and way is not None:
            loads.append(_load(place, way, here, tokens, None if compute is None else lambda n: compute(n).compute_seconds))
    if found and any(tier.place == "disk" for tier in found) and links.get("disk") is None:
        notes.append("the disk is taken as one drive on four lanes of PCIe 4.0; name yours with --disk-link")
    again = compute(tokens).seconds if compute is not None else None
    return Tiers(plan, tokens, tuple(loads), again, (*notes, *((BOUNDS,) if loads else ())))


def _how(plan: Plan) -> str:
    name = plan.asked("engine")
    return (
        engines.facts(name).tiers
        or f"{name} has none that is modelled; {', '.join(x for x in engines.ENGINES if engines.facts(x).tiers)} have"
    )


def _load(place: From, way: Link, pools: Sequence[Tier], tokens: int, compute: Callable[[int], float] | None) -> Load:
    """One place's pools over one link."""
    largest = max(pools, key=lambda tier: tier.bytes)
    sharers = 1 if place == "cpu" or largest.shared else largest.ranks

    def n_bytes(prefix: int) -> int:
        return sum(tier.load_bytes(prefix) for tier in pools) * sharers

    piece = max(part.load_bytes for part in largest.parts) * sharers
    pays = None if compute is None else _pays_from(lambda n: way.seconds(n_bytes(n)) <= compute(n), largest.piece_tokens or 1)
    return Load(place, way.name, way.gb_per_s, piece, way.seconds(piece), n_bytes(tokens), way.seconds(n_bytes(tokens)), pays)


def _pays_from(pays: Callable[[int], bool], piece: int) -> int | None:
    """The shortest prefix, in whole pieces, from which on it pays: operations grow faster than bytes, so that there is one."""
    if not pays(round_up(MOST_TOKENS, piece)):
        return None
    return (longest(lambda n: not pays(n * piece), MOST_TOKENS // piece) + 1) * piece
