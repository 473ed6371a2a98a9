"""kvplan: does this model, at this context and concurrency, fit this hardware? Bytes of weights and cache, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api import deployment, estimate, explain
    from kvplan.errors import KvplanError

__version__ = "0.1.0"
__all__ = ["KvplanError", "__version__", "deployment", "estimate", "explain"]

_HOMES = {"deployment": "kvplan.api", "estimate": "kvplan.api", "explain": "kvplan.api", "KvplanError": "kvplan.errors"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import kvplan` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
