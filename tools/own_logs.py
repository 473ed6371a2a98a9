"""Start-up logs kept in the repository as cases of the budget: tests/oracle/rows/start_ups.jsonl, and the threads that say their cache.

Both have the form of tests/threads: the question is under `kvplan`, what was logged under `logged` (GiB of one rank; the smallest of them
where they differ; where a log tells blocks or tokens alone, the GiB that give them); `total_mib` is what the log's device has in all, where
it is another amount than that kind's. Threads that leave out what decides them (`weak`) say nothing of a budget.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine_arithmetic import FOLLOWED, cache_of
from log_cases import Case

from kvplan import api, engines
from kvplan.errors import KvplanError

TESTS = Path(__file__).parents[1] / "tests"
#: The newest sets of threads: no constant is fitted to them.
UNUSED = tuple(f"held_out_{n}" for n in range(14, 31))
OWN, THREADS = TESTS / "oracle" / "rows" / "start_ups.jsonl", TESTS / "threads"
#: First words of sources that name none.
COMMON = ("a", "an", "the", "notes")
#: Name in a row -> name in the log set beside the checkout.
LOGGED = {
    "kv_gib": "kv_cache_gib",
    "kv_tokens": "kv_tokens",
    "weights_gib": "weights_gib",
    "activation_gib": "activation_peak_gib",
    "outside_gib": "non_torch_gib",
    "graphs_gib": "cuda_graph_gib",
    "compile_s": "compile_s",
    "concurrency": "max_concurrency",
}


def read_own() -> list[Case]:
    """vLLM's rows with a logged cache, those of tests/oracle/rows first."""
    found = list(_rows(OWN))
    whole = {source_of(row) for row in found}  # their threads would count the same starts twice
    paths = [path for path in sorted(THREADS.glob("*.jsonl")) if path.stem not in UNUSED]
    threads = (row for path in paths for row in _rows(path) if source_of(row) not in whole)
    return _told_once([case(row) for row in (*found, *threads) if _says(row)])


def _told_once(cases: Sequence[Case]) -> list[Case]:
    """The cases less those that another source told before, by the same figures of the same model, device and release: one source then."""
    first: dict[tuple[object, ...], Case] = {}
    same: dict[str, str] = {}
    kept = []
    for one in cases:
        start = _start(one)
        before = first.setdefault(start, one) if start else one
        if before.group != one.group:
            same[one.group] = same.get(before.group, before.group)
        else:
            kept.append(one)
    return [one._replace(group=same.get(one.group, one.group)) for one in kept]


def _start(one: Case) -> tuple[object, ...] | None:
    d, logged = one.deployment, one.row["logged"]
    if d is None or d.device is None:
        return None
    asked = (d.model.id, d.device.card, d.device.memory_bytes, d.engine_version, d.tp, d.memory_fraction, d.enforce_eager)
    return (*asked, logged["kv_cache_gib"], logged["kv_tokens"])


def _says(row: dict[str, Any]) -> bool:
    """Whether vLLM sized the cache itself, and its size is told or follows: not where the question says its size, or its blocks."""
    asked, logged = row["kvplan"], row.get("logged", {})
    told = "kv_gib" in logged or any(logged.get(key) for key, _ in FOLLOWED)
    given = "kv_memory" in asked or "num_gpu_blocks_override" in asked.get("engine_option", {})
    return row["engine"] == "vllm" and told and not row.get("weak") and not given


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def source_of(row: dict[str, Any]) -> str:
    """The thread of a tracker, or the repository, that a source names; what it is a text of where it begins with a word of every text."""
    source = str(row["source"])
    first = source.split(" ")[0].rstrip(":,")
    return re.split(r"[,:(]", source)[0].strip() if first in COMMON else first


def case(row: dict[str, Any]) -> Case:
    """The row as a case."""
    asked = dict(row["kvplan"])
    full = {
        **row,
        "quality": "A",
        "note": row.get("note", ""),
        "logged": {mine: row["logged"].get(name) for name, mine in LOGGED.items()},
        "tp": asked.get("tp"),
        "pp": asked.get("pp"),
    }
    group = source_of(row)
    try:
        d = replace(api.deployment(asked.pop("model"), batch=1, **asked), constants=None)
        if d.device is not None and "total_mib" in row:
            d = replace(d, device=d.device.changed(gpu_mib=row["total_mib"]))
        unknown = engines.settle(d)[1].unknown
    except KvplanError as error:
        return Case(row["id"], group, full, None, str(error).splitlines()[0][:120])
    if full["logged"]["kv_cache_gib"] is None:
        full["logged"]["kv_cache_gib"] = cache_of(d, row["logged"])
    full["noisy"] = d.device is not None and d.device.unified
    return Case(row["id"], group, full, None if unknown else d, unknown[:120] if unknown else None)
