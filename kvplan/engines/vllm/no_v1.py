"""Starts that stop between vLLM's two engines: V1 asked for where it can not be run, and V0 in 0.11.0, which has none (generation.py)."""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release as numbers
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.generation import LAST_ORACLE, asked_v1, falls_back


def _asked(settled: Settled) -> Deployment:
    """The question as it was asked: formats that were settled are not options of the engine."""
    d, settling = settled.question, settled.chosen_by
    return replace(d, dtype=None if "dtype" in settling else d.dtype, kv_dtype=None if "kv_dtype" in settling else d.kv_dtype)


def v1_without(settled: Settled) -> Values:
    """VLLM_USE_V1=1 beside what V1 does not have."""
    d = _asked(settled)
    reason = falls_back(d) if asked_v1(d) else None
    return {"feature": reason.named, "said": reason.said} if reason and reason.named else None


def no_v0(settled: Settled) -> Values:
    """V0 chosen, by the variable or by the oracle, in the release that still asks it and has V1 alone."""
    d = _asked(settled)
    if asked_v1(d) or not d.engine_version or numbers(d.engine_version) != numbers(LAST_ORACLE):
        return None
    reason = falls_back(d)
    if asked_v1(d) is None and reason is None:
        return None
    return {"said": reason.said if reason else "VLLM_USE_V1=0"}


_SOURCE = "engine/arg_utils.py _is_v1_supported_oracle"
CHECKS: tuple[Stop, ...] = (
    Stop(
        "V1 asked for",
        "VLLM_USE_V1=1 is not supported with {feature}.",
        "this release runs its V0 engine here and is asked for V1",
        (Move("option:use_v1", "none: it takes V0"), Move("engine_version", "0.11.1 or later")),
        f"{_SOURCE}, _raise_or_fallback",
        since="0.8",
        before="0.11.1",
        when=v1_without,
        numbers="{said}",
    ),
    Stop(
        "no V0",
        "Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False.",
        "0.11.0 still chooses V0 and does not have it any more",
        (Move("option:use_v1", "none"), Move("engine_version", "0.10.2, which has V0, or 0.11.1, which does not ask")),
        f"{_SOURCE}; v1/engine/async_llm.py",
        since="0.11",
        before="0.11.1",
        when=no_v0,
        numbers="{said}",
    ),
)
