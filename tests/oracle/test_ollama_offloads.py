"""What Ollama's scheduler logged of its estimates, line by line: layers on each card, caches, graphs, weights.

Rows: ollama_offloads.jsonl, lines that people published (`source`), with the model, quantisation, context and slots that the thread
states or that the sizes leave no doubt of (`note`). Rows with `set_aside` were looked at only when the code was done; `left_out`: files
of types that have no name here, whose layers are off by what that moves.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import planned

ROWS = {row["id"]: row for row in map(json.loads, Path(__file__).with_name("ollama_offloads.jsonl").read_text().splitlines())}
UNITS = {"B": 1 / 1024**3, "KiB": 1 / 1024**2, "MiB": 1 / 1024, "GiB": 1.0}
#: Sizes that come from counting metadata alone: as printed, to the last digit.
COUNTED = ("memory.required.kv", "memory.graph.full", "memory.graph.partial", "projector.graph")
#: The rest holds weights: a quantiser's choice of types, a tower's norms and a padded vocabulary move them by this share at most.
WEIGHTS_OFF = 0.004
#: What a printed decimal of a GiB hides.
ROUNDED = 0.101


def line(row: dict[str, Any]) -> dict[str, str]:
    """The estimate for the memory that the row says was available, as the plan prints it."""
    options = {"device_memory": "/".join(f"{gib}GiB" for gib in row["available_gib"]), "num_parallel": row["slots"]}
    if row.get("flash_attn"):
        options["flash_attn"] = "on"
    plan = planned(
        row["model"],
        engine="ollama",
        engine_version=row["release"],
        weight_dtype=row["weights"],
        max_model_len=row["num_ctx"],
        device="24GiB",
        n_gpu_layers=row.get("num_gpu"),
        host_memory="1000GiB",
        engine_option=options,
    )
    assert plan.capacity is not None
    found = next(text for text in plan.capacity.log_lines if text.startswith("msg=offload"))
    return {key: value.strip('"[]') for key, value in re.findall(r'([\w.]+)=("[^"]*"|\S+)', found)}


def gib(text: str) -> float:
    """`787.5 MiB` in GiB."""
    number, unit = text.split()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("row_id", [name for name, row in ROWS.items() if "left_out" not in row])
def test_layers_on_each_card(row_id: str) -> None:
    row = ROWS[row_id]
    got, logged = line(row), row["logged"]
    assert int(got["layers.offload"]) == logged["layers.offload"]
    assert got["layers.split"] == logged.get("layers.split", "")


@pytest.mark.parametrize("row_id", ROWS)
def test_sizes_as_logged(row_id: str) -> None:
    row = ROWS[row_id]
    got = line(row)
    for name, logged in row["logged"].items():
        if name.startswith("layers") or ("left_out" in row and name not in COUNTED):
            continue
        if name in COUNTED:
            allowed = 0.0002  # 262,144 rows of a vocabulary where the configuration says 262,208
            assert gib(got[name]) == pytest.approx(gib(logged), rel=allowed), name
        elif name == "memory.required.allocations":
            pairs = zip(re.findall(r"[\d.]+ \w+", got[name]), re.findall(r"[\d.]+ \w+", logged), strict=True)
            assert all(gib(a) == pytest.approx(gib(b), abs=ROUNDED, rel=WEIGHTS_OFF) for a, b in pairs), name
        else:
            assert gib(got[name]) == pytest.approx(gib(logged), rel=WEIGHTS_OFF, abs=ROUNDED if "GiB" in logged else 0), name


def test_half_of_the_lines_were_set_aside() -> None:
    assert len(ROWS) >= 20
    assert sum("set_aside" in row for row in ROWS.values()) * 2 >= len(ROWS) - 1
