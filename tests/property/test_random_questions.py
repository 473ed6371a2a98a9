"""A few of the random questions that `make fuzz` asks by the thousand, and those that once broke."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

import kvplan
from fuzz.questions import check, questions
from kvplan.errors import KvplanError


def test_random_questions_are_answered_or_refused_by_name() -> None:
    answered = 0
    for asked in islice(questions(1), 40):
        try:
            check(asked)
            answered += 1
        except KvplanError:
            continue
    assert answered > 5


@pytest.mark.parametrize(
    "asked",
    [  # an AMD card's capability is a name, no number
        {"model": "huggyllama/llama-65b", "engine": "lmdeploy", "device": "mi300a", "context": 1024},
        {"model": "deepseek-ai/deepseek-v2-lite", "engine": "lmdeploy", "device": "radeon-ai-pro-r9700", "context": 1024},
    ],
)  # fmt: skip
def test_questions_that_once_broke(asked: dict[str, Any]) -> None:
    assert kvplan.estimate(**asked).ledgers
