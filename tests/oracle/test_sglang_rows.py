"""What eight releases of SGLang made of 1,256 questions (shared/data/sglang_oracle.jsonl), asked of our engine.

Each row is a model's config file, parallel sizes, page, formats and limits, and what was free before and after the weights; the release's
own server arguments, model config and pool classes computed the answer on a CPU. The config goes through our importer, so that one
comparison covers importer, lowering and engine: tokens of both pools, state slots, running requests, the bytes of all storages.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest

from kvplan.catalogue import find_device
from kvplan.deployment import Deployment
from kvplan.errors import KvplanError
from kvplan.importers.hf_config import read_config
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec
from tests.conftest import SHARED
from tests.oracle.sglang_figures import figures, format_asked

DATA = SHARED / "data"
ORACLE = DATA / "sglang_oracle.jsonl"
pytestmark = pytest.mark.skipif(not ORACLE.exists(), reason=f"needs {ORACLE.name} beside the checkout")

RELEASES = ("0.4.6.post5", "0.4.10.post2", "0.5.3", "0.5.6", "0.5.9", "0.5.12", "0.5.18", "0.5.23")
#: Errors that are the release's verdict on the question; others are of configs that this release can not read.
VERDICTS = (
    "Not enough memory",
    "leave no GPU memory",
    "cannot hold even one",
    "greater than the derived",
    "only supports",
    "not supported",
)
#: Storages of tables and pointers, which are no pools.
BOOKS = re.compile(r"ptrs|strides|free_slots|mapping|^req\.req_")


@lru_cache
def model(file: str) -> ModelSpec:
    return read_config(DATA / "hf_configs" / file)


def is_fair(row: dict[str, Any]) -> bool:
    """Whether the release answered the question as it would on a GPU."""
    if not row["model_class"] or not row["heads_divide"]:
        return False
    return "out" in row or any(words in row["error"] for words in VERDICTS)


def kv_dtype(row: dict[str, Any]) -> str | None:
    """The cache format asked for. The rows' weights are stand-ins: a checkpoint that declares an fp8 cache resolved `auto` to bf16."""
    if row["kv_dtype"] == "auto" and model(row["file"]).kv_dtype and "bfloat16" in (row.get("out") or {}).get("kv_cache_dtype", ""):
        return "bf16"
    return format_asked(row["kv_dtype"], row["sglang"])


def ask(row: dict[str, Any]) -> Plan:
    """The row as a question: what the release was told, and the bytes that it had for its pools."""
    args = {key: str(value).lower() for key, value in row["args"].items() if key != "dp_size"}
    out = row.get("out") or {}
    backend = (out.get("asked") or {}).get("attention_backend")
    if backend:
        args["attention_backend"] = backend
    rest = out.get("rest_bytes")
    return evaluate(
        Deployment(
            model=model(row["file"]),
            engine="sglang",
            engine_version=row["sglang"],
            device=find_device("h100-80gb"),
            tp=row["tp"],
            dp=row["args"].get("dp_size"),
            block_size=row["page"],
            kv_dtype=kv_dtype(row),
            max_model_len=row["context"],
            max_num_seqs=row["max_running"],
            memory_fraction=row["fraction"],
            kv_memory=int((row["free_after_gib"] - row["free_before_gib"] * (1 - row["fraction"])) * (1 << 30)) if rest is None else rest,
            engine_option=tuple(args.items()),
        ),
        limits=False,
    )


def predicted(row: dict[str, Any]) -> dict[str, Any]:
    """Our figures, by the names of the row's."""
    try:
        plan = ask(row)
    except KvplanError as error:
        return {"error": str(error)}
    return figures(plan)


def logged(row: dict[str, Any]) -> dict[str, Any]:
    """The release's figures; what it does not say is left out."""
    if "error" in row:
        return {"error": row["error"]}
    out = row["out"]
    found = {key: out[key] for key in ("max_total_num_tokens", "max_mamba_cache_size", "chunked_prefill_size", "page_size")}
    if out["swa_max_total_num_tokens"]:
        found |= {key: out[key] for key in ("full_max_total_num_tokens", "swa_max_total_num_tokens")}
    else:
        found["swa_max_total_num_tokens"] = None
    asked = row["max_running"] and row["max_running"] // (row["args"].get("dp_size") or 1)
    # 0.5.9 model_runner.py, after init_memory_pool, which is where the rows stop
    found["running"] = out["max_running_requests_engine"] or min(asked or out["max_total_num_tokens"] // 2, out["request_slots"])
    found["bytes"] = sum(n for name, n in out["bytes"].items() if not BOOKS.search(name))
    return found


def mismatches(row: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Name -> (the release's, ours) where they differ."""
    theirs, ours = logged(row), predicted(row)
    if "error" in theirs or "error" in ours:
        return {} if "error" in theirs and "error" in ours else {"error": (theirs.get("error"), ours.get("error"))}
    return {key: (theirs[key], ours[key]) for key in theirs if theirs[key] != ours[key]}


def rows(release: str) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in ORACLE.read_text().splitlines())
    return [row for row in found if row["sglang"] == release and is_fair(row)]


@pytest.mark.parametrize("release", RELEASES)
def test_rows(release: str) -> None:
    wrong = {row["id"]: found for row in rows(release) if (found := mismatches(row))}
    assert not wrong, Counter(tuple(found) for found in wrong.values())
