"""TensorRT-LLM's published start-up logs: blocks and tokens that were printed against the engine's arithmetic here.

Each row names its public source. Sizes are logged to 0.01 GiB, so blocks are compared within what that leaves open.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines.tensorrt_llm.plan import ENGINE
from kvplan.spec import ModelSpec
from kvplan.units import GIB, cdiv
from tests.conftest import one_block, shared

#: Layers, KV heads, head dim, from the models' public config.json.
GEOMETRY = {
    "llama-2-7b": (32, 32, 128),
    "Qwen1.5-7B (sft)": (32, 32, 128),
    "meta-llama/Llama-3.1-8B-Instruct": (32, 8, 128),
    "meta-llama/Meta-Llama-3-8B-Instruct": (32, 8, 128),
}


def rows() -> list[dict[str, Any]]:
    path = shared("data/engine_logs.jsonl")
    found = [row for row in map(json.loads, path.read_text().splitlines()) if row["engine"] == "tensorrt-llm"]
    mine = [row for row in found if row["model"] in GEOMETRY]
    assert len(mine) == 4
    return mine


def model_of(row: dict[str, Any]) -> ModelSpec:
    layers, kv, dim = GEOMETRY[row["model"]]
    return one_block({"kind": "gqa", "heads": 32, "kv_heads": kv, "head_dim": dim}, layers)


def version_of(row: dict[str, Any]) -> str | None:
    found = re.match(r"[\d.]*\d", row["engine_version"] or "")
    return found[0] if found else "1.2.0"  # the row without one is of December 2025


def capacity(row: dict[str, Any], n_bytes: int) -> Any:
    asked = Deployment(
        model=model_of(row), kv_memory=n_bytes, kv_dtype=row["kv_cache_dtype"], block_size=row["block_size"],
        engine_version=version_of(row), context=1024,
    )  # fmt: skip
    found = ENGINE.plan(ENGINE.settle(asked)).capacity
    assert found is not None, row["id"]
    return found


def test_blocks_of_the_logged_tokens() -> None:
    """The memory of exactly the logged tokens holds their blocks; a partly filled one was allocated whole in those releases."""
    for row in rows():
        layers, kv, dim = GEOMETRY[row["model"]]
        tokens, width = row["logged"]["kv_tokens"], 1 if row["kv_cache_dtype"] == "fp8" else 2
        found = capacity(row, tokens * layers * 2 * kv * dim * width)
        assert found.blocks == cdiv(tokens, row["block_size"]), row["id"]
        if row["logged"]["num_gpu_blocks"]:
            assert found.blocks == row["logged"]["num_gpu_blocks"], row["id"]


def test_blocks_of_the_logged_gib() -> None:
    """The logged GiB (or 0.9 of the logged free memory): the logged blocks, within the rounding of the size."""
    for row in rows():
        size = row["logged"]["kv_cache_gib"]
        free = re.search(r"available: ([\d.]+) GiB", row["verbatim"])
        if size is None and free:
            size = 0.9 * float(free[1])
        if size is None:
            continue
        found = capacity(row, int(size * GIB))
        blocks = row["logged"]["num_gpu_blocks"] or cdiv(row["logged"]["kv_tokens"], row["block_size"])
        assert found.blocks == pytest.approx(blocks, abs=0.006 * GIB / found.bytes_per_block + 1), row["id"]


def test_the_formula_of_a_logged_peak() -> None:
    """faradawn/bench3: 0.9 x (139.80 - 17.76 + 0.13) GiB = 109.96 GiB."""
    row = next(row for row in rows() if row["id"] == "bench3-trt-llama3-8b-h200")
    asked = Deployment(
        model=model_of(row), device=sized(int(139.80 * GIB)), engine_version="1.2.0", context=1024, max_num_seqs=32,
        engine_option=(("peak_memory", "17.76GiB"), ("temporary_kv_memory", "0.13GiB")),
    )  # fmt: skip
    found = ENGINE.plan(ENGINE.settle(asked)).capacity
    assert found is not None
    assert found.kv_bytes / GIB == pytest.approx(row["logged"]["kv_cache_gib"], abs=0.02)
    assert found.blocks == pytest.approx(row["logged"]["num_gpu_blocks"], abs=0.02 * GIB / found.bytes_per_block)


def test_a_device_budget_holds_the_log() -> None:
    """Llama-3-8B on one H200, 1,024 batch tokens: the modelled interval holds the 109.96 GiB that were allocated."""
    from kvplan.catalogue import constants, find_device, find_model

    asked = Deployment(
        model=find_model("meta-llama/llama-3.1-8b"), device=find_device("h200"), engine_version="1.2.0", context=1025, max_num_seqs=32,
        max_num_batched_tokens=1024, constants=constants("tensorrt-llm"),
    )  # fmt: skip
    found = ENGINE.plan(ENGINE.settle(asked)).capacity
    assert found is not None
    assert found.kv_bytes_low < 109.96 * GIB < found.kv_bytes_high
    assert found.kv_bytes == pytest.approx(109.96 * GIB, rel=0.02)
