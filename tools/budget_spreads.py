"""How far the cache of a kind of deployment is off beyond what its lines say: the spreads of kvplan/calibration/vllm.yaml.

A plan's interval is the wider of what its lines say (a recipe that is only named, a graph that was compiled before) and the spread of its
kind. What a spread has to hold is therefore not the error of a start but what of it the lines do not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from log_cases import Case

from kvplan.constants import Constants, Spread
from kvplan.deployment import Deployment
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.vllm import budget
from kvplan.engines.vllm.layers import stages
from kvplan.engines.vllm.plan import ENGINE
from kvplan.engines.vllm.profile import profile
from kvplan.engines.vllm.wordings import Refused
from kvplan.startup_logs.fitting import COVERAGE, FEW, conformal

#: Kinds of deployments that get an interval of their own (engines/vllm/kinds.py kind_of).
KINDS = (
    "module", "plain", "hard", "boards", "named", "older", "states", "halved", "linked", "compressed", "instinct", "rocm", "unified",
    "apart",
)  # fmt: skip
#: Kinds whose intervals rest on themselves however few their sources are; sources up to which those of the others do not.
EASY, LITTLE = ("module", "plain"), FEW - 1
ENOUGH = 9  # sources that bear 90 %


class Prediction(NamedTuple):
    """A case predicted without its group. Bytes per rank; `error` predicted - logged.

    beyond  what its kind's spread must be, as a share of the device, for the plan's interval to hold what was logged: 0 where its lines do
    """

    case: Case
    kind: str
    predicted: int
    logged: int | None
    device: int
    concurrency: float | None
    starts: bool | None
    beyond: float = 0.0

    @property
    def error(self) -> int | None:
        return None if self.logged is None else self.predicted - self.logged

    @property
    def refused(self) -> bool:
        """The engine did not start."""
        return "DOES NOT START" in str(self.case.row["note"]) or self.case.row["logged"]["kv_cache_gib"] == 0

    @property
    def counts(self) -> bool:
        """Its error says something of its kind."""
        return self.error is not None and not self.refused


def beyond(d: Deployment, constants: Constants, predicted: int, logged: int) -> float:
    """What the spread must be for the interval of the cache of a rank (bytes) to hold what was logged, as a share of the device."""
    assert d.device is not None
    narrow = constants._replace(spreads=tuple(Spread(kind, 0.0, 0.0, 0) for kind in KINDS))
    settled = ENGINE.settle(replace(d, constants=narrow))
    total, d, s = d.device.memory_bytes, settled.question, settled.settings
    try:
        found = [(stage, budget.stage_budget(d, s.served, stage, s)) for stage in stages(s.served, s)]
    except Refused:
        return abs(predicted - logged) / total
    stage, least = min(found, key=lambda one: one[1].available)
    if logged < min(b.low for _, b in found):
        return (predicted - logged) / total
    if logged <= least.high:
        return 0.0
    kept = budget.kept_graph(profile(d, s.served, stage, s, weight_formats(d)), s, constants)
    return max(logged - predicted - kept, 0) / total


def source(p: Prediction) -> str:
    """Where a log is from, as intervals count it: the public sweep is one machine, whatever the model."""
    return p.case.group.partition("/")[0] if p.case.id.startswith("pl-") else p.case.group


def bound(kind: str, known: Sequence[Prediction]) -> float | None:
    """How far beyond its lines such a deployment is off in 90 % of cases, as a share of the device, by what is known of its kind.

    A kind of fewer than nine sources is no surer than plain deployments. One known from fewer than five is held at least as uncertain as a
    source of those that are harder than plain ones is at its worst. `module` and `plain` are easier, and each line of most of their logs is
    known. None where nothing is known.
    """
    mine = [p for p in known if p.kind == kind and p.counts]
    sources = len({source(p) for p in mine})
    own = by_source(mine) if mine else None
    if kind in EASY:
        return own
    if own is not None and sources < ENOUGH:
        own = max(own, bound("plain", known) or 0.0)
    if sources <= LITTLE:
        harder = [p for p in known if p.kind not in EASY and p.counts]
        worst = [max(p.beyond for p in harder if source(p) == at) for at in {source(p) for p in harder}]
        own = max(own or 0.0, conformal(worst)) if harder else own
    return own


def by_source(predictions: Sequence[Prediction]) -> float:
    """The bound that a log of the next source keeps in 90 % of cases: conformal prediction with the source as what is drawn.

    Errors of one source are alike, so that a start of one that is not among them is what a question is. Each weighs as one, shared by
    its logs: the smallest error below which 90 % of the sources and one more lie. Of fewer than nine it is the largest, wider by the share
    of them that is missing.
    """
    sources: dict[str, list[float]] = {}
    for p in predictions:
        sources.setdefault(source(p), []).append(p.beyond)
    worst, wanted, reached = max(p.beyond for p in predictions), COVERAGE * (len(sources) + 1) - 1e-9, 0.0
    if len(sources) < ENOUGH:
        return worst * (2 - len(sources) / ENOUGH)
    for share, weight in sorted((share, 1 / len(mine)) for mine in sources.values() for share in mine):
        reached += weight
        if reached >= wanted:
            return share
    return worst


def spreads(predictions: Sequence[Prediction]) -> tuple[Spread, ...]:
    """Per kind, how far the cache is below (low) and above (high) the prediction in 90 % of cases, as shares of device memory.

    Both sides take the same bound, since the two tails hold too few cases apart.
    """
    made = []
    for kind in KINDS:
        reach = bound(kind, predictions) or 0.0
        made.append(Spread(kind, reach, reach, sum(p.kind == kind and p.counts for p in predictions)))
    return (*made, Spread("measured", 0.002, 0.002, 0))
