"""llama.cpp and, as data, Ollama."""

from __future__ import annotations

from kvplan.engines.llama_cpp.engine import ENGINE

__all__ = ["ENGINE"]
