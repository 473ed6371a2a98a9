"""Fits the constants of vLLM's budget to published start-up logs and writes kvplan/calibration/vllm.yaml.

python tools/fit_budget.py            fits, prints constants and residuals, writes the file
python tools/fit_budget.py --check    fits and compares with the file; exit code 1 where they differ

The logs are those beside the checkout and those kept in the repository (own_logs.py).

Each constant is the median over groups of the group's median, so that one repository with many logs counts once. A group is a
repository, or a model family of the public sweep. Shapes give every other quantity (engines/vllm/profile.py, loaded.py). Intervals come
from leave-one-group-out predictions (budget_spreads.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from budget_files import dump, dump_residuals
from budget_spreads import KINDS, Prediction, beyond, spreads
from budget_terms import TERMS, Fact, facts
from fit_graphs import Captured, quantile, through
from log_cases import Case, read_cases
from own_logs import read_own

from kvplan.constants import Constant, Constants, Spread
from kvplan.devices import Device
from kvplan.engines.common import drivers
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.vllm import budget as model_budget
from kvplan.engines.vllm import kinds, outside
from kvplan.engines.vllm.captures import captured, graph_counts
from kvplan.engines.vllm.flashinfer import workspace
from kvplan.engines.vllm.layers import stages
from kvplan.engines.vllm.plan import ENGINE
from kvplan.engines.vllm.profile import Profile, profile
from kvplan.engines.vllm.rules import MEASURED_FROM, VERSIONS
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.startup_logs.fitting import COVERAGE, FEW, constant_of
from kvplan.tensors import Lowered, Same
from kvplan.units import GIB

FOLDER = Path(__file__).parents[1] / "kvplan" / "calibration"
FILE, RESIDUALS = FOLDER / "vllm.yaml", FOLDER / "vllm.residuals.yaml"
ENOUGH_SIZES = 16
#: What is outside torch by make of device, of which few logs say it.
BY_DEVICE = ("outside_torch_rocm", "outside_torch_intel", "outside_torch_unified")
#: A start whose graph took longer than this compiled it; a shorter one found most of it kept.
COMPILED_S = 10.0


class Sizes(NamedTuple):
    """A case as the budget sees it, with what its log says of each line (GiB; None where it does not)."""

    case: Case
    settings: VllmSettings
    profile: Profile  # of the stage whose activation the log has: the first under one stage, else the last
    layers: int
    activation: float | None
    outside: float | None
    graphs: float | None
    left: float | None = None  # requested - weights - graphs - cache, where they were logged: activations and what is outside torch


def sizes_of(case: Case) -> Sizes | None:
    """None where vLLM would not take the question. Read once: each group of logs is left out in turn."""
    return _sizes(Same(case))


@cache
def _sizes(same: Same[Case]) -> Sizes | None:
    case = same.it
    if case.deployment is None:
        return None
    try:
        settled = ENGINE.settle(case.deployment)
        s, model = settled.settings, settled.settings.served
    except KvplanError:
        return None
    d, found = settled.question, stages(model, s)
    stage = _logged_stage(case, model, found)
    logged = case.row["logged"]
    p = profile(d, model, stage, s, weight_formats(d))
    activation, outside = logged["activation_peak_gib"], logged["non_torch_gib"]
    if outside is None and d.device and activation and logged["weights_gib"] and s.pp == 1:
        requested = d.device.memory_bytes * (d.memory_fraction or 0) / GIB
        outside = max(requested - logged["weights_gib"] - activation - logged["kv_cache_gib"], 0.0)
    left, charged = None, logged["cuda_graph_gib"] if s.charges_graphs and s.graphs else 0.0
    if d.device and logged["weights_gib"] and logged["kv_cache_gib"] is not None and s.pp == 1 and charged is not None:
        left = d.device.memory_bytes * (d.memory_fraction or 0) / GIB - logged["weights_gib"] - logged["kv_cache_gib"] - charged
    if s.charges_graphs:
        activation = None  # that release's figure holds the graphs too
    return Sizes(case, s, p, len(stage), activation, outside, logged["cuda_graph_gib"], left)


def _logged_stage(case: Case, model: Lowered, found: Sequence[range]) -> range:
    last = "last rank's" in str(case.row["note"])
    return found[-1] if last else found[0]


def usable(case: Case) -> bool:
    """A and B rows of vLLM whose figures add up, on devices that are not shared with the host."""
    return case.row["engine"] == "vllm" and case.row["quality"] in ("A", "B") and case.row.get("budget_ok") is not False


def fit(cases: Sequence[Case], without: str = "") -> Constants:
    """The constants from these cases and the facts of all groups but `without`."""
    known = [fact for fact in facts() if fact.group != without]
    both = [sizes for case in cases if usable(case) and (sizes := sizes_of(case))]
    found, shared = [x for x in both if not x.case.noisy], [x for x in both if x.case.noisy and x.settings.tp * x.settings.pp == 1]
    values: list[Constant] = []
    for name in ("sampler_bytes", "hidden_copies"):
        values += _by_release(name, found, lambda x, n=name: _activation_constant(x, n))
    shapes = Constants("packaged", "vllm", "", tuple(_complete(values)))
    for name in (name for name in TERMS if name.startswith("outside")):
        logs = shared if name == "outside_torch_unified" else found
        values += _by_release(name, logs, lambda x, n=name: _outside(x, n, shapes), known)
    rocm = [x for x in found if (device := _device(x)) and device.vendor == "amd"]
    values += _graphs([x for x in found if x not in rocm])
    values += _by_release("graph_rocm_bytes", rocm, lambda x: x.graphs and x.graphs * GIB / captured(x.settings))
    return Constants("packaged", "vllm", "kvplan/calibration/vllm.yaml", tuple(_complete(values)))


def _by_release(name: str, found: Sequence[Sizes], measure: Callable[[Sizes], float | None], known: Sequence[Fact] = ()) -> list[Constant]:
    changes = TERMS[name][0]
    made = []
    for i, since in enumerate(changes):
        until = changes[i + 1] if i + 1 < len(changes) else None
        values = [Fact(name, x.settings.release, value, x.case.group) for x in found if (value := measure(x)) is not None]
        groups: dict[str, list[float]] = {}
        for fact in [*values, *(fact for fact in known if fact.constant == name)]:
            at = VERSIONS.index(fact.release)
            if at >= VERSIONS.index(since) and not (until and at >= VERSIONS.index(until)):
                groups.setdefault(fact.group, []).append(fact.value)
        if groups:
            made.append(_constant(name, since, groups))
    return made


def _constant(name: str, since: str, groups: dict[str, list[float]]) -> Constant:
    if len(groups) < FEW:
        return constant_of(name, since, groups)
    every = sorted(v for values in groups.values() for v in values)
    centre = median(median(values) for values in groups.values())
    low, high = max(quantile(every, (1 - COVERAGE) / 2), 0.0), quantile(every, (1 + COVERAGE) / 2)
    return Constant(name, since, centre, min(low, centre), max(high, centre), len(every), groups=len(groups))


def _activation_constant(x: Sizes, name: str) -> float | None:
    """What the constant must have been for the logged peak, where its term is clearly the larger one and no tower is in the way."""
    p = x.profile
    if x.activation is None or p.tower_bytes > 0.8 * x.activation * GIB:
        return None
    left = x.activation * GIB - p.handed_bytes - p.encoder_bytes - model_budget.WORKSPACE_BYTES
    typical = 13.0 if VERSIONS.index(x.settings.release) >= VERSIONS.index("0.17") else 36.0
    sampler, layers = model_budget.sampler_peak(p, typical), model_budget.layers_peak(p, 4)
    if p.compiled_bytes > 0.8 * max(sampler, layers):
        return None
    if name == "sampler_bytes":
        if not p.logits or p.sampled_bytes is not None or sampler < 1.2 * layers:
            return None
        return (left - p.hidden_bytes - p.rows_bytes) / p.logits - p.value_bytes
    if layers < 1.2 * sampler or p.hidden_bytes < GIB // 64:
        return None
    copies = (left - p.width_bytes - p.reduced_bytes) / p.hidden_bytes
    return copies if copies > 0 else None  # less than its widest sublayer: the batch tokens were not the default that was not logged


def _device(x: Sizes) -> Device | None:
    return x.case.deployment.device if x.case.deployment else None


def _outside(x: Sizes, name: str, shapes: Constants) -> float | None:
    """As logged; of AMD's and Intel's cards and of shared memory, whose logs rarely say it, what weights, cache and the rest leave.

    Of AMD's once all is compiled.
    """
    if outside.outside_torch(x.settings, _device(x)) != name:
        return None
    if x.outside is not None:
        return x.outside * GIB
    if x.left is None or name not in BY_DEVICE:
        return None
    if name == "outside_torch_rocm" and (x.case.row["logged"].get("compile_s") or 0) > COMPILED_S:
        return None
    at = (shapes.at(n, VERSIONS, x.settings.release).value for n in ("sampler_bytes", "hidden_copies"))
    return max(x.left * GIB - model_budget.peak(x.profile, *at), 0.0)


def _graphs(found: Sequence[Sizes]) -> list[Constant]:
    """Bytes of a graph of a whole step, and of a size in pieces and layer, of each era: least absolute deviations over all groups alike.

    From logs with enough sizes that what the first of them costs does not show.
    """
    eras, points = TERMS["graph_bytes"][0], dict[str, list[Captured]]()
    for x in found:
        at = VERSIONS.index(x.settings.graphs_as)
        since = [era for era in eras if VERSIONS.index(era) <= at][-1]
        asked = x.case.deployment
        odd = asked is None or asked.device is None or drivers.branch(asked) is not None or workspace(asked, x.settings) > 0
        if x.graphs is not None and x.graphs > 0 and captured(x.settings) >= ENOUGH_SIZES and not odd:
            whole, pieces = graph_counts(x.settings, x.settings.captures.mode)
            points.setdefault(since, []).append(Captured(whole, pieces * x.layers, x.graphs * GIB, x.case.group))
    return [made for since, mine in points.items() if len({p.group for p in mine}) > 1 for made in through(since, mine)]


def _complete(values: list[Constant]) -> Iterable[Constant]:
    """Every term from the first release on: where it has no case it takes a similar term's of those releases, else its nearest own."""
    similar = {
        "outside_torch_nccl": "outside_torch_switch",
        "outside_torch_links": "outside_torch_switch",
        **dict.fromkeys(("outside_torch_switch", *BY_DEVICE), "outside_torch"),
    }
    first = MEASURED_FROM
    for name in TERMS:
        mine = sorted((c for c in values if c.name == name), key=lambda c: VERSIONS.index(c.since))
        if not mine and name in similar:
            mine = [c._replace(name=name, cases=0, groups=0) for c in values if c.name == similar[name]][:1]
        if not mine:
            mine = [Constant(name, first, 0.0, 0.0, 0.0, 0, groups=0)]
        if mine[0].since != first:
            then = [c for c in values if c.name == similar.get(name) and c.since == first]
            mine.insert(0, (then or mine)[0]._replace(name=name, since=first, cases=0, groups=0))
        yield from mine


