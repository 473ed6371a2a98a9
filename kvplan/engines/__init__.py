"""The engines: name -> module. A module is read only when a question names its engine."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from kvplan.engines.common.protocol import Engine
from kvplan.errors import UnknownName

ENGINES: dict[str, str] = {
    "ideal": "ideal.plan",
    "vllm": "vllm.plan",
    "llama.cpp": "llama_cpp.plan",
    "ollama": "llama_cpp.ollama",
    "transformers": "transformers.plan",
    "mlx-lm": "mlx_lm.plan",
    "exllamav3": "exllamav3.plan",
    "sglang": "sglang.plan",
    "tensorrt-llm": "tensorrt_llm.plan",
}


def find(name: str) -> Engine:
    """The engine of that name. Raises UnknownName."""
    key = name.strip().lower()
    if key not in ENGINES:
        raise UnknownName("engine", name, list(ENGINES))
    return cast(Engine, import_module(f"kvplan.engines.{ENGINES[key]}").ENGINE)
