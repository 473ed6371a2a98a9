"""Command lines of vLLM, and what the release's own parser, config, model classes and planner made of them: rows/vllm_commands.jsonl."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kvplan.engines.vllm.arguments import ARGUMENTS
from tests.conftest import rows_of
from tests.oracle.commands import planned

ROWS = rows_of(Path(__file__).with_name("rows").joinpath("vllm_commands.jsonl"))
UNLOADED = "the weights would not load: "


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Length, blocks, tokens and batch for the command with `available` bytes of every rank; `refused`: why it does not start."""
    found = planned(ARGUMENTS, "--model", row, row["vllm"], row["available"], plain=True)
    if isinstance(found, str):
        return {"refused": found}
    plan = found.as_dict()
    capacity, question = plan["capacity"], plan["question"]
    if not plan["starts"] and "when the cache is allocated" not in plan["verdict"]:  # the planner knows nothing of the weights
        return {"refused": plan["verdict"]}
    if told := [one for one in capacity["warnings"] if UNLOADED in one]:
        return {"refused": told[0]}
    fitted = [int(cut[1]) for line in capacity["log_lines"] if (cut := re.search(r"reduced from \d+ to (\d+)", line))]
    return {
        "length": fitted[0] if fitted else question["max_model_len"]["value"],
        "blocks": capacity["blocks"],
        "tokens": capacity["tokens"],
        "batch": question["max_num_batched_tokens"]["value"],
    }


@pytest.mark.parametrize("release", sorted({row["vllm"] for row in ROWS}))
def test_vllm(release: str) -> None:
    wrong = {}
    for row in (row for row in ROWS if row["vllm"] == release):
        ours = predicted(row)
        # refused, or `config`: what its parser and its config take, and no more was built
        same = ours == row["out"] if "out" in row else ("refused" in ours) == ("refused" in row)
        if not same:
            wrong[row["model"], " ".join(row["argv"])] = (row.get("refused") or row.get("out"), ours)
    assert not wrong
