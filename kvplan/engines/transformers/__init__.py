"""Hugging Face transformers."""

from __future__ import annotations

from kvplan.engines.transformers.engine import ENGINE

__all__ = ["ENGINE"]
