"""What an engine does by itself where a model does not fit its devices whole: layers stay in RAM, and it runs.

llama.cpp from --fit on, and Ollama, place layers by the memory that they measure; a question that says neither how many (n_gpu_layers)
nor how much RAM there is (host_memory) is one they answer so: the plan is `split`, and `starts` and `fits` stay those of the whole model on
its devices. With host_memory the split is what was asked for, and that bounds it.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.errors import KvplanError
from kvplan.ledger import HOST
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.units import LARGEST, show_bytes

#: RAM that no context or batch which may be asked for (planner/limits.py MOST) comes near.
ENDLESS = LARGEST**2


def with_offload(d: Deployment, plan: Plan, *, limits: bool = True) -> tuple[Deployment, Plan]:
    """The question and the plan as they are, or with the layers in RAM that its engine would leave there; `limits` as for `evaluate`."""
    if plan.fits is not False or not _open(d, plan):
        return d, plan
    asked = replace(d, host_memory=ENDLESS, assumed=(*d.assumed, "host_memory"))
    try:
        found = evaluate(asked, limits=limits)
    except KvplanError:
        return d, plan
    return (asked, _said(found, plan)) if found.fits else (d, plan)


def _open(d: Deployment, plan: Plan) -> bool:
    """Whether the engine is free to leave layers out of a device that has memory of its own."""
    chosen = (d.n_gpu_layers, d.host_memory, d.kv_memory) != (None, None, None)
    return engines.facts(plan.asked("engine")).offloads and d.device is not None and not d.device.unified and not chosen


def in_ram(plan: Plan) -> int:
    """Bytes that the plan holds beside its devices."""
    return sum(ledger.total_bytes for ledger in plan.ledgers if ledger.device == HOST)


def layers_said(plan: Plan) -> str:
    """`35 of 81 layers on the GPU and 28.2 GiB in RAM`, or whose experts are there; empty where all is on the devices."""
    capacity = plan.capacity
    if capacity is None or capacity.offloaded is None:
        return ""
    on, of = capacity.offloaded
    if on == of and not capacity.beside:
        return ""
    held = f"{show_bytes(in_ram(plan))} in RAM"
    if not capacity.beside:
        return f"{on:,} of {of:,} layers on the GPU and {held}"
    layers = f"{on:,} of {of:,} layers on the GPU, " if on < of else ""
    return f"{layers}the experts of {capacity.beside} layers beside the GPU and {held}"


def _said(plan: Plan, whole: Plan) -> Plan:
    """Without the bound that stands for none, and with what the whole model lacks on its devices."""
    reason, found = f"not all of it is on the device: {layers_said(plan)}", plan.outcome
    ledgers = tuple(ledger._replace(limit_bytes=None) if ledger.device == HOST else ledger for ledger in found.ledgers)
    outcome = whole.outcome._replace(ledgers=ledgers, capacity=found.capacity, limiting_rank=found.limiting_rank)
    outcome = outcome._replace(starts=False, fits=False, reason=reason, split=True)
    asked = f"{plan.asked('batch')} x {plan.asked('context'):,} tokens of {plan.model.known_as or plan.model.id}"
    question = {**plan.question, "host_memory": (None, "kvplan")}
    return plan._replace(question=question, outcome=outcome, verdict=f"{asked} runs split, {reason}")
