"""Rows drawn from vLLM's own planner and kept here (rows/README.md), asked of our engine: a bare clone compares with the engine too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from tests.conftest import planned, rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "vllm.jsonl")
ASKED = ("max_model_len", "block_size", "max_num_seqs", "max_num_batched_tokens", "tp", "pp", "dcp", "speculative")
FLAGS = ("enable_prefix_caching", "disable_hybrid_kv_cache_manager", "auto_fit", "allow_deprecated_quantization")


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Length, blocks, tokens and groups (kind, layers, tokens of a block, bytes of a page, how many) as we plan them; or the refusal."""
    options = {"platform": row.get("platform", "cpu")}
    if "states" in row:
        options["mamba_ssm_cache_dtype"] = row["states"]  # the CPU's type of states
    options |= {name: str(row[name]).lower() for name in FLAGS if name in row}
    try:
        plan = planned(
            row["model"], engine="vllm", engine_version=row["vllm"], kv_memory=row["available"], dtype=row["dtype"],
            kv_dtype=row.get("kv_dtype", row["dtype"]), device=row.get("device"), enforce_eager="device" in row or None,
            engine_option=options, **{name: row[name] for name in ASKED if name in row},
        ).as_dict()  # fmt: skip
    except KvplanError as error:
        return {"refused": str(error)}
    if not plan["starts"] and "when the cache is allocated" not in plan["verdict"]:  # the planner knows nothing of the weights
        return {"refused": plan["verdict"]}
    c = plan["capacity"]
    groups = sorted([g["kind"], g["layers"], g["block_tokens"], g["page_bytes"], g["n_groups"]] for g in c["groups"])
    return {"length": plan["question"]["max_model_len"]["value"], "blocks": c["blocks"], "tokens": c["tokens"], "groups": groups}


def differing(row: dict[str, Any]) -> dict[str, Any]:
    """Name -> (the release's, ours) where they differ; a refusal agrees with a refusal."""
    ours, theirs = predicted(row), row.get("out") or {"refused": row["refused"]}
    if "refused" in ours and "refused" in theirs:
        return {}
    return {key: (value, ours.get(key)) for key, value in theirs.items() if ours.get(key) != value}


@pytest.mark.parametrize("release", sorted({row["vllm"] for row in ROWS}))
def test_vllm(release: str) -> None:
    assert not {row["model"]: found for row in ROWS if row["vllm"] == release and (found := differing(row))}
