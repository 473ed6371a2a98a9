"""kvplan: does this model, at this context and concurrency, fit this hardware? Bytes of weights and cache, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api import compare, deployment, estimate, explain, fit
    from kvplan.errors import KvplanError

__version__ = "0.1.0"
__all__ = ["KvplanError", "__version__", "compare", "deployment", "estimate", "explain", "fit"]



def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import kvplan` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("kvplan.errors" if name == "KvplanError" else "kvplan.api"), name)
