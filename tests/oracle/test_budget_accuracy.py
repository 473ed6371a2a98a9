"""The budget against published start-up logs, each predicted from the constants of the other groups."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import accuracy  # noqa: E402
import fit_budget  # noqa: E402
import log_cases  # noqa: E402

pytestmark = pytest.mark.skipif(not log_cases.LOGS.is_file(), reason="needs shared/data/engine_logs.jsonl beside the checkout")


@pytest.fixture(scope="module")
def cases() -> list[log_cases.Case]:
    return log_cases.read_cases()


@pytest.fixture(scope="module")
def predictions(cases: list[log_cases.Case]) -> list[fit_budget.Prediction]:
    return [p for p in fit_budget.leave_one_group_out(cases) if not p.case.noisy]


@pytest.mark.parametrize(("measure", "middle", "tail"), [("of device", 0.7, 2.5), ("of cache", 2.5, 8.0), ("concurrency", 3.0, 8.0)])
def test_errors(predictions: list[fit_budget.Prediction], measure: str, middle: float, tail: float) -> None:
    errors = sorted(v for p in predictions if (v := accuracy.MEASURES[measure](p)) is not None)
    assert len(errors) > 30
    assert median(errors) <= middle
    assert fit_budget.quantile(errors, 0.9) <= tail


def test_coverage(predictions: list[fit_budget.Prediction]) -> None:
    inside, width, _ = accuracy.covered(predictions)
    assert 85 <= inside <= 97
    assert width < 6


def test_no_refusal_is_called_a_start(predictions: list[fit_budget.Prediction]) -> None:
    refused = [p for p in predictions if p.refused]
    assert refused
    assert not [p.case.id for p in refused if p.starts]
    assert not [p.case.id for p in predictions if p.starts is False and not p.refused]


def test_the_packaged_file_is_what_the_fit_writes(cases: list[log_cases.Case]) -> None:
    constants, found = fit_budget.build(cases)
    assert fit_budget.FILE.read_text(encoding="utf-8") == fit_budget.dump(constants)
    assert fit_budget.RESIDUALS.read_text(encoding="utf-8") == fit_budget.dump_residuals(found, cases)


def test_few_constants_each_from_several_groups_or_said_so(cases: list[log_cases.Case]) -> None:
    constants = fit_budget.fit(cases)
    assert len({c.name for c in constants.values}) <= 10
    assert all(c.low <= c.value <= c.high for c in constants.values)


def test_conformal_bound() -> None:
    errors = [float(n) for n in range(1, 20)]
    assert fit_budget.conformal(errors) == 18.0  # the ceil(20 x 0.9) = 18th of 19
    assert fit_budget.conformal([1.0, 2.0]) == 2.0
