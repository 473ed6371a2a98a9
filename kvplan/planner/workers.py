"""How many prefill workers feed one decode worker, from the bounds of both (kvplan/roofline.py), and the split of so many GPUs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import SpecError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.limits import with_limits
from kvplan.planner.speed import bounds, decoding
from kvplan.units import longest


class Split(NamedTuple):
    """Workers of each kind among so many GPUs, and the requests a second that they carry at most. `bound_by`: which of them is full."""

    gpus: int
    prefill: int
    decode: int
    requests_per_second: float
    bound_by: Literal["prefill", "decode"]


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


class Worker(NamedTuple):
    """One worker at its bound: its question, GPUs, requests a second at most, how many at once, and what a prompt or a step takes."""

    asked: Deployment
    gpus: int
    per_second: float
    batch: int
    seconds: float

    @property
    def tp(self) -> int:
        """Its tensor parallel size."""
        return self.asked.tp or 1


def prefiller(d: Deployment, prompt: int) -> Worker:
    """A worker that computes prompts of so many tokens one after the other."""
    seconds = bounds(d)(prompt).seconds
    return Worker(d, _gpus(d), 1 / seconds, 1, seconds)


def decoder(d: Deployment, prompt: int, output: int, per_token: float | None = None) -> Worker:
    """A worker that decodes as many requests as it holds at their full length, or fewer so that a step takes `per_token` seconds at most.

    Raises SpecError where it holds none, or takes longer for one.
    """
    length = prompt + output
    asked = replace(d, context=length, batch=d.batch or 1, max_model_len=None)
    plan = with_limits(asked, evaluate(asked))
    most = plan.capacity.max_batch if plan.capacity is not None and plan.starts else 0
    batch = min(most or 0, d.batch or most or 0)
    if not batch:
        raise SpecError("output", [("", f"the decode worker holds no request of {length:,} tokens: {plan.verdict}")])
    at = decoding(d)
    if per_token is not None:
        batch = longest(lambda n: at(length, n).decode.seconds <= per_token, batch)
        if not batch:
            raise SpecError("per_token", [("", f"a step takes {at(length, 1).decode.seconds * 1e3:.3g} ms at least")])
    step = at(length, batch).decode.seconds
    return Worker(d, _gpus(d), batch / (step * output), batch, step)


def workers(d: Deployment, decode: Deployment, prompt: int, output: int, n_gpus: int | None) -> Workers:
    """Of requests of so many tokens in and out. Raises SpecError without devices, or where the decode worker holds no such request."""
    if d.device is None or decode.device is None:
        raise SpecError("device", [("", "how many workers depends on the device; name one")])
    one, other = prefiller(d, prompt), decoder(decode, prompt, output)
    split = None if n_gpus is None else best_split(n_gpus, one, other)
    if split is None and n_gpus is not None:
        raise SpecError("gpus", [("", f"{n_gpus} are fewer than one worker of each kind: {one.gpus} and {other.gpus}")])
    split = split and split._replace(gpus=n_gpus or 0)
    return Workers(prompt, output, other.batch, one.per_second, other.per_second, other.per_second / one.per_second, split)


def _gpus(d: Deployment) -> int:
    return (d.tp or 1) * (d.pp or 1)


def best_split(n_gpus: int, one: Worker, other: Worker) -> Split | None:
    """The workers that carry most; of equal ones those of fewer GPUs. None where not even one of each is there."""
    best: Split | None = None
    for n in range(1, n_gpus // one.gpus + 1):
        m = (n_gpus - n * one.gpus) // other.gpus
        if not m:
            break
        found = _split(n, m, one, other)
        if best is None or found.requests_per_second > best.requests_per_second:
            best = found
    if best is None:
        return None
    return fewest(best.requests_per_second, one, other)


def fewest(rate: float, one: Worker, other: Worker) -> Split:
    """As few workers of each kind as carry so many requests a second."""
    n, m = (max(_ceil(rate / worker.per_second), 1) for worker in (one, other))
    return _split(n, m, one, other)


def _ceil(x: float) -> int:
    """Upwards, but for what the arithmetic of floats adds to a whole number."""
    return math.ceil(x * (1 - 1e-12))


def _split(n: int, m: int, one: Worker, other: Worker) -> Split:
    rates = n * one.per_second, m * other.per_second
    return Split(n * one.gpus + m * other.gpus, n, m, min(rates), "prefill" if rates[0] <= rates[1] else "decode")
