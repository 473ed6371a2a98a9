"""What vLLM's two runners make of one model (rows/poolers.jsonl, rows/README.md): length, type, batch, parameters, cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import planned, rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "poolers.jsonl")


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """The row's figures as we plan them; the cache is left out where the length does not fit."""
    plan = planned(
        row["model"], engine="vllm", engine_version=row["vllm"], kv_memory=row["available"],
        engine_option={"platform": "cpu", "runner": row["runner"]},
    ).as_dict()  # fmt: skip
    question, c = plan["question"], plan["capacity"]
    found: dict[str, Any] = {
        "length": question["max_model_len"]["value"],
        "dtype": question["dtype"]["value"],
        "batch": question["max_num_batched_tokens"]["value"],
        "parameters": plan["model"]["parameters"],
    }
    groups = sorted([g["kind"], g["layers"], g["block_tokens"], g["page_bytes"], g["n_groups"]] for g in c["groups"]) if c else []
    return {**found, "starts": plan["starts"], "groups": groups, "blocks": c and c["blocks"], "tokens": c and c["tokens"]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']} {row['runner']}")
def test_runners(row: dict[str, Any]) -> None:
    ours = predicted(row)
    assert ours["starts"] is not bool(row.get("refused"))
    theirs = dict(row["out"])
    # vLLM pads vocabularies to 64 and leaves a BERT's own pooling layer out; the smallest output layer of a row is twice that
    assert ours["parameters"] == pytest.approx(theirs.pop("parameters"), rel=0.004)
    assert {key: ours[key] for key in theirs} == theirs
