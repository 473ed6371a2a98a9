"""What a plan under SGLang says, by the names of SGLang's own figures."""

from __future__ import annotations

import re
from typing import Any

from kvplan.planner.plan import Plan


def format_asked(said: str, release: str) -> str | None:
    """A row's format of the cache: `fp4` was asked for by the name that the release has for blocks of 16 (run_release.py); from 0.5.21
    on nvfp4 is another recipe, of as many bytes, which other backends read."""
    numbers = tuple(int(n) for n in re.findall(r"[0-9]+", release)[:3])
    return {"auto": None, "fp4": "fp4_mx_block16" if numbers >= (0, 5, 18) else "nvfp4"}.get(said, said)


def figures(plan: Plan) -> dict[str, Any]:
    """Tokens of both pools, state slots, running requests, chunk, page and bytes; the verdict where there are none."""
    c = plan.capacity
    if c is None:
        return {"error": plan.verdict}
    cells = {group.role: group.cells for group in c.groups}
    running = re.search(r"max_running_requests=(\d+)", c.log_lines[-1])
    chunk = re.search(r"chunked_prefill_size=(-?\d+)", c.log_lines[-1])
    assert running is not None
    assert chunk is not None
    return {
        "max_total_num_tokens": c.tokens,
        "full_max_total_num_tokens": cells.get("full", 0),
        "swa_max_total_num_tokens": cells.get("window"),
        "max_mamba_cache_size": cells.get("state"),
        "running": int(running[1]),
        "chunked_prefill_size": int(chunk[1]),
        "page_size": c.block_tokens,
        "bytes": c.kv_bytes,
    }


def differing(ours: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Name -> (the release's, ours) where they differ."""
    theirs = row.get("out") or {"error": row["error"]}
    if "error" in ours or "error" in theirs:
        return {} if "error" in ours and "error" in theirs else {"error": (theirs.get("error"), ours.get("error"))}
    return {key: (value, ours.get(key)) for key, value in theirs.items() if ours.get(key) != value}
