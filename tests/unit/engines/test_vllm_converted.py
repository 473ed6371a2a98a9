"""--convert beside --runner: config/model.py _get_runner_type of vLLM 0.10.1 to 0.33, models/adapters.py (no output layer)."""

from __future__ import annotations

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.vllm.arguments import ARGUMENTS


@pytest.mark.parametrize(("argv", "version", "found", "runner"), [
    ("--convert embed", "0.33.0", [], "pooling"),  # from 0.22 on it chooses the pooling runner
    ("--convert embed", "0.21.0", ["runner-not-chosen"], "pooling"),
    ("--convert embed --runner pooling", "0.21.0", [], "pooling"),
    ("--convert classify --runner generate", "0.33.0", ["bad-value"], "generate"),
    ("--convert none --runner pooling", "0.33.0", ["not-converted"], "pooling"),
    ("--convert none", "0.33.0", [], None),
])  # fmt: skip
def test_a_converted_model_and_its_runner(argv: str, version: str, found: list[str], runner: str | None) -> None:
    answer = read(ARGUMENTS, words("--model", "Qwen/Qwen3-8B", *argv.split(" ")), {}, version)
    assert [one.rule for one in answer.findings if one.severity != "note"] == found
    asked = answer.question.get("engine_option.runner")
    assert (asked.value if asked else None) == runner