def predict(case: Case, constants: Constants) -> Prediction | None:
    """The plan's cache for a case; None where it can not be asked, or is refused before its budget is made."""
    if case.deployment is None or case.deployment.device is None:
        return None
    try:
        plan = evaluate(replace(case.deployment, constants=constants))
    except KvplanError:
        return None
    kind = "plain"
    if case.row["engine"] == "vllm":
        s = ENGINE.settle(case.deployment).settings
        model = s.served
        kind = kinds.kind_of(case.deployment, model, s)
    capacity, logged = plan.capacity, case.logged_bytes
    if case.row["engine"] == "vllm" and not any(entry.kind == "activations" for ledger in plan.ledgers for entry in ledger.entries):
        return None
    limit = min((ledger.limit_bytes - _others(ledger) for ledger in plan.ledgers if ledger.limit_bytes is not None), default=0)
    predicted = capacity.kv_bytes if capacity and capacity.kv_bytes else limit
    return Prediction(
        case,
        kind,
        predicted,
        logged,
        case.deployment.device.memory_bytes,
        capacity.max_concurrency if capacity else None,
        plan.starts,
        beyond(case.deployment, constants, predicted, logged) if case.row["engine"] == "vllm" and logged is not None else 0.0,
    )


def _others(ledger: Any) -> int:
    return sum(entry.bytes for entry in ledger.entries if entry.kind != "cache")


