"""Tiers beside what vLLM's offloading connector, LMCache and SGLang's host pools compute (rows/README.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.api import deployment
from kvplan.engines.common.tiers import Tier
from kvplan.planner.evaluate import evaluate
from tests.conftest import rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "tiers.jsonl")


def tier(row: dict[str, Any], engine: str, version: str, options: dict[str, str], **question: Any) -> Tier:
    asked = {"engine": engine, "engine_version": version, "tp": row["tp"], "context": "8k", "engine_option": options, **question}
    (found,) = evaluate(deployment(row["model"], **asked), limits=False).outcome.tiers
    return found


def rows(system: str) -> list[dict[str, Any]]:
    return [row for row in ROWS if row["system"] == system]


def test_vllms_offloading_connector() -> None:
    wrong = []
    for row in rows("vllm"):
        options = {"kv_offloading_size": str(row["size"])} | ({"kv_offloading_block_size": str(row["chunk"])} if "chunk" in row else {})
        found = tier(row, "vllm", "0.32", options, kv_memory="30GiB", pp=row["pp"], block_size=row.get("block_size"))
        ours = (found.pieces, found.piece_bytes, found.shared)
        if ours != (row["pieces"], row["piece_bytes"], row["shared"]):
            wrong.append((row, ours))
    assert len(rows("vllm")) > 50
    assert not wrong


def test_lmcache() -> None:
    wrong = []
    for row in rows("lmcache"):
        options = {"lmcache_chunk_size": str(row["chunk"]), "lmcache_max_local_cpu_size": str(row["size"])}
        found = tier(row, "vllm", "0.32", options, kv_memory="30GiB", block_size=64)
        ours = (found.pieces, found.parts[0].load_bytes)
        if ours != (row["pieces"], row["rank_bytes"]):
            wrong.append((row, ours))
    assert len(rows("lmcache")) > 40
    assert not wrong


@pytest.mark.parametrize("release", sorted({row["release"] for row in rows("sglang")}))
def test_sglangs_host_pool(release: str) -> None:
    wrong = []
    for row in (row for row in rows("sglang") if row["release"] == release):
        size = {"hicache_size": str(row["size"])} if "size" in row else {"hicache_ratio": str(row["ratio"])}
        options = {"enable_hierarchical_cache": "true", "max_total_tokens": str(row["device_tokens"]), **size}
        found = tier(row, "sglang", release, options, kv_memory="60GiB", block_size=row["page"])
        ours = (found.pieces * row["page"], found.bytes // row["tp"])
        if ours != (row["tokens"], row["bytes"]):
            wrong.append((row, ours))
    assert not wrong
