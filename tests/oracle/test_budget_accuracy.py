"""The budget against published start-up logs, each predicted from the constants of the other groups."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import accuracy  # noqa: E402
import accuracy_kinds  # noqa: E402
import budget_spreads  # noqa: E402
import engine_arithmetic  # noqa: E402
import fit_budget  # noqa: E402
import fit_graphs  # noqa: E402
import log_cases  # noqa: E402
import own_logs  # noqa: E402

from kvplan.constants import Constants  # noqa: E402

pytestmark = pytest.mark.skipif(not log_cases.LOGS.is_file(), reason="needs shared/data/engine_logs.jsonl beside the checkout")


@pytest.fixture(scope="module")
def cases() -> list[log_cases.Case]:
    return log_cases.read_cases()


@pytest.fixture(scope="module")
def own() -> list[log_cases.Case]:
    return own_logs.read_own()


@pytest.fixture(scope="module")
def built(cases: list[log_cases.Case], own: list[log_cases.Case]) -> tuple[Constants, list[budget_spreads.Prediction]]:
    return fit_budget.build([*cases, *own])


@pytest.fixture(scope="module")
def everything(built: tuple[Constants, list[budget_spreads.Prediction]]) -> list[budget_spreads.Prediction]:
    """Of both sets of logs."""
    return built[1]


@pytest.fixture(scope="module")
def predictions(cases: list[log_cases.Case], everything: list[budget_spreads.Prediction]) -> list[budget_spreads.Prediction]:
    """Of the rows that the targets are about."""
    beside = {case.id for case in cases}
    return [p for p in everything if p.case.id in beside and accuracy.counted(p.case)]


@pytest.mark.parametrize(("measure", "middle", "tail"), [(name, *limits) for name, limits in accuracy.TARGETS.items()])
def test_errors(predictions: list[budget_spreads.Prediction], measure: str, middle: float, tail: float) -> None:
    errors = sorted(v for p in predictions if (v := accuracy.MEASURES[measure](p)) is not None)
    assert len(errors) > 30
    assert median(errors) <= middle
    assert fit_graphs.quantile(errors, 0.9) <= tail


def test_coverage(predictions: list[budget_spreads.Prediction], everything: list[budget_spreads.Prediction]) -> None:
    found = accuracy_kinds.held(predictions, everything)
    assert found.n >= 35
    assert found.percent >= 85  # all 39: other sources of their kinds are further off than these
    assert found.width < 0.045


def test_every_kind_of_ten_logs_or_more_is_held_without_its_own_source(everything: list[budget_spreads.Prediction]) -> None:
    kinds = {kind: [p for p in everything if p.kind == kind and p.counts] for kind in budget_spreads.KINDS}
    many = {kind: mine for kind, mine in kinds.items() if len(mine) >= 10}
    assert set(many) >= {"module", "plain", "hard", "named", "rocm"}
    for kind, mine in many.items():
        inside, n, _ = accuracy_kinds.held(mine, everything)
        assert n == len(mine)
        assert 0.87 * n <= inside, kind
        assert inside <= 0.95 * n + 1 or kind == "rocm", kind  # to one log; as wide as first starts on gfx12 are apart from later ones


#: Kinds of ten logs or more that a rule could name and that their logs' own intervals do not hold in 87 to 95 % (and one log).
#: AMD's, 55 of 56: cards before 0.13 are as wide as first starts on gfx12 are apart from later ones.
OUTSIDE = {"AMD's"}


def test_every_kind_that_a_rule_could_name_is_held_but_those_that_are_known(everything: list[budget_spreads.Prediction]) -> None:
    mine = [p for p in everything if p.counts and not p.case.inferred and not p.case.id.startswith("pl-")]
    outside = set()
    for name, rule in accuracy_kinds.RULES:
        logs = [p for p in mine if rule(p)]
        inside, n, _ = accuracy_kinds.held(logs, everything)
        if n >= 10 and not 0.87 * n <= inside <= 0.95 * n + 1:
            outside.add(name)
    assert outside == OUTSIDE


def test_a_kind_of_few_sources_is_as_uncertain_as_the_hard_ones(everything: list[budget_spreads.Prediction]) -> None:
    """One AMD log alone says nothing: its own error is not its kind's interval."""
    found = next(p for p in everything if p.case.id == "ob-gemma3-4b-mi300x")
    older = [p for p in everything if p.kind == "older"]
    alone = budget_spreads.bound("rocm", [found, *older])
    assert abs(found.error or found.device) / found.device < 0.01
    assert alone is not None
    assert alone >= sorted(p.beyond for p in older if p.counts)[-6]  # that of the two kinds together
    assert budget_spreads.bound("module", [found]) is None


