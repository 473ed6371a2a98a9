"""The public functions: find what a question names, ask the planner, return values. Each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name -> the file it is in.
HOMES: dict[str, str] = {
    "check": "manifests",
    "diff": "manifests",
    "emit": "manifests",
    "emitted": "manifests",
    "deployment": "asking",
    "calibrated": "asking",
    "question": "asking",
    "model": "found",
    "import_model": "found",
    "device": "found",
    "estimate": "plans",
    "explain": "plans",
    "models": "plans",
    "devices": "plans",
    "engines": "plans",
    "schema": "plans",
    "fit": "searches",
    "disaggregate": "beyond",
    "compare": "searches",
    "roofline": "searches",
    "Sweep": "searches",
    "sweep": "searches",
    "sweep_ranges": "searches",
    "simulate": "simulation",
    "hit_curve": "hits",
    "tiers": "beyond",
    "transfer": "beyond",
    "validate": "proof",
    "validate_all_kinds": "proof",
    "validate_speed": "proof",
    "keep_receipt": "proof",
    "check_receipt": "proof",
    "keep_overheads": "proof",
    "reconcile": "proof",
    "calibrate": "proof",
    "doctor": "proof",
    "why": "causes",
    "check_vectors": "vectors",
    "answer_vectors": "vectors",
}


#: What has a JSON Schema: what `estimate` and the others return as plain data, and the files that people write (model, device).
SCHEMAS = (
    "plan",
    "simulation",
    "hit-curve",
    "tiers",
    "transfer",
    "fit",
    "disaggregate",
    "compare",
    "roofline",
    "check",
    "devices",
    "models",
    "engines",
    "why",
    "model",
    "device",
)


def __getattr__(name: str) -> Any:
    """A public function by its name."""
    if name not in HOMES:
        raise AttributeError(f"module 'kvplan.api' has no attribute {name!r}")
    return getattr(import_module(f"kvplan.api.{HOMES[name]}"), name)
