"""The pure arithmetic of vLLM on published logs: the GiB that a log gives to the cache -> tokens and concurrency, within its rounding.

The other way for a start that logs its blocks or tokens alone: the GiB that give them (`cache_of`).

A row is explained where its figures follow from what it logs: within the rounding of the logged GiB (two digits) and concurrency. A row
whose figures do not is explained by one thing its excerpt leaves out, where that one thing gives all of them: a switch of `UNSAID`, or,
under tensor parallelism, the rank: an excerpt shows one rank's GiB, the tokens are those of the smallest, at most `RANKS_DIFFER` below.
Everything else is unexplained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from log_cases import Case, read_case

from kvplan.deployment import Deployment
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB

#: Half a unit of the last digit, and a hair.
ROUNDING = 0.0051
#: The most that ranks of one start are taken to lie apart.
RANKS_DIFFER = 0.02
#: Switches that change the arithmetic and that excerpts leave out.
UNSAID: tuple[tuple[str, str], ...] = (("enable_prefix_caching", "true"), ("enable_prefix_caching", "false"))
FIGURES = (("kv_tokens", "tokens", 0.0), ("max_concurrency", "max_concurrency", ROUNDING))


#: Figures of a log that the cache follows from -> of a plan's capacity; how near to them, and how often it is looked for.
FOLLOWED = (("blocks", "blocks"), ("gpu_blocks", "blocks"), ("kv_tokens", "tokens"))
NEAR, TRIES = 0.002, 8


def cache_of(d: Deployment, logged: dict[str, Any]) -> float | None:
    """GiB of one rank's cache that give the blocks or tokens that a log tells, by the engine's own arithmetic, which is proportional.

    None where it tells none, or some that no cache on the device gives: tokens that an excerpt counts otherwise.
    """
    key, name = next(((key, name) for key, name in FOLLOWED if logged.get(key)), (None, ""))
    if key is None or d.device is None:
        return None
    size = d.device.memory_bytes // 4
    for _ in range(TRIES):
        try:
            capacity = evaluate(replace(d, kv_memory=size, constants=None), limits=False).capacity
        except KvplanError:
            return None
        found = getattr(capacity, name, None)
        if not found or size > d.device.memory_bytes:
            return None
        if abs(found - logged[key]) <= NEAR * logged[key]:
            return size / GIB
        size = int(size * logged[key] / found)
    return None


class Compared(NamedTuple):
    """One row: figures outside the log's rounding, and what explains them (None: nothing known)."""

    case: Case
    outside: tuple[str, ...]
    explained_by: str | None


def compare(cases: Sequence[Case]) -> list[Compared]:
    """Every A and B row of vLLM that logs the cache's GiB and a figure that follows from it."""
    return [found for case in cases if (found := _compared(case))]


def _compared(case: Case) -> Compared | None:
    row, logged = case.row, case.row["logged"]
    if row["engine"] != "vllm" or row["quality"] not in ("A", "B") or not logged["kv_cache_gib"]:
        return None
    d = case.deployment or read_case({**row, "gpu_total_gib_logged": 80.0}).deployment  # no device is needed for this
    if d is None or all(logged[key] is None for key, *_ in FIGURES):
        return None
    try:
        outside = _outside(d, logged)
    except KvplanError:
        return None
    return Compared(case, outside, _explanation(d, row) if outside else None)


def _outside(d: Deployment, logged: dict[str, Any]) -> tuple[str, ...]:
    low, high = _ends(d, logged)
    wrong = []
    for key, name, slack in FIGURES:
        if logged[key] is not None and not getattr(low, name) - slack <= logged[key] <= getattr(high, name) + slack:
            wrong.append(f"{name} logged {logged[key]}, computed {getattr(low, name):.7g} to {getattr(high, name):.7g}")
    return tuple(wrong)


def _ends(d: Deployment, logged: dict[str, Any]) -> tuple[Any, Any]:
    low, high = (
        evaluate(replace(d, kv_memory=int((logged["kv_cache_gib"] + side * ROUNDING) * GIB), constants=None)).capacity for side in (-1, 1)
    )
    if low is None or high is None:
        raise KvplanError("the engine would not start")
    return low, high


def _explanation(d: Deployment, row: dict[str, Any]) -> str | None:
    given = dict(d.engine_option)
    for key, value in UNSAID:
        if key not in given and not _outside(replace(d, engine_option=(*d.engine_option, (key, value))), row["logged"]):
            return f"{key}={value}, which the excerpt leaves out"
    high = _ends(d, row["logged"])[1]
    below = [row["logged"][key] / getattr(high, name) for key, name, _ in FIGURES if row["logged"][key] is not None]
    if (d.tp or 1) > 1 and all(1 - RANKS_DIFFER <= share <= 1 for share in below):
        return f"the GiB of one rank, the tokens of the smallest: {100 * (1 - min(below)):.1f} % less"
    return None
