"""The public functions: find what a question names, ask the planner, return values. Each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: The files of this folder and the public names in them.
_IN = {
    "manifests": "check diff emit emitted",
    "asking": "deployment calibrated question",
    "found": "model import_model device",
    "plans": "estimate explain models devices engines schema",
    "searches": "fit compare roofline Sweep sweep sweep_ranges",
    "beyond": "disaggregate tiers transfer",
    "simulation": "simulate",
    "hits": "hit_curve",
    "proof": "validate validate_all_kinds validate_speed keep_receipt check_receipt keep_overheads reconcile calibrate doctor",
    "causes": "why",
    "vectors": "check_vectors answer_vectors",
}
HOMES = {name: home for home, names in _IN.items() for name in names.split()}
#: What has a JSON Schema: what `estimate` and the others return as plain data, and the files that people write (model, device).
SCHEMAS = (
    "plan", "simulation", "hit-curve", "tiers", "transfer", "fit", "disaggregate", "compare", "roofline", "check", "devices", "models",
    "engines", "why", "model", "device",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public function by its name."""
    if name not in HOMES:
        raise AttributeError(f"module 'kvplan.api' has no attribute {name!r}")
    return getattr(import_module(f"kvplan.api.{HOMES[name]}"), name)
