"""What functions of TensorRT-LLM's own sources made of shapes drawn at random: rows/tensorrt_llm.jsonl, described in rows/README.md.

`part`: one pool of manager V1, its pools by window, its pool with states, manager V2, V2 with states. `out`: blocks, blocks of every
window (the largest first), tokens that a quota holds, slots of states; 0 blocks or tokens: it would not start.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.engines.common.protocol import Outcome
from kvplan.spec import ModelSpec
from tests.conftest import one_block, rows_of
from tests.oracle.tensorrt_llm_shapes import DELTA, GQA, plan

ROWS = rows_of(Path(__file__).parent / "rows" / "tensorrt_llm.jsonl")
RELEASE = "1.3.0"


def model(row: dict[str, Any]) -> ModelSpec:
    """Attention in every layer, or in every fourth beside gated delta nets."""
    attention = {**GQA, "heads": 32, "kv_heads": row["kv_heads"], "head_dim": row["head_dim"]}
    if "states" not in row["part"]:
        return one_block(attention, row["layers"], max_context=131072)
    blocks = {"delta": {"mixers": [DELTA]}, "full": {"mixers": [attention]}}
    return one_block(None, row["layers"], max_context=131072, layers=[{"pattern": ["3*delta", "full"], "repeat": row["layers"] // 4}],
                     blocks=blocks)  # fmt: skip


def answer(row: dict[str, Any]) -> Outcome:
    options = {"use_kv_cache_manager_v2": str(row["part"].startswith("v2")).lower()}
    for name, key in (("max_tokens", "max_tokens"), ("mamba_state_cache_interval", "interval")):
        options |= {name: str(row[key])} if row.get(key) else {}
    for name, key in (("enable_swa_scratch_reuse", "scratch"), ("enable_block_reuse", "reuse"), ("enable_attention_dp", "attention_dp")):
        options |= {name: str(row[key]).lower()} if key in row else {}
    for name, key in (("max_attention_window", "windows"), ("window_size_shares", "shares")):
        options |= {name: ",".join(str(n) for n in row[key])} if row.get(key) else {}
    sizes = {"max_num_seqs": row["max_batch"], "max_num_batched_tokens": row["max_num_tokens"], "block_size": row["block"]}
    asked = {"engine_version": RELEASE, "tp": row["tp"], "kv_dtype": row["dtype"], "max_model_len": row["max_seq_len"], **sizes}
    return plan(model(row), row["bytes"], options, context=min(row["max_seq_len"], 1000), **asked)


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """Our figures by the row's names."""
    c = answer(row).capacity
    if c is None:
        return {"blocks": 0, "tokens": 0, "windows": []}
    cells = {group.role: group.cells for group in c.groups}
    windows = [group.cells // row["block"] for group in c.groups if group.role != "state"]
    return {"blocks": c.blocks, "tokens": c.tokens, "windows": windows, "slots": cells.get("state")}


def differing(row: dict[str, Any]) -> dict[str, Any]:
    """Name -> (the engine's, ours) where they differ; a pool that holds no block does not start, whatever else it counts. A rank alone asks
    V2 for no number of tokens: where windows leave less than the longest request, the row's says nothing (pools.py)."""
    theirs, ours = dict(row["out"]), figures(row)
    if "windows" in theirs and not all(theirs["windows"]):
        theirs["windows"] = []
    longest = row["max_seq_len"]
    if row["part"] == "v2" and row["tp"] == 1 and row.get("windows") and theirs.get("tokens", longest) < longest:
        return {}
    if theirs.get("blocks") == 0 or theirs.get("tokens", row["block"]) < row["block"]:
        return {key: (value, ours[key]) for key, value in theirs.items() if key in ("blocks", "tokens") and ours[key]}
    return {key: (value, ours[key]) for key, value in theirs.items() if ours[key] != value}


@pytest.mark.parametrize("part", sorted(Counter(row["part"] for row in ROWS)))
def test_tensorrt_llm(part: str) -> None:
    wrong = {n: found for n, row in enumerate(ROWS) if row["part"] == part and (found := differing(row))}
    assert not wrong
