"""SGLang's published start-up logs: bytes and tokens that the engine printed against the engine's arithmetic here.

Each row names its public source. What is logged is rounded to 0.01 GB (GiB), so tokens are compared within what that leaves open.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import sized
from kvplan.engines.common.lines import Refusal
from kvplan.engines.common.protocol import Outcome
from kvplan.engines.sglang.budget import budget
from kvplan.engines.sglang.plan import ENGINE
from kvplan.engines.sglang.rules import RELEASES
from kvplan.importers.hf_config import read_config
from kvplan.ledger import exact
from kvplan.spec import ModelSpec
from kvplan.units import GIB
from tests.conftest import one_block, shared

ROUNDING = 0.011  # of a size printed with two decimals, and of sums of two

#: Attention geometry from the models' public config.json: layers, KV heads, head dim.
GEOMETRY = {"Qwen/Qwen2.5-1.5B-Instruct": (28, 2, 128), "Qwen/Qwen3-14B": (40, 8, 128)}
#: Rows of hybrids whose excerpt does not name the model: the geometry that its note derives.
HYBRID = {"c3090-1261-sglang-2x5090-nvfp4": "Qwen--Qwen3.5-27B"}


def rows() -> list[dict[str, Any]]:
    path = shared("data/engine_logs.jsonl")
    return [row for row in map(json.loads, path.read_text().splitlines()) if row["engine"] == "sglang"]


def model_of(row: dict[str, Any]) -> ModelSpec:
    name = row["model"] or ""
    if name in GEOMETRY:
        layers, kv, dim = GEOMETRY[name]
        return one_block({"kind": "gqa", "heads": kv * 8, "kv_heads": kv, "head_dim": dim}, layers, max_context=32768)
    config = HYBRID.get(row["id"]) or name.replace("/", "--")
    path = shared("data/hf_configs") / f"{config}.json"
    if not path.exists():
        pytest.skip(f"no geometry for {name}")
    return read_config(path)


def question(row: dict[str, Any], **more: Any) -> Deployment:
    option = dict(more.pop("options", {}))
    return Deployment(
        model=model_of(row), tp=row["tp"], kv_dtype=row["kv_cache_dtype"], block_size=row["block_size"], context=32768,
        engine_option=tuple(option.items()), **more,
    )  # fmt: skip


def plan(d: Deployment) -> Outcome:
    return ENGINE.plan(ENGINE.settle(d))


def logged() -> list[dict[str, Any]]:
    found = [row for row in rows() if row["logged"]["k_size_gb"] and row["logged"]["kv_tokens"]]
    assert len(found) == 7
    return found


def test_sizes_of_the_logged_tokens() -> None:
    """K size and V size, as printed, of every row that logs tokens: the same two decimals."""
    for row in logged():
        outcome = plan(question(row, kv_memory=200 * GIB, options={"max_total_tokens": str(row["logged"]["kv_tokens"])}))
        assert outcome.capacity is not None, row["id"]
        line = next(line for line in outcome.capacity.log_lines if line.startswith("KV Cache is allocated."))
        found = re.search(r"#tokens: (\d+), K size: ([\d.]+) GB, V size: ([\d.]+) GB", line)
        assert found is not None
        assert int(found[1]) == row["logged"]["kv_tokens"], row["id"]
        for printed, size in ((found[2], "k_size_gb"), (found[3], "v_size_gb")):
            assert float(printed) == pytest.approx(row["logged"][size], abs=0.0051), (row["id"], line)


def test_tokens_of_the_logged_sizes() -> None:
    """The pools given the logged K + V bytes: the logged tokens, within the rounding of the sizes."""
    for row in logged():
        if row["id"] in HYBRID:
            continue  # its states and a draft model share the budget
        size = row["logged"]["k_size_gb"] + row["logged"]["v_size_gb"]
        outcome = plan(question(row, kv_memory=int(size * GIB)))
        assert outcome.capacity is not None, row["id"]
        assert outcome.capacity.tokens == pytest.approx(row["logged"]["kv_tokens"], abs=ROUNDING / size * row["logged"]["kv_tokens"] + 1)


def test_tokens_of_the_logged_memory() -> None:
    """free after loading - (1 - fraction) x free before: the bytes for the pools, where the row logs both."""
    checked = 0
    for row in logged():
        before = re.findall(r"Load weight begin\. avail mem=([\d.]+)", row["verbatim"])
        after = re.findall(r"Load weight end\.[^;]*?avail mem=([\d.]+)", row["verbatim"])
        if not before or not after or not row["gpu_memory_utilization"]:
            continue
        rest = min(map(float, after)) - min(map(float, before)) * (1 - row["gpu_memory_utilization"])
        outcome = plan(question(row, kv_memory=int(rest * GIB)))
        assert outcome.capacity is not None, row["id"]
        # two sizes of two decimals; on unified memory other processes move in between (up to 0.1 GB in these rows)
        slack = 0.1 if row.get("noisy") else 2 * ROUNDING
        assert outcome.capacity.tokens == pytest.approx(row["logged"]["kv_tokens"], abs=slack / rest * outcome.capacity.tokens + 1), row[
            "id"
        ]
        checked += 1
    assert checked >= 1


def test_the_refusal_that_a_log_shows() -> None:
    """SemiAnalysisAI/InferenceX#2128: 125.65 GB of weights on an H200 with 12.25 GB left under fraction 0.88; it needs at least 0.9113."""
    loaded = [exact("weights: mlp", int((137.9 - 12.25) * GIB), "the log", "weights")]
    with pytest.raises(Refusal, match=r"Raise --mem-fraction-static above 0\.912 \(minimum viable = 1 - available/pre = 0\.911"):
        budget(Deployment(model=one_block(None)), RELEASES.rules["0.5.23"], "0.5.23", 8, 0.88, (), sized(int(137.9 * GIB)), loaded)
