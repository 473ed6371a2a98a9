"""Engine command lines as data: name -> the module that holds its table."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from kvplan.manifests.arguments.table import Engine

ENGINES: dict[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "llama.cpp": "llama_cpp",
    "ollama": "ollama",
}


def find(name: str) -> Engine:
    """The command line of an engine of ENGINES."""
    return cast(Engine, import_module(f"kvplan.manifests.arguments.{ENGINES[name]}").ENGINE)
