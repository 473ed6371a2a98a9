"""Start-up logs by what a rule could name: errors, under-predictions and coverage of every kind, for the table of `make accuracy`.

The kinds are of all vLLM logs but the public sweep's, whose one machine flatters a total: those beside the checkout and those of
tests/oracle/rows and tests/threads. Apart are those whose device's total was worked out from what is to be predicted. A log is in several
kinds. A kind is a property of the question, never one log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from typing import NamedTuple

from budget_spreads import Prediction, bound, source
from fit_graphs import quantile

from kvplan.engines.vllm.encoders import tower_of
from kvplan.engines.vllm.kinds import NAMED
from kvplan.engines.vllm.rules import VERSIONS
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.tensors import Same

#: Under-predicted by more than this much of the device counts apart.
UNDER = 0.01

Rule = Callable[[Prediction], bool]


def _settings(p: Prediction) -> VllmSettings:
    from kvplan.engines.vllm.plan import ENGINE

    assert p.case.deployment is not None
    return ENGINE.settle(p.case.deployment).settings


def _since(p: Prediction) -> int:
    return VERSIONS.index(_settings(p).release)


def _link(p: Prediction) -> str | None:
    d = p.case.deployment
    return d.device.link if d is not None and d.device is not None else None


def _vendor(p: Prediction) -> str:
    d = p.case.deployment
    return d.device.vendor if d is not None and d.device is not None else ""


def _bits(p: Prediction) -> str:
    """How the weights are stored: `16` bits, `8`, `packed` by a config that says how, or only `named`."""
    from kvplan.dtypes import WEIGHT_FORMATS
    from kvplan.engines.common.settling import weight_formats

    assert p.case.deployment is not None
    formats = set(weight_formats(p.case.deployment).values())
    if formats & set(NAMED):
        return "named"
    least = min(WEIGHT_FORMATS[name].bits for name in formats)
    return "packed" if least < 8 else str(least) if least < 16 else "16"


def _ranks(p: Prediction) -> int:
    return (p.case.row["tp"] or 1) * (p.case.row["pp"] or 1)


def _experts(p: Prediction) -> bool:
    return any(w.experts for layer in _settings(p).served.layers for w in layer.weights)


def _towers(p: Prediction) -> bool:
    return p.case.deployment is not None and tower_of(p.case.deployment) is not None


#: What a row is called, and what belongs to it.
RULES: tuple[tuple[str, Rule], ...] = (
    ("all", lambda p: True),
    ("V0", lambda p: not _settings(p).rules.v1),
    ("V1 before 0.18", lambda p: _settings(p).rules.v1 and _since(p) < VERSIONS.index("0.18")),
    ("V1 from 0.18 on", lambda p: _settings(p).rules.v1 and _since(p) >= VERSIONS.index("0.18")),
    ("NVIDIA's cards", lambda p: _vendor(p) == "nvidia" and _link(p) in ("pcie", "bridge")),
    ("NVIDIA's modules", lambda p: _vendor(p) == "nvidia" and _link(p) in ("nvls", "nvswitch", "mesh")),
    ("AMD's", lambda p: _vendor(p) == "amd"),
    ("memory shared with the host", lambda p: p.case.noisy),
    ("weights of 16 bits", lambda p: _bits(p) == "16"),
    ("weights of 8 bits", lambda p: _bits(p) == "8"),
    ("packed, the config says how", lambda p: _bits(p) == "packed"),
    ("packed, only named", lambda p: _bits(p) == "named"),
    ("on one GPU", lambda p: _ranks(p) == 1),
    ("several, over the bus", lambda p: _ranks(p) > 1 and _link(p) in ("pcie", "bridge", "none", None)),
    ("several, over NVLink", lambda p: _ranks(p) > 1 and _link(p) in ("nvls", "nvswitch", "mesh")),
    ("mixtures of experts", _experts),
    ("images", _towers),
    ("states, drafts", lambda p: p.kind in ("states", "halved")),
)


def lines(predictions: Sequence[Prediction]) -> list[str]:
    """A row a kind: logs, groups, error of the device, under-predictions, coverage without its own source."""
    mine = [p for p in predictions if p.counts and not p.case.inferred and not p.case.id.startswith("pl-")]
    head = f"{'percent of the device':30s}{'logs':>5s}{'from':>6s}   median / 90th   under by more than 1 %   coverage"
    return [head, *(_line(name, [p for p in mine if rule(p)], predictions) for name, rule in RULES)]


def _line(name: str, mine: Sequence[Prediction], every: Sequence[Prediction]) -> str:
    errors = sorted(100 * abs(p.error or 0) / p.device for p in mine)
    if not errors:
        return f"  {name:28s}{0:5d}"
    under = sum((p.error or 0) / p.device > UNDER for p in mine)
    sources = len({source(p) for p in mine})
    cover = held(mine, every)
    told = f"{cover.percent:.1f} %" if cover.n else "-"
    error = f"{median(errors):9.2f} /{quantile(errors, 0.9):6.2f}"
    return f"  {name:28s}{len(mine):5d}{sources:6d}{error}{f'{under} of {len(mine)}':>19s}{told:>17s}"


class Held(NamedTuple):
    """How many logs are inside the interval that other sources give their kind, of how many that can be said, and the mean half-width of
    those intervals as a share of the device."""

    inside: int
    n: int
    width: float

    @property
    def percent(self) -> float:
        return 100 * self.inside / self.n if self.n else 0.0


def held(mine: Sequence[Prediction], every: Sequence[Prediction]) -> Held:
    """Leave-one-source-out coverage of those whose error counts."""
    reaches = [(p, reach) for p in mine if p.counts and (reach := reach_of(p, every)) is not None]
    width = sum(reach for _, reach in reaches) / len(reaches) if reaches else 0.0
    return Held(sum(p.beyond <= reach for p, reach in reaches), len(reaches), width)


def reach_of(p: Prediction, every: Sequence[Prediction]) -> float | None:
    """The spread that a plan would have without the logs of the same repository, thread or model family, as a share of the device.

    Of a kind with one source, without the log itself.
    """
    others = [o for o in every if o.case.group != p.case.group]
    if any(o.kind == p.kind for o in others):
        return _without(Same(every), p.case.group, p.kind)
    same = [o for o in every if o.kind == p.kind and o.case.id != p.case.id and o.case.group == p.case.group]
    return bound(p.kind, [*others, *same])


@cache
def _without(every: Same[Sequence[Prediction]], group: str, kind: str) -> float | None:
    """The bound of a kind by the logs of all other groups."""
    return bound(kind, [o for o in every.it if o.case.group != group])
