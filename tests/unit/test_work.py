"""How much is done for an answer: counted, not timed, so that a slow machine changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.engines.llama_cpp import situation
from kvplan.planner import evaluate as planner
from kvplan.units import longest


@pytest.fixture
def answers(monkeypatch) -> list[bool]:
    """Whether each answer that an engine was asked for had limits in it."""
    asked: list[bool] = []
    own = planner._answered

    def counted(d: Any, limits: bool, *more: bool) -> Any:
        asked.append(limits)
        return own(d, limits, *more)

    monkeypatch.setattr(planner, "_answered", counted)
    return asked


def test_a_vllm_question_that_fits_is_answered_three_times(answers):
    """Itself, and the longest context and one token more: nothing of vLLM follows the batch."""
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", device="h100-80gb", context="8k", advise=False)
    assert plan.fits
    assert answers == [True, False, False]


def test_the_batch_that_is_not_asked_again_holds_all_the_same():
    question: dict[str, Any] = {"device": "l40s", "context": "24k", "dp": 2, "advise": False}
    most = kvplan.estimate("meta-llama/llama-3.1-8b", **question).capacity.max_batch
    assert most
    assert kvplan.estimate("meta-llama/llama-3.1-8b", batch=most, **question).fits
    assert not kvplan.estimate("meta-llama/llama-3.1-8b", batch=most + 1, **question).fits


def test_fit_asks_for_no_limits_which_no_row_shows(answers):
    rows = kvplan.fit("meta-llama/llama-3.3-70b", devices=["h100-80gb", "l4", "rtx-4090"], context="32k", batch=16)
    assert sum(row.plan is not None for row in rows) == 3
    assert answers.count(True) <= 1  # of `ideal`, for the least that any device must hold
    assert len(answers) > 4


def test_the_longest_context_of_llama_cpp_takes_few_tries(monkeypatch):
    tried: list[int] = []
    own = situation.situation

    def counted(*args: Any, **sizes: Any) -> Any:
        tried.append(1)
        return own(*args, **sizes)

    monkeypatch.setattr(situation, "situation", counted)
    question: dict[str, Any] = {"engine": "llama.cpp", "engine_option": {"fit": "off"}}
    kvplan.estimate("meta-llama/llama-3.1-8b", device="h100-80gb", context="8k", advise=False, **question)
    assert len(tried) < 120  # three searches over 2^32 lengths by halving alone are 195


@pytest.mark.parametrize("edge", [0, 1, 2, 7, 1000, 65_537, (1 << 32) - 1, 1 << 32])
def test_a_guess_changes_no_answer(edge):
    guesses = [0, 1, 2, 6, 7, 8, 999, 1000, 1001, 70_000, 1 << 32, 1 << 40]
    assert {near: longest(lambda n: n <= edge, 1 << 32, near) for near in guesses} == dict.fromkeys(guesses, edge)
