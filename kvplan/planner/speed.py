"""The roofline of a plan's question."""

from __future__ import annotations

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.engines.base import cache_formats, lowered, weight_formats
from kvplan.errors import SpecError
from kvplan.parallel import Layout
from kvplan.planner.evaluate import default_engine
from kvplan.roofline import Roofline, roofline

_RATES = {"f16": "fp16", "bf16": "bf16", "f32": "bf16", "fp8_e4m3": "fp8"}


def speed(d: Deployment) -> Roofline:
    """Bounds on decode and prefill of a question. Raises SpecError without a device, UnsupportedError where it declares no rates."""
    if d.device is None:
        raise SpecError("device", [("", "how fast depends on the device; name one")])
    q = engines.find(d.engine or default_engine(d)).settle(d).question
    device = q.device or d.device
    formats = cache_formats(q)
    rate = _RATES.get(formats.compute, "bf16")
    if rate not in device.dense_tflops and {"fp16", "bf16"} & device.dense_tflops.keys():
        rate = "fp16" if rate == "bf16" else "bf16"
    return roofline(
        lowered(q, formats),
        device,
        weight_formats(q),
        Layout(q.tp or 1, q.pp or 1, q.dp or 1, q.ep or 1, q.dcp or 1),
        context=q.context or 1,
        batch=q.batch or 1,
        rate=rate,
        encoder_tokens=q.encoder_tokens,
    )