def test_logs_of_the_repository_are_within_what_they_were_when_kept(everything: list[budget_spreads.Prediction]) -> None:
    """No worse than 0.75 / 6 % of the device (0.60 / 5.08 of 442 logs on 2026-11-23, 0.71 / 5.80 of 626 on 2026-11-29), a quarter
    under-predicted by over 1 %."""
    errors = sorted(v for p in everything if not p.case.id.startswith("pl-") and (v := accuracy.of_device(p)) is not None)
    assert len(errors) >= 95
    assert median(errors) <= 0.75
    assert fit_graphs.quantile(errors, 0.9) <= 6
    under = [p for p in everything if p.error is not None and not p.refused and p.error / p.device > accuracy_kinds.UNDER]
    assert len(under) <= len(errors) / 4


def test_intervals_are_narrow_where_logs_are_many_and_wide_where_they_are_few(
    built: tuple[Constants, list[budget_spreads.Prediction]],
) -> None:
    found = {spread.kind: spread for spread in built[0].spreads}
    assert found["plain"].high < 0.025
    assert found["apart"].high > found["plain"].high  # five starts of two sources
    # A recipe that is only named is in the lines of the weights: their kinds need no more for it.
    assert found["halved"].high < 0.04
    assert found["named"].high < 0.04


def test_every_row_whose_device_is_identified_is_predicted_or_says_why(
    cases: list[log_cases.Case], everything: list[budget_spreads.Prediction]
) -> None:
    identified = [c for c in cases if fit_budget.usable(c) and (c.row["gpu"] or c.row["gpu_total_gib_logged"])]
    done = {p.case.id for p in everything}
    missing = {c.id: c.skipped or accuracy.unasked(c) for c in identified if c.id not in done}
    assert len(done) >= 45
    assert all("drafter" in why or "unknown model" in why for why in missing.values()), missing


def test_the_engines_arithmetic_is_within_the_rounding_of_every_explained_row(cases: list[log_cases.Case]) -> None:
    compared = engine_arithmetic.compare(cases)
    assert len(compared) >= 45
    outside = {c.case.id: c.outside for c in compared if c.outside and c.explained_by is None}
    assert not outside
    assert sum(1 for c in compared if c.outside) <= 2  # excerpts that leave something out


def test_a_release_that_is_not_logged_is_read_from_the_date_or_the_wording() -> None:
    row = {
        "engine": "vllm", "engine_version": None, "source": "someone/logs:boot.log, 2026-05-07", "max_model_len": 1000,
        "logged": {"kv_tokens": 12345, "max_concurrency": 12.35}, "attention_kind": "SWA/chunked hybrid",
    }  # fmt: skip
    assert log_cases._release(row) == "0.21"  # tokens = concurrency x length
    assert log_cases._release({**row, "logged": {"kv_tokens": 5000, "max_concurrency": 12.35}}) == "0.20"
    assert log_cases._release({**row, "engine_version": "0.19.2rc1.dev134+gfe9c"}) == "0.20"  # it logs 0.20's states


def test_no_refusal_is_called_a_start(predictions: list[budget_spreads.Prediction]) -> None:
    refused = [p for p in predictions if p.refused]
    assert refused
    assert not [p.case.id for p in refused if p.starts]
    assert not [p.case.id for p in predictions if p.starts is False and not p.refused]


def test_the_packaged_file_is_what_the_fit_writes(
    cases: list[log_cases.Case], own: list[log_cases.Case], built: tuple[Constants, list[budget_spreads.Prediction]]
) -> None:
    constants, found = built
    assert fit_budget.FILE.read_text(encoding="utf-8") == fit_budget.dump(constants)
    assert fit_budget.RESIDUALS.read_text(encoding="utf-8") == fit_budget.dump_residuals(found, [*cases, *own])


def test_few_constants_each_from_several_groups_or_said_so(built: tuple[Constants, list[budget_spreads.Prediction]]) -> None:
    constants = built[0]
    assert len({c.name for c in constants.values}) <= 12
    assert all(c.low <= c.value <= c.high for c in constants.values)


def test_conformal_bound() -> None:
    errors = [float(n) for n in range(1, 20)]
    assert budget_spreads.conformal(errors) == 18.0  # the ceil(20 x 0.9) = 18th of 19
    assert budget_spreads.conformal([1.0, 2.0]) == pytest.approx(2.0 * (2 - 2 / 9))  # nine errors are the fewest that bear 90 %


def test_the_table_on_the_page_is_what_the_logs_give(cases: list[log_cases.Case], everything: list[budget_spreads.Prediction]) -> None:
    page = (ROOT / "docs" / "budget.md").read_text(encoding="utf-8")
    beside = {case.id for case in cases}
    found = accuracy.table(cases, [p for p in everything if p.case.id in beside], [p for p in everything if p.case.id not in beside])
    kinds = *((kind, None) for kind in budget_spreads.KINDS), *accuracy_kinds.RULES
    alone = ("  public sweep", "  vLLM", *(f"  {kind} " for kind, _ in kinds))
    alone += ("engine arithmetic",)
    shown = [row.rstrip() for row in found if row.startswith(alone)]  # the other rows hold other engines' logs too
    assert len(shown) >= 25
    assert [row for row in shown if row not in page.splitlines()] == []
