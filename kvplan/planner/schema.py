"""The JSON Schema of a plan, `kvplan.plan/1`. Names may be added; those here do not change meaning."""

from __future__ import annotations

from typing import Any, get_args

from kvplan.deployment import NAMES
from kvplan.ledger import PHASES, Basis, Kind
from kvplan.planner.plan import SCHEMA

_INT: dict[str, Any] = {"type": "integer"}
_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_CERTAINTY: dict[str, Any] = {"enum": ["certain", "likely", "too close to call"]}
_MAYBE_BOOL: dict[str, Any] = {"type": ["boolean", "null"]}
_MAYBE_INT: dict[str, Any] = {"type": ["integer", "null"]}
_MAYBE_NUMBER: dict[str, Any] = {"type": ["number", "null"]}


def _object(properties: dict[str, Any], *, nullable: bool = False) -> dict[str, Any]:
    return {"type": ["object", "null"] if nullable else "object", "required": list(properties), "properties": properties}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_ENTRY = _object({
    "name": _TEXT, "bytes": _INT, "low": _INT, "high": _INT,
    "basis": {"enum": list(get_args(Basis))}, "source": _TEXT, "kind": {"enum": list(get_args(Kind))},
    "phases": {"anyOf": [_array({"enum": list(PHASES)}), {"type": "null"}]},
})  # fmt: skip

_GROUP = _object({
    "role": _TEXT, "kind": _TEXT, "layers": _INT, "n_groups": _INT, "block_tokens": _MAYBE_INT, "page_bytes": _MAYBE_INT,
    "cells": _MAYBE_INT, "streams": _MAYBE_INT, "k_bytes": _MAYBE_INT, "v_bytes": _MAYBE_INT, "span": _MAYBE_INT,
    "block_bytes": _MAYBE_INT,
})  # fmt: skip

TIER = _object({
    "place": {"enum": ["cpu", "disk"]}, "system": _TEXT, "what": _TEXT, "setting": _TEXT, "asked_bytes": _INT, "bytes": _INT,
    "pieces": _INT, "piece_bytes": _INT, "piece_tokens": _INT, "tokens": _MAYBE_INT, "ranks": _INT, "shared": {"type": "boolean"},
    "parts": _array(_object({
        "kind": {"enum": ["full", "window", "chunk", "state"]}, "tokens": _INT, "groups": _INT, "load_bytes": _INT, "span": _INT,
    })),
})  # fmt: skip

_ANSWER = _object({"value": {}, "chosen_by": {"enum": ["you", "engine default", "model", "kvplan"]}})

_LAYERS = _object({
    "kind": _TEXT, "layers": _INT, "keep": _TEXT, "bytes_per_sequence": _INT,
    "tensors": _array(_object({"name": _TEXT, "heads": _INT, "elems": _INT, "dtype": _TEXT, "bytes_per_state": _INT})),
})  # fmt: skip

PLAN: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": SCHEMA,
    **_object({
        "schema": {"const": SCHEMA},
        "model": _object({
            "id": _TEXT, "name": _TEXT, "parameters": _INT, "active_parameters": _INT, "mtp_parameters": _INT,
            "weight_bytes": _INT, "notes": _array(_TEXT),
        }),
        "question": _object(dict.fromkeys(("model", *NAMES), _ANSWER)),
        "cache": _object({
            "total_bytes": _INT, "bytes_per_sequence": _INT, "bytes_per_token": _NUMBER, "average_bytes_per_token": _NUMBER,
            "layers": _array(_LAYERS),
            "curve": _array(_object({"from_tokens": _INT, "fixed_bytes": _INT, "bytes_per_token": _NUMBER})),
        }),
        "ledgers": _array(_object({
            "ranks": _array(_INT), "device": {"type": ["string", "null"]}, "cache_bytes": _INT, "cache_bytes_per_token": _NUMBER,
            "entries": _array(_ENTRY), "total_bytes": _INT, "limit_bytes": _MAYBE_INT, "outside": _array(_ENTRY),
            "device_bytes": _MAYBE_INT,
            "peaks": _array(_object({"phase": {"enum": list(PHASES)}, "bytes": _INT, "low": _INT, "high": _INT})),
        })),
        "host": _array(_ENTRY),
        "tiers": _array(TIER),
        "capacity": _object({
            "kv_bytes": _INT, "kv_bytes_low": _INT, "kv_bytes_high": _INT, "blocks": _MAYBE_INT, "block_tokens": _MAYBE_INT,
            "bytes_per_block": _MAYBE_INT, "request_bytes": _INT, "tokens": _MAYBE_INT, "max_concurrency": _MAYBE_NUMBER,
            "mean_concurrency": _MAYBE_NUMBER, "max_context": _MAYBE_INT, "max_context_unbounded": _MAYBE_INT,
            "log_lines": _array(_TEXT), "warnings": _array(_TEXT), "groups": _array(_GROUP),
            "offloaded": {"type": ["array", "null"], "items": _INT, "minItems": 2, "maxItems": 2},
        }, nullable=True),
        "starts": _MAYBE_BOOL, "start_certainty": {"enum": [*_CERTAINTY["enum"], None]}, "survives": _MAYBE_BOOL,
        "risk": _MAYBE_TEXT, "unknown": _MAYBE_TEXT, "split": {"type": "boolean"},
        "risks": _array(_object({
            "name": _TEXT, "bytes": _INT, "low": _INT, "high": _INT, "phase": {"enum": list(PHASES)}, "removes": _TEXT,
        })),
        "fits": _MAYBE_BOOL,
        "certainty": _CERTAINTY,
        "margin_bytes": _MAYBE_INT,
        "verdict": _TEXT,
        "advice": _array(_object({
            "change": _TEXT, "option": _TEXT, "value": {}, "fits": {"type": "boolean"}, "margin_bytes": _INT,
            "certainty": _CERTAINTY, "also": {"type": "object"},
        })),
        "waste": _array(_object({
            "what": _TEXT, "bytes": _INT, "change": _MAYBE_TEXT, "option": _MAYBE_TEXT, "value": {}, "margin_bytes": _MAYBE_INT,
        })),
    }),
}  # fmt: skip
