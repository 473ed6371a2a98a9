"""A question under a workload: its plan's pool, policies side by side, and the pool and devices at which a share of requests never waits
for pages twice. The simulator itself is `kvplan.simulate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.errors import KvplanError, UnsupportedError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.layouts import layouts
from kvplan.planner.plan import Plan
from kvplan.planner.speed import speed
from kvplan.simulate.geometry import Geometry, from_plan
from kvplan.simulate.result import SimulationResult
from kvplan.simulate.run import DEFAULT_STEP, MAX_SEQS, enough, pool_for, simulate
from kvplan.simulate.steptime import StepTime, from_roofline
from kvplan.simulate.workload import Request

SCHEMA = "kvplan.simulation/1"
#: Where the roofline is taken: it is a line in kept tokens, and routed experts are read as by this many sequences.
_CONTEXT, _BATCH = 1024, 64

#: The requests of one of n replicas, the same at every call.
Replica = Callable[[int], Iterable[Request]]


class Size(NamedTuple):
    """How large the pool must be for `share` of the requests never to wait for pages, nor to be preempted.

    pages, kv_bytes        of one replica; bytes of a rank
    n_devices, tp, pp, dp  the fewest devices whose own pool does it, None where no device was named or none of up to `most` does
    result                 of the workload at that many pages
    """

    share: float
    pages: int
    kv_bytes: int
    n_devices: int | None
    tp: int | None
    pp: int | None
    dp: int | None
    result: SimulationResult


class Simulation(NamedTuple):
    """What a workload does to a plan's pool; `as_dict()` is the JSON (`kvplan schema simulation`). No policies where it does not start."""

    plan: Plan
    workload: Mapping[str, Any]
    page_tokens: int
    page_bytes: int
    step_time: StepTime
    policies: tuple[SimulationResult, ...]
    size: Size | None
    notes: tuple[str, ...]

    def question(self, name: str) -> Any:
        """What the plan's question has under a name."""
        return self.plan.question[name][0]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it (schema `kvplan.simulation/1`)."""
        plan = self.plan.as_dict()
        size = None if self.size is None else self.size._asdict() | {"result": self.size.result.as_dict()}
        return {
            "schema": SCHEMA,
            **{name: plan[name] for name in ("model", "question", "starts", "fits", "verdict")},
            "workload": dict(self.workload),
            "page_tokens": self.page_tokens,
            "page_bytes": self.page_bytes,
            "step_time": self.step_time._asdict(),
            "policies": [result.as_dict() for result in self.policies],
            "size": size,
            "notes": list(self.notes),
        }


def step_time(d: Deployment, overhead: float = 0.0) -> tuple[StepTime, str]:
    """Seconds of a step by the device's roofline, and what is to be said of them; a fixed time where there is no device with rates.

    overhead  seconds added to what the roofline says
    """
    if d.device is None or d.device.bandwidth_gb_per_s is None or not d.device.dense_tflops:
        return DEFAULT_STEP, f"every step takes {DEFAULT_STEP.overhead * 1000:g} ms, an assumption: give step_time, or a device with rates"
    length = min(_CONTEXT, d.max_model_len or d.model.max_context or _CONTEXT)
    bound = speed(replace(d, context=length, batch=_BATCH * (d.dp or 1)))
    return from_roofline(
        bound, length, _BATCH, overhead
    ), "steps take what datasheet rates allow and step_overhead; real ones are slower: give step_time"


def simulated(
    d: Deployment,
    replica: Replica,
    described: Mapping[str, Any],
    *,
    policies: Sequence[str],
    steps: StepTime | None,
    overhead: float,
    size_for: float | None,
    most: int,
    notes: Sequence[str] = (),
    **settings: Any,
) -> Simulation:
    """The simulation of a question.

    steps     None: the roofline's, each with `overhead` seconds more
    size_for  share of requests that should neither wait for pages nor be preempted, for the sizing answer
    most      devices to try for it
    settings  what `kvplan.simulate.run.simulate` takes
    """
    plan = evaluate(d)
    said = list(notes)
    if plan.starts is False:
        return Simulation(plan, described, 0, 0, steps or DEFAULT_STEP, (), None, (*said, plan.verdict))
    geometry = from_plan(plan)
    steps, note = (steps, "") if steps else step_time(d, overhead)
    dp = plan.question["dp"][0] or 1
    said += [note] if note else []
    said += [f"one of {dp} replicas, which take turns with the requests"] if dp > 1 else []
    if any(group.kind == "state" for group in geometry.groups) and settings.get("share_prefixes") is None:
        said.append("prefix sharing is off: keeping recurrent states for it is not simulated")
    results = tuple(simulate(plan, replica(dp), policy=policy, step_time=steps, **settings) for policy in policies)
    cost = geometry.bytes_per_page or (plan.capacity.kv_bytes // geometry.pages if plan.capacity else 0)
    size = None
    if size_for is not None:
        if geometry.beside or geometry.streams > 1:
            raise UnsupportedError("simulate: size_for looks for one pool; this engine has several for this model")
        settings |= {"step_time": steps}
        pages, result = pool_for(plan, lambda: replica(dp), share=size_for, most=_worst(plan, geometry), **settings)
        devices = _devices(d, replica, size_for, most, settings, (lambda other: step_time(other, overhead)[0]) if note else lambda _: steps)
        size = Size(size_for, pages, pages * cost, *devices, result=result)
        if d.device is not None and devices[0] is None:
            said.append(f"no layout of up to {most} devices has such a pool")
    return Simulation(plan, described, geometry.groups[0].block_tokens, cost, steps, results, size, tuple(said))


def _worst(plan: Plan, geometry: Geometry) -> int:
    """Pages at which as many of the longest requests as the engine runs at once find room."""
    seqs = plan.question["max_num_seqs"][0] or geometry.seats or MAX_SEQS
    return max(geometry.pages, seqs * geometry.request_pages(geometry.max_model_len, geometry.max_model_len))


def _devices(
    d: Deployment, replica: Replica, share: float, most: int, settings: Mapping[str, Any], steps: Callable[[Deployment], StepTime]
) -> tuple[int | None, int | None, int | None, int | None]:
    """The fewest of the question's device, and their layout, whose own pool is enough; sizes that the question chooses are kept."""
    if d.device is None or d.kv_memory is not None:
        return None, None, None, None
    for n in range(1, most + 1):
        for sizes in layouts(n):
            chosen = {"tp": sizes.tp, "pp": sizes.pp, "dp": sizes.dp}
            asked = {"tp": d.tp, "pp": d.pp or 1, "dp": d.dp}
            if any(asked[name] not in (None, size) for name, size in chosen.items()):
                continue
            try:
                tried = replace(d, n_devices=None, tp=sizes.tp, pp=sizes.pp, dp=sizes.dp)
                plan = evaluate(tried)
                if plan.starts is False:
                    continue
                result = simulate(plan, replica(sizes.dp), **{**settings, "step_time": steps(tried)})
            except KvplanError:
                continue  # the model can not be split like that
            if enough(result, share):
                return n, sizes.tp, sizes.pp, sizes.dp
    return None, None, None, None