def leave_one_group_out(cases: Sequence[Case]) -> list[Prediction]:
    """Every vLLM case predicted from the constants of the other groups."""
    asked = [case for case in cases if usable(case) and case.deployment]
    wide = tuple(Spread(kind, 0.1, 0.1, 0) for kind in KINDS)
    made = []
    for group in dict.fromkeys(case.group for case in asked):
        constants = fit([case for case in cases if case.group != group], group)._replace(spreads=wide)
        made += [p for case in asked if case.group == group and (p := predict(case, constants))]
    return made


def build(cases: Sequence[Case]) -> tuple[Constants, list[Prediction]]:
    """Constants with their spreads, and the leave-one-group-out predictions behind these."""
    predictions = leave_one_group_out(cases)
    return fit(cases)._replace(spreads=spreads(predictions)), predictions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args()
    cases = [*read_cases(), *read_own()]
    constants, predictions = build(cases)
    texts = {FILE: dump(constants), RESIDUALS: dump_residuals(predictions, cases)}
    for c in constants.values:
        print(f"{c.name:22s} {c.since:5s} {c.value:14.6g}  [{c.low:.6g}, {c.high:.6g}]  {c.cases} cases, {TERMS[c.name][2]}")
    for s in constants.spreads:
        print(f"spread {s.kind:10s} -{100 * s.low:.2f} % .. +{100 * s.high:.2f} % of device memory, {s.cases} cases")
    if arguments.check:
        return 0 if all(path.read_text(encoding="utf-8") == text for path, text in texts.items()) else 1
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
