"""Why vLLM would not start, in its own words."""

from __future__ import annotations

from kvplan.engines.vllm.rules import VllmRules
from kvplan.units import GIB

_DOCS = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
_CPU = "(which also controls CPU memory on the CPU backend) "


class Refused(Exception):
    """vLLM would stop with this message. Never leaves the engine: it becomes an outcome."""


def gib(n_bytes: int, rules: VllmRules) -> str:
    """GiB as the release prints it: two decimals up to 0.13, rounded to two and trailing zeros dropped from 0.14 on (`format_gib`)."""
    return f"{n_bytes / GIB:.2f}" if rules.refusal == "old" else str(round(n_bytes / GIB, 2))


def no_memory(rules: VllmRules) -> str:
    """Nothing is left for the cache."""
    cpu = " (this flag also controls CPU memory reservation on the CPU backend, despite its name)" if rules.refusal == "cpu" else ""
    docs = "" if rules.refusal in ("v0", "old") else " " + _DOCS
    return f"No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine{cpu}.{docs}"


def too_long(rules: VllmRules, max_model_len: int, needed: int, available: int, estimate: int) -> str:
    """One longest request does not fit."""
    if rules.refusal == "v0":
        return (
            f"The model's max seq len ({max_model_len}) is larger than the maximum number of tokens that can be stored in KV cache "
            f"({estimate}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
        )
    whose = "model's" if rules.refusal == "cpu" else "models's"
    based = f"Based on the available memory, the estimated maximum model length is {estimate}. " if estimate > 0 else ""
    cpu = _CPU if rules.refusal == "cpu" else ""
    docs = "" if rules.refusal == "old" else " " + _DOCS
    return (
        f"To serve at least one request with the {whose} max seq len ({max_model_len}), ({gib(needed, rules)} GiB KV cache is needed, "
        f"which is larger than the available KV cache memory ({gib(available, rules)} GiB). {based}Try increasing "
        f"`gpu_memory_utilization` {cpu}or decreasing `max_model_len` when initializing the engine.{docs}"
    )
