"""The engines: name -> package. A package is read only when a question names its engine."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from kvplan.deployment import Deployment
from kvplan.engines.common import checks
from kvplan.engines.common.protocol import Engine, Facts, Settled
from kvplan.errors import UnknownName

ENGINES: dict[str, str] = {
    "ideal": "ideal",
    "vllm": "vllm",
    "llama.cpp": "llama_cpp",
    "ollama": "llama_cpp.ollama",
    "transformers": "transformers",
    "mlx-lm": "mlx_lm",
    "exllamav3": "exllamav3",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
}


def find(name: str) -> Engine:
    """The engine of that name. Raises UnknownName."""
    return cast(Engine, import_module(f"kvplan.engines.{_package(name)}.plan").ENGINE)


def facts(name: str) -> Facts:
    """What is known of it without running it. Raises UnknownName."""
    return cast(Facts, import_module(f"kvplan.engines.{_package(name)}.facts").FACTS)


def _package(name: str) -> str:
    key = name.strip().lower()
    if key not in ENGINES:
        raise UnknownName("engine", name, list(ENGINES))
    return ENGINES[key]


def default(d: Deployment) -> str:
    """vllm where there is a device to fill, else ideal."""
    return "ideal" if d.device is None else "vllm"


def settle(d: Deployment) -> tuple[Engine, Settled]:
    """The question's engine, and the question as that engine understands it.

    Raises SpecError for values it does not take, UnsupportedError for forms of cache that it does not model.
    """
    engine = find(d.engine or default(d))
    checks.check_question(d, engine.facts)
    settled = engine.settle(d)
    checks.check_forms(settled, engine.facts)
    notes = (*settled.notes, *checks.unused(d, engine.facts), *checks.foreign_checkpoint(d, engine.facts))
    return engine, settled._replace(notes=notes)
