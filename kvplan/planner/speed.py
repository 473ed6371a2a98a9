"""The roofline of a plan's question, and what plans can be ranked by."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common.settling import weight_formats
from kvplan.errors import KvplanError, SpecError
from kvplan.parallel import Layout
from kvplan.roofline import Bound, Roofline, roofline

#: What rows and compared plans can be ranked by.
RANKINGS = ("price", "memory", "tokens_per_second", "first_token", "cost_per_token")
#: What the bounds leave out, for everyone who reads them.
ASSUMPTIONS = (
    "bounds, not predictions: datasheet bandwidth and dense rates, perfectly overlapped; no communication between devices, no launches, "
    "no scheduling; every sequence decodes at the full context; a prompt is read alone, without cached prefixes"
)
SECONDS_PER_HOUR = 3600


class Pace(NamedTuple):
    """Bounds of a whole deployment, all its replicas together.

    tokens_per_second    of decoding, at most; first_token_seconds: of one prompt of the context's length, at least
    cost_per_million     tokens decoded at that rate, in the unit of prices that are per hour of all devices; None without a price
    """

    tokens_per_second: float
    first_token_seconds: float
    cost_per_million: float | None


def pace(d: Deployment, price: float | None = None) -> Pace | None:
    """The bounds of a question; None where its device declares no rates. `price`: per hour, of all its devices."""
    try:
        bounds = speed(d, turn=False)
    except KvplanError:
        return None
    rate = bounds.tokens_per_second * min(d.dp or 1, d.batch or 1)
    return Pace(rate, bounds.first_token_seconds, None if price is None else price / (rate * SECONDS_PER_HOUR) * 1e6)


def worth(pace: Pace | None, by: str) -> float | None:
    """What a ranking by speed sorts by, the smaller the better; None where it has no figure."""
    if pace is None:
        return None
    return {
        "tokens_per_second": -pace.tokens_per_second,
        "first_token": pace.first_token_seconds,
        "cost_per_token": pace.cost_per_million,
    }.get(by)


_RATES = {"f16": "fp16", "bf16": "bf16", "f32": "bf16", "fp8_e4m3": "fp8"}


def speed(d: Deployment, *, turn: bool = True, unrated: bool = False) -> Roofline:
    """Bounds on decode and prefill of a question; turn=False leaves out `compute_bound_batch`, which takes most of the time.

    unrated  a device without an arithmetic rate is bounded by its memory alone (`Roofline.rated`)
    Raises SpecError without a device, UnsupportedError where it declares no rates.
    """
    q, at = _read(d)
    return at(context=q.context or 1, batch=q.batch or 1, turn=turn, unrated=unrated)


def bounds(d: Deployment) -> Callable[[int], Bound]:
    """The bound on a prompt of so many tokens, alone. Raises as `speed` does, at once."""
    _, at = _read(d)
    at(context=1, batch=1, turn=False)
    return lambda tokens: at(context=tokens, batch=1, turn=False).prefill


def decoding(d: Deployment) -> Callable[[int, int], Roofline]:
    """The bounds at so many tokens of each of so many sequences. Raises as `speed` does, at once."""
    _, at = _read(d)
    at(context=1, batch=1, turn=False)
    return lambda tokens, sequences: at(context=tokens, batch=sequences, turn=False)


def _read(d: Deployment) -> tuple[Deployment, Callable[..., Roofline]]:
    """The question as its engine settles it, and its roofline over context and batch."""
    if d.device is None:
        raise SpecError("device", [("", "how fast depends on the device; name one")])
    engine, settled = engines.settle(d)
    q = settled.question
    device = q.device or d.device
    rate = _RATES.get(canonical(q.dtype or q.model.dtype), "bf16")
    if rate not in device.dense_tflops and {"fp16", "bf16"} & device.dense_tflops.keys():
        rate = "fp16" if rate == "bf16" else "bf16"
    tp, dp = q.tp or 1, q.dp or 1
    ep = tp * dp if dp > 1 and engine.facts.shares_experts else q.ep or 1  # a rank reads as much of experts that are split
    layout = Layout(tp, q.pp or 1, dp, ep, q.dcp or 1)
    return q, partial(roofline, settled.model, device, weight_formats(q), layout, rate=rate, encoder_tokens=q.encoder_tokens)
