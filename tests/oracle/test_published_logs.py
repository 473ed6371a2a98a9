"""Every published log: read, its question worked out and put to the engine, or told why not in one sentence."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvplan import catalogue
from kvplan.errors import FormatError, KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.startup_logs import LoggedStart, Reconciliation, compare, question_of, read_log
from tests.conftest import planned, rows_of, shared

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import log_cases

#: Rows whose excerpt has no line of an engine: the sweep's own results files, and a person's words.
NO_LOG = {"pl-qwen3-14b-v0.15.0", "pl-qwen3-14b-v0.16.0", "pl-qwen3-14b-v0.17.0", "pl-qwen3-14b-v0.18.0", "vllm28228-kimilinear-2x3090"}
#: Reasons that a user can act on: a model that is not in the catalogue, a device, a drafter whose size is not said.
TOLD = ("unknown model", "could not be had from the Hub", "write a model id", "how large", "unknown device")
#: What a user would add because the excerpt does not have it.
ADDED = ("tp", "pp", "dp", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "enforce_eager")


def rows() -> list[dict[str, Any]]:
    return rows_of(shared("data/engine_logs.jsonl"))


def question(row: dict[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {name: row[name] for name in ADDED}
    asked |= {"memory_fraction": row["gpu_memory_utilization"], "model": log_cases.SAME_SHAPE.get(row["model"], row["model"])}
    if row["gpu"] or row["gpu_total_gib_logged"]:
        asked["device"] = log_cases._device(row)
    return asked


def outcome(start: LoggedStart, row: dict[str, Any]) -> Reconciliation | str:
    """The log beside its plan; or the sentence that says why there is none."""
    try:
        name, said = question_of(start, question(row))
        return compare(start, planned(name or "", **said))
    except KvplanError as why:
        return str(why)


def test_every_log_is_read_and_asked_or_told_why() -> None:
    asked = unknown = 0
    for row in rows():
        if row["id"] in NO_LOG:
            with pytest.raises(FormatError, match="none of its"):
                read_log(row["verbatim"])
            continue
        start = read_log(row["verbatim"])
        assert start.engine == row["engine"], row["id"]
        found = outcome(start, row)
        if isinstance(found, str):
            assert any(word in found for word in TOLD), (row["id"], found)
            unknown += 1
        else:
            assert found.lines or "no figure" in found.summary, row["id"]
            asked += 1
    assert asked >= 60
    assert unknown <= 16


def test_lines_of_logs_that_are_known_well() -> None:
    """The public sweep and the H200 are within their intervals line by line, weights within the allocator's rounding."""
    within = off = 0
    for row in rows():
        if row["quality"] != "A" or row.get("noisy") or row["id"] in NO_LOG or not row["id"].startswith(("pl-", "bench3")):
            continue
        d = log_cases.read_case(row).deployment
        if d is None:
            continue
        plan = evaluate(replace(d, constants=catalogue.constants(row["engine"])))
        lines = compare(read_log(row["verbatim"]), plan).lines
        within += sum(line.verdict == "within" for line in lines)
        off += sum(line.verdict == "off" for line in lines)
    assert within > 60
    assert off <= 0.15 * within
