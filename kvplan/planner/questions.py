"""Searches over `evaluate`: the single changes that make a plan fit. Each is evaluated, none is guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Advice, Plan


def advise(d: Deployment, plan: Plan, devices: Sequence[Device] = ()) -> tuple[Advice, ...]:
    """Single changes after which the plan fits, cheapest first: formats and settings, then less work, then more hardware."""
    if plan.fits is not False:
        return ()
    found: dict[str, Advice] = {}
    for change, option, value, changed in _candidates(d, plan, devices):
        if option in found:
            continue  # a smaller change of the same kind already does
        try:
            tried = evaluate(changed)
        except KvplanError:
            continue  # this model or engine can not be asked that
        if tried.fits:
            shown = value.id if isinstance(value, Device) else value
            found[option] = Advice(change=change, option=option, value=shown, fits=True, margin_bytes=tried.margin_bytes or 0)
    return tuple(found.values())


def _candidates(d: Deployment, plan: Plan, devices: Sequence[Device]) -> Iterator[tuple[str, str, Any, Deployment]]:
    asked = {name: value for name, (value, _) in plan.question.items()}
    compute_is_wide = asked["dtype"] in ("f32", "f16", "bf16")
    if compute_is_wide and asked["kv_dtype"] == "auto" and d.model.kv_dtype is None:
        yield "store the cache in 8 bits", "kv_dtype", "fp8", replace(d, kv_dtype="fp8")
    if asked["weight_dtype"] in ("f32", "f16", "bf16"):
        for name, text in (("fp8", "8"), ("int4_g128", "4")):
            yield f"use a checkpoint with {text}-bit weights", "weight_dtype", name, replace(d, weight_dtype=name)
    capacity = plan.capacity
    if capacity and capacity.max_context_at_batch:
        tokens = capacity.max_context_at_batch
        if tokens < asked["context"]:
            longest = min(d.max_model_len, tokens) if d.max_model_len else None
            yield (
                f"shorten the context to {tokens:,} tokens",
                "context",
                tokens,
                replace(d, context=tokens, max_model_len=longest),
            )
    if capacity and capacity.max_batch:
        batch = capacity.max_batch * asked["dp"]
        if batch < asked["batch"]:
            yield f"hold {batch:,} sequences at once", "batch", batch, replace(d, batch=batch)
    if d.kv_memory is None:
        for tp in (2, 4, 8, 16):
            if tp > asked["tp"] and d.n_devices is None:
                yield f"split over {tp} devices", "tp", tp, replace(d, tp=tp)
    if d.device and d.kv_memory is None:
        larger = sorted((x for x in devices if x.memory_bytes > d.device.memory_bytes), key=lambda x: (x.memory_bytes, x.id))
        for device in larger:
            changed = replace(d, device=device)
            if evaluate(changed).fits:
                yield f"use a {device.name}", "device", device, changed
                break
