"""Command lines of SGLang, and what the release's own parser, checks and pools made of them: rows/sglang_commands.jsonl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.engines.sglang.arguments import ARGUMENTS
from kvplan.engines.sglang.fraction import AITER_SHARE
from tests.conftest import rows_of
from tests.oracle.commands import planned
from tests.oracle.sglang_figures import differing, figures

ROWS = rows_of(Path(__file__).parent / "rows" / "sglang_commands.jsonl")


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Our figures for the command, with the bytes that the release had for its pools; `error`: why it does not start."""
    plan = planned(ARGUMENTS, "--model-path", row, row["sglang"], row["rest"], plain="bfloat16" in row.get("cache", ""))
    if isinstance(plan, str):
        return {"error": plan}
    found = figures(plan)
    # `unscaled`: the fraction is the one before AITER's share (rows/README.md)
    scaled = not row.get("unscaled") and any("the AITER attention backend scales" in note for note in plan.model.notes)
    share = AITER_SHARE if scaled else 1
    return found if "error" in found else found | {"fraction": round(plan.question["memory_fraction"][0] * share, 3)}


@pytest.mark.parametrize("release", sorted({row["sglang"] for row in ROWS}))
def test_sglang(release: str) -> None:
    asked = [row for row in ROWS if row["sglang"] == release]
    wrong = {(row["model"], " ".join(row["argv"])): found for row in asked if (found := differing(predicted(row), row))}
    assert not wrong
