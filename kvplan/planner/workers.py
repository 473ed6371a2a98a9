"""How many prefill workers feed one decode worker, from the bounds of both (kvplan/roofline.py), and the split of so many GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.limits import with_limits
from kvplan.planner.speed import bounds, decoding


class Split(NamedTuple):
    """Workers of each kind among so many GPUs, and the requests a second that they carry at most. `bound_by`: which of them is full."""

    gpus: int
    prefill: int
    decode: int
    requests_per_second: float
    bound_by: str


class Workers(NamedTuple):
    """One worker of each kind at its bound.

    prefill_per_second, decode_per_second  requests that one carries at most; the second with `decode_batch` at once
    prefill_per_decode                     workers that prefill for each that decodes, where both are as far from their bounds
    split                                  of the GPUs asked about
    """

    prompt_tokens: int
    output_tokens: int
    decode_batch: int
    prefill_per_second: float
    decode_per_second: float
    prefill_per_decode: float
    split: Split | None


def workers(d: Deployment, decode: Deployment, prompt: int, output: int, n_gpus: int | None) -> Workers:
    """Of requests of so many tokens in and out. Raises SpecError without devices, or where the decode worker holds no such request."""
    if d.device is None or decode.device is None:
        raise SpecError("device", [("", "how many workers depends on the device; name one")])
    length = prompt + output
    asked = replace(decode, context=length, batch=decode.batch or 1, max_model_len=None)
    plan = with_limits(asked, evaluate(asked))
    most = plan.capacity.max_batch if plan.capacity is not None and plan.starts else 0
    batch = min(most or 0, decode.batch or most or 0)
    if not batch:
        raise SpecError("output", [("", f"the decode worker holds no request of {length:,} tokens: {plan.verdict}")])
    step = decoding(decode)(length, batch).decode.seconds
    each = bounds(d)(prompt).seconds
    rates = 1 / each, batch / (step * output)
    split = None if n_gpus is None else _split(n_gpus, _gpus(d), _gpus(decode), rates)
    return Workers(prompt, output, batch, rates[0], rates[1], rates[1] / rates[0], split)


def _gpus(d: Deployment) -> int:
    return (d.tp or 1) * (d.pp or 1)


def _split(n_gpus: int, prefill: int, decode: int, rates: tuple[float, float]) -> Split:
    """The workers that carry most; of equal ones those of fewer GPUs. Raises SpecError where not even one of each is there."""
    best: Split | None = None
    for n in range(1, n_gpus // prefill + 1):
        m = (n_gpus - n * prefill) // decode
        if not m:
            break
        carried = min(n * rates[0], m * rates[1])
        if best is None or carried > best.requests_per_second:
            best = Split(n_gpus, n, m, carried, "prefill" if n * rates[0] <= m * rates[1] else "decode")
    if best is None:
        raise SpecError("gpus", [("", f"{n_gpus} are fewer than one worker of each kind: {prefill} and {decode}")])
    return best
