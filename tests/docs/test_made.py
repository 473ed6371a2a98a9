"""Pages, and tables in pages, that tools make of what was kept of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import shared
from tests.oracle import sglang_figures, test_vllm_rows
from tools import accuracy_page, blind_sets, logged_weights, performance_page


def test_the_accuracy_page_is_made_of_what_was_counted() -> None:
    assert accuracy_page.PAGE.read_text(encoding="utf-8") == accuracy_page.page()


def test_the_performance_page_is_made_of_the_last_run() -> None:
    assert performance_page.PAGE.read_text(encoding="utf-8") == performance_page.page()


def test_the_table_of_blind_sets_is_made_of_their_first_answers() -> None:
    page = blind_sets.PAGE.read_text(encoding="utf-8")
    assert page == blind_sets.written(page)


def test_a_set_is_asked_once() -> None:
    with pytest.raises(SystemExit, match="set 5 has been asked"):
        blind_sets.ask(5, "today")


def test_the_table_of_logged_weights_is_made_of_the_logs() -> None:
    shared("data/engine_logs.jsonl")
    page = (Path(__file__).parents[2] / "docs" / "weights.md").read_text(encoding="utf-8")
    assert page == logged_weights.written(page)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ({"error": "a"}, {"error": "b"}, True), ({"error": "a"}, {"out": {"bytes": 1}}, False), ({"bytes": 1}, {"error": "b"}, False),
        ({"bytes": 1, "page": 2}, {"out": {"bytes": 1}}, True), ({"bytes": 2}, {"out": {"bytes": 1}}, False),
    ],
)  # fmt: skip
def test_a_row_agrees_where_both_refuse_or_all_its_figures_do(ours: dict[str, Any], theirs: dict[str, Any], same: bool) -> None:
    assert (not sglang_figures.differing(ours, theirs)) == same
    vllm = [{"refused": row["error"]} if "error" in row else row for row in (ours, theirs)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(test_vllm_rows, "predicted", lambda _: vllm[0])
        assert (not test_vllm_rows.differing(vllm[1])) == same
