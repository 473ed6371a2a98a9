"""SGLang's pools beside public starts: rows of tests/threads that tell the tokens of a pool that SGLang sized itself.

No constant is fitted to them: tools/fit_engines.py has logs of its own. `python tools/sglang_starts.py` lists them, the farthest off last.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from engine_arithmetic import cache_of
from own_logs import source_of
from threads import SETS, STARTED, cases

from kvplan import api
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB


class Start(NamedTuple):
    """A pool as a share of its device: `error` is predicted less logged; `held`: the interval has it."""

    case: str
    source: str
    unified: bool
    error: float
    held: bool


def starts() -> Iterator[Start]:
    """Those whose tokens give bytes by the engine's own arithmetic (`cache_of`)."""
    for case in (case for file in SETS.values() for case in cases(file)):
        asked, tokens = dict(case["kvplan"]), case.get("logged", {}).get("kv_tokens")
        sized = asked["engine"] == "sglang" and STARTED[case["outcome"]] and not case.get("weak") and isinstance(tokens, int)
        if not sized or "max_total_tokens" in asked.get("engine_option", {}):
            continue
        try:
            d = api.deployment(asked.pop("model"), batch=1, **asked)
            logged, plan = cache_of(d, {"kv_tokens": tokens}), evaluate(d, limits=False)
        except KvplanError:
            continue
        if logged is None or d.device is None:
            continue
        found = plan.capacity.tokens if plan.capacity else None
        predicted = cache_of(d, {"kv_tokens": found}) if found else None
        pool = next((entry for entry in plan.ledgers[0].entries if entry.name == "cache: full pool" and entry.bytes), None)
        held = bool(found and pool and found * pool.low <= tokens * pool.bytes <= found * pool.high)
        yield Start(case["id"], source_of(case), d.device.unified, ((predicted or 0) - logged) * GIB / d.device.memory_bytes, held)


def counted(found: Sequence[Start]) -> list[dict[str, Any]]:
    """A row for cards and boards, and one for memory that the host shares: errors in percent of the device."""
    rows = []
    for unified in (False, True):
        mine = [one for one in found if one.unified is unified]
        errors = sorted(100 * abs(one.error) for one in mine)
        rows.append({
            "what": "memory that the host shares" if unified else "cards and boards",
            "starts": len(mine),
            "sources": len({one.source for one in mine}),
            "median": round(errors[len(errors) // 2], 1),
            "ninth": round(errors[len(errors) * 9 // 10], 1),
            "held": sum(one.held for one in mine),
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    for one in sorted(starts(), key=lambda one: abs(one.error)):
        print(f"{100 * one.error:7.2f} %  {'held' if one.held else '    '}  {one.case}")
