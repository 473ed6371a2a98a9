"""Command lines of vLLM, and what the release's own parser, config, model classes and planner made of them: rows/vllm_commands.jsonl.

The words go through our reader of vLLM's options, so that one comparison covers reader, settings, refusals and the planner.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.catalogue import find_model
from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.vllm.arguments import ARGUMENTS
from kvplan.errors import KvplanError, UnsupportedError

ROWS = [json.loads(line) for line in Path(__file__).with_name("rows").joinpath("vllm_commands.jsonl").read_text().splitlines()]
UNLOADED = "the weights would not load: "


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Length, blocks, tokens and batch for the command with `available` bytes of every rank; `refused`: why it does not start."""
    answer = read(ARGUMENTS, words("--model", row["model"], *row["argv"]), {}, row["vllm"])
    if refused := [one.message for one in answer.findings if one.severity == "error"]:
        return {"refused": refused[0]}
    asked = {name: one.value for name, one in answer.question.items()}
    available = asked.pop("kv_memory", row["available"])
    options = {name.partition(".")[2]: asked.pop(name) for name in list(asked) if name.startswith("engine_option.")}
    model = find_model(row["model"])
    if asked.get("kv_dtype") is None and model.kv_dtype:
        asked["kv_dtype"] = "bf16"  # the rows' configs have no quantisation, which may name a format
    try:
        plan = kvplan.estimate(
            model, advise=False, engine="vllm", engine_version=row["vllm"], device=row["device"], kv_memory=available,
            engine_option={key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}, **asked,
        ).as_dict()  # fmt: skip
    except UnsupportedError:
        raise  # a refusal is the engine's own: what we do not model is none
    except KvplanError as error:
        return {"refused": str(error)}
    capacity, question = plan["capacity"], plan["question"]
    if not plan["starts"] and "when the cache is allocated" not in plan["verdict"]:  # the planner knows nothing of the weights
        return {"refused": plan["verdict"]}
    if told := [one for one in capacity["warnings"] if UNLOADED in one]:
        return {"refused": told[0]}
    fitted = [int(found[1]) for line in capacity["log_lines"] if (found := re.search(r"reduced from \d+ to (\d+)", line))]
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
