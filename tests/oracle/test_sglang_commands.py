"""Command lines of SGLang, and what the release's own parser, checks and pools made of them: rows/sglang_commands.jsonl.

The words go through our reader of SGLang's options, so that one comparison covers reader, settings, refusals and pools.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.catalogue import find_model
from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.sglang.arguments import ARGUMENTS
from kvplan.errors import KvplanError, UnsupportedError
from tests.oracle.sglang_figures import differing, figures

ROWS = Path(__file__).parent / "rows" / "sglang_commands.jsonl"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()]


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Our figures for the command, with the bytes that the release had for its pools; `error`: why it does not start."""
    answer = read(ARGUMENTS, words("--model-path", row["model"], *row["argv"]), {}, row["sglang"].partition(".post")[0])
    refused = [one.message for one in answer.findings if one.severity == "error"]
    if refused:
        return {"error": refused[0]}
    asked = {name: one.value for name, one in answer.question.items()}
    options = {name.partition(".")[2]: asked.pop(name) for name in list(asked) if name.startswith("engine_option.")}
    model = find_model(row["model"])
    if asked.get("kv_dtype") is None and model.kv_dtype and "bfloat16" in row.get("cache", ""):
        asked["kv_dtype"] = "bf16"  # the rows' weights are stand-ins, which declare no format
    try:
        plan = kvplan.estimate(
            model, advise=False, engine="sglang", engine_version=row["sglang"], device=row["device"], kv_memory=row["rest"],
            engine_option={key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}, **asked,
        )  # fmt: skip
    except UnsupportedError:
        raise  # a refusal is the engine's own: what we do not model is none
    except KvplanError as error:
        return {"error": str(error)}
    found = figures(plan)
    return found if "error" in found else found | {"fraction": round(plan.question["memory_fraction"][0], 3)}


@pytest.mark.parametrize("release", sorted({row["sglang"] for row in rows()}))
def test_sglang(release: str) -> None:
    asked = [row for row in rows() if row["sglang"] == release]
    wrong = {(row["model"], " ".join(row["argv"])): found for row in asked if (found := differing(predicted(row), row))}
    assert not wrong
