"""CSV: a plan as one flat row, its main figures by the contract's names."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from kvplan.planner.plan import Plan


def flat(plan: Plan) -> dict[str, Any]:
    """The question and the main figures of a plan; bytes as integers, empty where there is none."""
    row: dict[str, Any] = {"model": plan.model.id}
    row |= {name: value for name, (value, _) in plan.question.items() if name not in ("model", "engine_option")}
    row |= {
        "parameters": plan.model.parameters,
        "weight_bytes": plan.model.weight_bytes,
        "cache_total_bytes": plan.cache.total_bytes,
        "cache_bytes_per_sequence": plan.cache.bytes_per_sequence,
        "cache_bytes_per_token": plan.cache.bytes_per_token,
        "rank_total_bytes": plan.rank_total_bytes,
        "kv_bytes": plan.capacity.kv_bytes if plan.capacity else None,
        "tokens": plan.capacity.tokens if plan.capacity else None,
        "max_concurrency": plan.capacity.max_concurrency if plan.capacity else None,
        "max_context": plan.capacity.max_context if plan.capacity else None,
        "starts": plan.starts,
        "fits": plan.fits,
        "certainty": plan.certainty,
        "margin_bytes": plan.margin_bytes,
    }
    return row


def plans_text(plans: Sequence[Plan], fmt: str) -> str:
    """A header and a row for each plan."""
    return rows_text([flat(plan) for plan in plans], fmt)


def rows_text(rows: Sequence[dict[str, Any]], fmt: str) -> str:
    """A header and the rows."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()
