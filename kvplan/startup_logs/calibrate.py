"""A user's own constants: what the start-up logs of their machines say, beside what the packaged ones say, kept where asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.constants import Constant, Fitted, Record
from kvplan.deployment import Deployment
from kvplan.errors import SpecError
from kvplan.planner.plan import Plan
from kvplan.startup_logs.fitting import FEW, Case, Solved, constant_of, line_bytes, merged, solve
from kvplan.startup_logs.measured import own_targets, targets
from kvplan.startup_logs.read import LoggedStart
from kvplan.units import show_bytes

MAX_FILES = 10_000
SAME_WEIGHTS = 1.25


class Start(NamedTuple):
    """One start as it was asked again: the log's own words, the question with packaged constants, its plan, and its record."""

    source: str
    logged: LoggedStart
    deployment: Deployment
    plan: Plan
    record: Record | None


class Row(NamedTuple):
    """One constant of one engine on one device: as published and as these logs have it; `note` where that is outside what is published."""

    engine: str
    device: str
    name: str
    since: str
    published: float
    value: float
    low: float
    high: float
    cases: int
    note: str | None


class Residual(NamedTuple):
    """One logged line beside the published constants, the fitted ones, and those of the other logs (None: there is no other)."""

    source: str
    line: str
    logged: int
    published: int
    fitted: int
    left_out: int | None


class Calibration(NamedTuple):
    """What logs say. `skipped`: logs that could not be used and why; `path`: the file, `recorded`: whether it was written."""

    constants: tuple[Row, ...]
    residuals: tuple[Residual, ...]
    records: tuple[Record, ...]
    skipped: tuple[tuple[str, str], ...]
    path: str
    recorded: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "constants": [row._asdict() for row in self.constants],
            "residuals": [row._asdict() for row in self.residuals],
            "records": [{**record._asdict(), "lines": dict(record.lines)} for record in self.records],
            "skipped": [{"log": log, "why": why} for log, why in self.skipped],
            "path": self.path,
            "recorded": self.recorded,
        }


def log_files(places: Sequence[Path]) -> Iterator[Path]:
    """The files named, and those in the folders named, hidden ones aside, in order. At most MAX_FILES."""
    left = MAX_FILES
    for place in places:
        inside = os.path.isdir(place)
        found = sorted(p for p in place.rglob("*") if os.path.isfile(p)) if inside else [place]
        for path in found:
            if inside and any(part.startswith(".") for part in path.relative_to(place).parts):
                continue
            if left == 0:
                return
            left -= 1
            yield path


def check_model(start: LoggedStart, plan: Plan, source: str) -> None:
    """Raises SpecError where the logged weights are not those of the plan's model: constants fitted to another model mean nothing."""
    for target in targets(start, plan):
        planned = sum(e.bytes for e in target.predicted(plan.ledgers[0].entries))
        if target.line == "weights" and not planned / SAME_WEIGHTS <= target.n_bytes <= planned * SAME_WEIGHTS:
            said = f"{show_bytes(target.n_bytes)} of weights are logged, {plan.model.id} has {show_bytes(planned)}"
            raise SpecError(source, [("model", f"{said}: name the model with --model, or its format with --weight-dtype")])


def fit_own(starts: Sequence[Start]) -> tuple[list[Row], list[Residual], list[Fitted]]:
    """The constants these starts determine, one set per engine and device, how far each line is off, and what a file would keep."""
    rows: list[Row] = []
    residuals: list[Residual] = []
    fitted: list[Fitted] = []
    for (engine, device), mine in _by_machine(starts).items():
        solved = [s for case in mine for s in solve(case)]
        found = _constants(solved)
        rows += [_row(engine, device, s, c) for s, c in found]
        fitted += [Fitted(engine, device, c) for _, c in found]
        for case in mine:
            residuals += _residuals(case, solved, [c for _, c in found])
    return rows, residuals, fitted


def _by_machine(starts: Sequence[Start]) -> dict[tuple[str, str], list[Case]]:
    machines: dict[tuple[str, str], list[Case]] = {}
    for n, start in enumerate(starts):
        d = start.deployment
        case = Case(start.source, f"{start.source} {n}", d, tuple(own_targets(start.logged, start.plan)))
        machines.setdefault((start.logged.engine, d.device.id if d.device else ""), []).append(case)
    return machines


def _constants(solved: Sequence[Solved]) -> list[tuple[Constant, Constant]]:
    """The published constants that were solved for, each with the one these cases give."""
    by_constant: dict[Constant, list[Solved]] = {}
    for s in solved:
        by_constant.setdefault(s.constant, []).append(s)
    made = []
    for old, mine in by_constant.items():
        groups: dict[str, list[float]] = {}
        for s in mine:
            groups.setdefault(s.case.group, []).append(s.value)
        new = constant_of(old.name, old.since, groups)
        if len(groups) < FEW and old.value:  # as sure as the published one at least: its width about the measured value
            new = new._replace(
                low=max(new.low, new.value * min(old.low / old.value, 1)), high=min(new.high, new.value * max(old.high / old.value, 1))
            )
        sources = sorted({s.case.source for s in mine})
        said = f"logs of yours: {', '.join(sources[:3])}{' and more' if len(sources) > 3 else ''}"
        made.append((old, new._replace(source=said[:900], low=min(new.low, new.value), high=max(new.high, new.value))))
    return made


def _row(engine: str, device: str, old: Constant, new: Constant) -> Row:
    inside = old.low <= new.value <= old.high
    note = None if inside else "outside the published interval: another engine build, or flags that the log does not say"
    return Row(engine, device, old.name, old.since, old.value, new.value, new.low, new.high, new.cases, note)


def _residuals(case: Case, solved: Sequence[Solved], fitted: Sequence[Constant]) -> list[Residual]:
    d = case.deployment
    rows = []
    for target in case.targets:
        moved = [s for s in solved if s.case is case and s.target is target]
        others: dict[str, list[float]] = {}
        for s in solved:
            if moved and s.constant == moved[0].constant and s.case.group != case.group:
                others.setdefault(s.case.group, []).append(s.value)
        alone = constant_of(moved[0].constant.name, moved[0].constant.since, others) if others else None
        rows.append(
            Residual(
                case.source,
                target.line,
                target.n_bytes,
                line_bytes(d, target) or 0,
                line_bytes(_under(d, fitted), target) or 0,
                None if alone is None else line_bytes(_under(d, [alone]), target),
            )
        )
    return rows


def _under(d: Deployment, constants: Sequence[Constant]) -> Deployment:
    return replace(d, constants=merged(d.constants, constants) if d.constants else None)
