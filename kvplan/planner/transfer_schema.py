"""The JSON Schema of a transfer, `kvplan.transfer/1`. Names may be added; those here do not change meaning."""

from __future__ import annotations

from typing import Any

from kvplan.planner.schema import _INT, _MAYBE_NUMBER, _MAYBE_TEXT, _NUMBER, _TEXT, PLAN, _array, _object
from kvplan.planner.transfer import SCHEMA

_SPLIT = _object({
    "gpus": _INT, "prefill": _INT, "decode": _INT, "requests_per_second": _NUMBER, "bound_by": {"enum": ["prefill", "decode"]},
}, nullable=True)  # fmt: skip
TRANSFER: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA,
    **_object({
        "schema": {"const": SCHEMA},
        **{name: PLAN["properties"][name] for name in ("model", "question")},
        "decode": _object({"device": _MAYBE_TEXT, "tp": _INT, "pp": _INT, "n_devices": _INT}),
        "prompt_tokens": _INT,
        "moved": _array(_object({
            "kind": {"enum": ["full", "window", "state"]}, "groups": _INT, "pieces": _INT, "piece_bytes": _INT, "descriptors": _INT,
            "bytes": _INT,
        })),
        **dict.fromkeys(("rank_bytes", "total_bytes", "sent_bytes", "sources"), _INT),
        "prefill_seconds": _MAYBE_NUMBER,
        "times": _array(_object({"link": _TEXT, "gb_per_s": _NUMBER, "seconds": _NUMBER, "by_layer_seconds": _MAYBE_NUMBER})),
        "workers": _object({
            "prompt_tokens": _INT, "output_tokens": _INT, "decode_batch": _INT, "prefill_per_second": _NUMBER,
            "decode_per_second": _NUMBER, "prefill_per_decode": _NUMBER, "split": _SPLIT,
        }, nullable=True),
        "notes": _array(_TEXT),
    }),
}  # fmt: skip
