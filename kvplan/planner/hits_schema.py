"""The JSON Schema of a hit curve, `kvplan.hit-curve/1`. Names may be added; those here do not change meaning."""

from __future__ import annotations

from typing import Any

from kvplan.planner.hits import SCHEMA
from kvplan.planner.schema import _array, _object
from kvplan.planner.simulation_schema import _INT, _MAYBE_NUMBER, _NUMBER, _TEXT, SIMULATION

_POINT = _object({"pages": _INT, "tokens": _INT, "bytes": _INT, "found": _NUMBER, "fifo": _MAYBE_NUMBER, "optimum": _MAYBE_NUMBER})
_ASKED = ("model", "question", "starts", "fits", "verdict", "workload")
_COUNTS = ("page_tokens", "page_bytes", "requests", "too_long", "asked_tokens", "smallest", "working_set", "again", "one_in")

HIT_CURVE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA,
    **_object({
        "schema": {"const": SCHEMA},
        **{name: SIMULATION["properties"][name] for name in _ASKED},
        "method": {"enum": ["stack distance", "runs", "samples", "none"]},
        **dict.fromkeys(_COUNTS, _INT),
        "most": _NUMBER,
        "points": _array(_POINT),
        "pool": {"anyOf": [{"type": "null"}, _POINT]},
        "batched": _MAYBE_NUMBER,
        "tiers": _array(_object({"place": _TEXT, "system": _TEXT, "tokens": _INT, "found": _NUMBER, "adds": _NUMBER})),
        "notes": _array(_TEXT),
    }),
}  # fmt: skip
