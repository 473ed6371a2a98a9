"""Every number that vLLM 0.32's own planner computed for these models (shared/data/vllm_oracle.jsonl), asked of our engine.

A row is a model's config file, parallel size, cache memory per rank and settings; the config goes through our importer, so one
comparison covers importer, lowering and engine. Nothing here is skipped by row: a mismatch is listed with both numbers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.importers.hf_config import read_config
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec
from tests.conftest import SHARED, rows_of

DATA = SHARED / "data"
ORACLE = DATA / "vllm_oracle.jsonl"
pytestmark = pytest.mark.skipif(not ORACLE.exists(), reason=f"needs {ORACLE.name} beside the checkout")

#: Route A rows of this name are hand-written specs of DeepSeek-V3.2's geometry with packed rows.
CONFIG_OF = {"deepseek-v3.2-fp8_ds_mla": "deepseek-ai--DeepSeek-V3.2"}


def rows() -> list[dict[str, Any]]:
    if not ORACLE.exists():
        return []
    return rows_of(ORACLE)


@lru_cache
def model(name: str) -> ModelSpec:
    name = CONFIG_OF.get(name, name)
    folder = DATA / ("hf_configs" if "--" in name else "vllm_geometries")
    return read_config(folder / f"{name}.json")


def ask(row: dict[str, Any]) -> Plan:
    """The row as a question: only what the row's engine was told."""
    spec = model(row["model"])
    options = {"platform": row["profile"]}
    if row.get("max_concurrent_batches"):
        options["async_scheduling"] = str(row["max_concurrent_batches"] > 1).lower()
    if row.get("enable_prefix_caching") is not None:
        options["enable_prefix_caching"] = str(row["enable_prefix_caching"]).lower()
    if row.get("disable_hybrid_kv_cache_manager") is not None:
        options["disable_hybrid_kv_cache_manager"] = str(row["disable_hybrid_kv_cache_manager"]).lower()
    if row.get("requested_max_model_len") == -1:
        options["auto_fit"] = "true"
    return evaluate(
        Deployment(
            model=spec,
            engine="vllm",
            engine_version=row.get("vllm_version") or "0.32.0",
            tp=row["tp"],
            dtype=row.get("model_dtype"),
            kv_dtype=row["kv_cache_dtype"],
            max_model_len=None if options.get("auto_fit") else row["max_model_len"],
            max_num_batched_tokens=row.get("max_num_batched_tokens"),
            block_size=asked_block(row),
            kv_memory=row["available_bytes"],
            engine_option=tuple(options.items()),
        )
    )


def asked_block(row: dict[str, Any]) -> int | None:
    """The block size that the row's engine was asked for: in its id where it is one of the variants of a non-hybrid model."""
    if row["stage"] == "full_engine_log":
        tail = row["id"].rsplit("/", 1)[1]
        return int(tail.removeprefix("block_size=")) if tail.startswith("block_size=") else None
    if any(layer["kind"] == "mamba" for layer in row["layers"]):
        return None
    return row["block_size"]


def merged_groups(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted((g["kind"], g["n_layers"], g["block_size"], g["page_size_bytes"], g["n_groups"]) for g in row["groups"])


def mismatches(row: dict[str, Any]) -> list[str]:
    """Every figure of the row that our answer does not give exactly."""
    plan = ask(row)
    capacity, found = plan.capacity, []

    def same(what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            found.append(f"{what}: {ours} for {theirs}")

    if capacity is None:
        return [f"no capacity: {plan.outcome.reason}"]
    if "groups" in row:
        ours = sorted((g.kind, g.layers, g.block_tokens, g.page_bytes, g.n_groups) for g in capacity.groups)
        same("groups", ours, merged_groups(row))
        same("blocks", capacity.blocks, row["num_blocks"])
        same("bytes per block", capacity.bytes_per_block, row.get("pool_bytes_per_block"))
        same("block size", block_size(row, capacity), row["block_size"] if row["groups"] else None)
        if row["groups"]:
            same("request bytes", capacity.request_bytes, row["bytes_per_max_len_request"])
    if row.get("allocated_bytes") is not None:
        same("allocated bytes", capacity.kv_bytes, row["allocated_bytes"])
    if row.get("kv_tokens_reported") is not None:
        same("tokens", capacity.tokens, row["kv_tokens_reported"])
        same("concurrency", capacity.max_concurrency, row["max_concurrency"])
    if "est_max_len" in row:
        same("longest admitted", capacity.max_context, row["est_max_len"])
        same("longest admitted, unbounded", capacity.max_context_unbounded, row["est_max_len_unbounded"])
    if row.get("refused") is not None:
        same("refused", plan.starts is False, row["refused"])
    if row.get("refusal"):
        same("refusal", (plan.outcome.reason or "").startswith(row["refusal"]), True)
    for line in row.get("log_lines", ()):
        if "KV cache size" in line or line.startswith("Auto-fit"):
            same("log line", line in capacity.log_lines, True)
        if "To serve at least one request" in line:
            same("log line", f"[rank0]: ValueError: {plan.outcome.reason}", line)
    return found


def block_size(row: dict[str, Any], capacity: Any) -> int | None:
    """What the row calls block size.

    Rows of a started engine show cache_config.block_size as the engine core leaves it, the smallest of the groups
    (vllm/v1/engine/core.py); planner rows show the primary one; -1 is a hand-written spec that has none.
    """
    if not row["groups"]:
        return None
    if row["stage"] == "full_engine_log":
        return min(g.block_tokens for g in capacity.groups)
    return -1 if row["block_size"] == -1 else capacity.block_tokens


@pytest.mark.parametrize("name", sorted({row["model"] for row in rows()}))
def test_every_row(name: str) -> None:
    wrong = {row["id"]: bad for row in rows() if row["model"] == name and (bad := mismatches(row))}
    assert not wrong, "\n".join(f"{row}\n    " + "\n    ".join(bad) for row, bad in wrong.items())
