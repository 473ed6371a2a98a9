"""kvplan: does this model, at this context and concurrency, fit this hardware? Bytes of weights and cache, exactly."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api.asking import deployment
    from kvplan.api.beyond import disaggregate, tiers, transfer
    from kvplan.api.causes import why
    from kvplan.api.found import device, import_model, model
    from kvplan.api.hits import hit_curve
    from kvplan.api.manifests import check, diff, emit
    from kvplan.api.plans import devices, estimate, explain, models, schema
    from kvplan.api.proof import calibrate, check_receipt, doctor, keep_receipt, reconcile, validate, validate_all_kinds, validate_speed
    from kvplan.api.searches import compare, fit, roofline, sweep, sweep_ranges
    from kvplan.api.simulation import simulate
    from kvplan.errors import KvplanError
    from kvplan.planner.plan import Plan

__version__ = "0.1.0"
__all__ = [
    "KvplanError",
    "Plan",
    "__version__",
    "calibrate",
    "check",
    "check_receipt",
    "compare",
    "deployment",
    "device",
    "devices",
    "diff",
    "disaggregate",
    "doctor",
    "emit",
    "engines",
    "estimate",
    "explain",
    "fit",
    "hit_curve",
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
    "tiers",
    "transfer",
    "validate",
    "validate_all_kinds",
    "validate_speed",
    "why",
]


#: Public names that are no function of `kvplan.api`; `engines` is the package of them, and a call of it lists them.
_HOMES = {"KvplanError": "kvplan.errors", "Plan": "kvplan.planner.plan"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import kvplan` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    if name == "engines":
        return import_module("kvplan.engines")
    return getattr(import_module(_HOMES.get(name, "kvplan.api")), name)


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps a public function's name its own where a submodule has the same one (kvplan.devices)."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "engines" and isinstance(value, ModuleType):
            value.__class__ = _Engines
        if name not in __all__ or not isinstance(value, ModuleType) or name == "engines":
            super().__setattr__(name, value)


class _Engines(ModuleType):
    """`kvplan.engines`, which code imports from, and which `kvplan.engines()` asks what every engine is."""

    def __call__(self, name: str | None = None) -> Any:
        from kvplan.api.plans import engines

        return engines(name)


sys.modules[__name__].__class__ = _Package
