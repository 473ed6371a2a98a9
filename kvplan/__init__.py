"""kvplan: does this model, at this context and concurrency, fit this hardware? Bytes of weights and cache, exactly."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api.asking import deployment, device, import_model, model
    from kvplan.api.causes import why
    from kvplan.api.manifests import check, diff, emit
    from kvplan.api.plans import devices, estimate, explain, models, schema
    from kvplan.api.proof import calibrate, check_receipt, doctor, keep_receipt, reconcile, validate, validate_all_kinds, validate_speed
    from kvplan.api.searches import compare, fit, roofline, sweep, sweep_ranges
    from kvplan.api.simulation import simulate
    from kvplan.errors import KvplanError

__version__ = "0.1.0"
__all__ = [
    "KvplanError",
    "__version__",
    "calibrate",
    "check",
    "check_receipt",
    "compare",
    "deployment",
    "device",
    "devices",
    "diff",
    "doctor",
    "emit",
    "estimate",
    "explain",
    "fit",
    "import_model",
    "keep_receipt",
    "model",
    "models",
    "reconcile",
    "roofline",
    "schema",
    "simulate",
    "sweep",
    "sweep_ranges",
    "validate",
    "validate_all_kinds",
    "validate_speed",
    "why",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import kvplan` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("kvplan.errors" if name == "KvplanError" else "kvplan.api"), name)


class _Package(ModuleType):
    """Keeps a public function's name its own where a submodule has the same one (kvplan.devices)."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in __all__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
