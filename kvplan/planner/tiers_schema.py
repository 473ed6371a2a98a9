"""The JSON Schema of tiers, `kvplan.tiers/1`. Names may be added; those here do not change meaning."""

from __future__ import annotations

from typing import Any

from kvplan.planner.schema import _INT, _MAYBE_INT, _MAYBE_NUMBER, _NUMBER, _TEXT, PLAN, TIER, _array, _object
from kvplan.planner.tiers import SCHEMA

TIERS: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA,
    **_object({
        "schema": {"const": SCHEMA},
        **{name: PLAN["properties"][name] for name in ("model", "question", "starts", "fits", "verdict", "host")},
        "prefix_tokens": _INT,
        "gpu": _object({"bytes": _INT, "tokens": _MAYBE_INT, "pieces": _MAYBE_INT, "piece_tokens": _MAYBE_INT}, nullable=True),
        "tiers": _array(TIER),
        "loads": _array(_object({
            "place": {"enum": ["cpu", "disk", "remote"]}, "link": _TEXT, "gb_per_s": _NUMBER, "piece_bytes": _INT, "piece_seconds": _NUMBER,
            "prefix_bytes": _INT, "prefix_seconds": _NUMBER, "pays_from": _MAYBE_INT,
        })),
        "recompute_seconds": _MAYBE_NUMBER,
        "notes": _array(_TEXT),
    }),
}  # fmt: skip
