"""Prompt tokens found in a prefix cache, by its size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from kvplan.api.asking import asked
from kvplan.extras import missing
from kvplan.spec import ModelSpec

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.api.simulation import Watch
    from kvplan.planner.hits import HitCurve


def hit_curve(
    model: str | ModelSpec,
    *,
    workload: str | None = None,
    rate: float | None = None,
    burstiness: float = 1.0,
    requests: int | None = None,
    seed: int = 0,
    prompt_lengths: str | int | None = None,
    output_lengths: str | int | None = None,
    prefixes: int = 0,
    prefix_tokens: int = 0,
    branch: int = 0,
    depth: int = 1,
    turns: int = 1,
    think_seconds: float = 10.0,
    samples: int = 1,
    trace: str | None = None,
    trace_format: str | None = None,
    bounds: bool = True,
    watch: Watch | None = None,
    **question: Unpack[Question],
) -> HitCurve:
    """The share of prompt tokens found in the cache of `model`'s engine, for every size of it, requests one after another.

    workload to trace_format   the requests, as in `simulate`
    bounds     also what first in, first out and the best possible eviction find at the sizes shown (keeps all requests in memory)
    question   the names of `estimate`; a device or kv_memory adds the size that the plan's own pool has

    Returns a HitCurve. Raises KvplanError for bad input, and where the engine shares no prefixes. Needs numpy (the `simulate` extra).

    >>> found = hit_curve("meta-llama/llama-3.1-8b", engine="vllm", max_model_len="4k", requests=50, prefixes=2, prefix_tokens=160)
    >>> found.at(found.working_set) == found.most
    True
    """
    try:
        from kvplan.planner.hits import curve
    except ImportError:
        raise missing("hit_curve needs numpy", "simulate") from None
    from kvplan.api.simulation import requested

    d = asked(model, **question)
    replica, described, notes = requested(
        d, rate, burstiness, requests, seed, trace, trace_format, watch, workload=workload, prompt_lengths=prompt_lengths,
        output_lengths=output_lengths, prefixes=prefixes, prefix_tokens=prefix_tokens, branch=branch, depth=depth, turns=turns,
        samples=samples, beams=1, think_seconds=think_seconds,
    )  # fmt: skip
    return curve(d, replica, described, bounds=bounds, notes=notes)
