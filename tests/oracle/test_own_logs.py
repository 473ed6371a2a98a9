"""The start-up logs kept in the repository: their form, and single lines of them beside what kvplan makes of the question."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from kvplan import api
from kvplan.devices import DRIVER_MIB
from kvplan.units import GIB, MIB
from tests.conftest import planned, rows_of

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import own_logs

ROWS: list[dict[str, Any]] = rows_of(own_logs.OWN)
#: "Model loading took": what kvplan charges as weights is as logged to within 0.02 GiB.
WEIGHTS = (
    "kyl-llama8-3090", "kyl-llama8-5090", "kyl-qwen14fp8-4090", "kyl-qwen14fp8-5090", "kyl-qwen14fp8-ada5000", "kyl-gptoss20-a100",
    "un-llama32-3b-t4", "sm-dscoderlite-8xa100-40",
)  # fmt: skip


def row(name: str) -> dict[str, Any]:
    return next(r for r in ROWS if r["id"] == name)


def weights_gib(asked: dict[str, Any]) -> float:
    question = dict(asked)
    plan = planned(question.pop("model"), batch=1, **question)
    return sum(e.bytes for e in plan.ledgers[0].entries if e.kind == "weights") / GIB


def test_each_row_names_its_source_and_is_asked() -> None:
    assert len(ROWS) >= 50
    assert len({r["id"] for r in ROWS}) == len(ROWS)
    for r in ROWS:
        assert re.search(r"20\d\d-\d\d", r["source"])
        assert r["logged"]["kv_gib"]
    unasked = {c.id for c in own_logs.read_own() if c.deployment is None}
    assert unasked.isdisjoint(r["id"] for r in ROWS)  # a thread's drafter may be unknown


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_as_the_log_says_them(name: str) -> None:
    assert weights_gib(row(name)["kvplan"]) == pytest.approx(row(name)["logged"]["weights_gib"], abs=0.02)


def test_a_matrix_has_whole_blocks_of_torch() -> None:
    """Qwen3-14B in FP8 on an RTX 4090: 15.3388 GiB, 0.117 of it (40 x 3 MiB) beyond the matrices; two ranks of Qwen2.5-14B 13.9476."""
    asked = row("kyl-qwen14fp8-4090")["kvplan"]
    plan = planned(asked["model"], batch=1, **{k: v for k, v in asked.items() if k != "model"})
    beyond = next(e for e in plan.ledgers[0].entries if e.name == "weights: rounding")
    tables = 2 * MIB // 4  # embedding and head, 1,483.75 -> 1,484 MiB each
    assert beyond.bytes == 40 * 3 * MIB + tables  # 35 -> 36, 25 -> 26 and 85 -> 86 MiB; 170 MiB are whole blocks
    two = {"engine": "vllm", "engine_version": "0.7.2", "device": "rtx-4090", "tp": 2, "memory_fraction": 0.98}
    assert weights_gib({"model": "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", **two}) == pytest.approx(13.9476, abs=0.01)  # vllm#13061


def test_a_total_that_only_nvml_says_is_less_what_the_driver_keeps() -> None:
    """nvidia-smi: 32,760 MiB; four logs on that card leave 31.3 to 31.5 GiB to share out."""
    assert api.device("rtx-5000-ada").memory_bytes == (32760 - DRIVER_MIB) * MIB
    for name in ("llama8", "coder30w4", "gptoss20"):
        found = row(f"kyl-{name}-ada5000")
        known = found["logged"]["weights_gib"] + found["logged"]["kv_gib"]
        assert known / found["kvplan"].get("memory_fraction", 0.9) < api.device("rtx-5000-ada").memory_bytes / GIB


def test_communication_buffers_by_link() -> None:
    """vLLM 0.7.1 over NVSwitch logs 2.10 GiB outside torch, 0.7.2 over the bus 0.25 (vllm#13061)."""

    def outside(device: str) -> Any:
        plan = planned(
            "qwen/qwen2.5-14b", batch=1, engine="vllm", engine_version="0.7.2", device=device, tp=2, max_model_len=4096, dtype="fp16"
        )
        return next(e for e in plan.ledgers[0].entries if e.name == "outside torch")

    over_links, over_bus, unknown = outside("a100-40gb"), outside("rtx-3090"), outside("24GiB")
    assert over_links.low <= 2.10 * GIB <= over_links.high
    assert over_bus.low <= 0.25 * GIB <= over_bus.high < over_links.bytes
    assert unknown.high == over_links.high  # a size and no name: either may join them


def test_a_first_start_on_amd_is_inside_the_interval() -> None:
    """The same build and flags, Llama 3.1 8B on an R9700: 15.33 GiB of cache with the graph compiled before, 12.73 while it compiles."""
    asked = dict(row("kyl-llama8-r9700")["kvplan"])
    plan = planned(asked.pop("model"), batch=1, **asked)
    assert plan.capacity is not None
    assert plan.capacity.kv_bytes is not None
    assert plan.capacity.kv_bytes / GIB == pytest.approx(15.33, abs=0.32)  # 1 % of the device
    assert plan.capacity.kv_bytes_low is not None
    assert plan.capacity.kv_bytes_low / GIB <= 12.73
