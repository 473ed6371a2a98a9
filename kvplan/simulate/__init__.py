"""Pages, fragmentation and sharing under real workloads: requests through the cache manager that a plan describes."""

from kvplan.simulate.geometry import Geometry, PageGroup, from_plan, slots
from kvplan.simulate.result import SimulationResult
from kvplan.simulate.run import POLICIES, pool_for, simulate
from kvplan.simulate.steptime import StepTime, fitted, from_roofline
from kvplan.simulate.traces import FORMATS, read
from kvplan.simulate.workload import WORKLOADS, Arrivals, Lengths, Request, Shape, generate, named, replay

__all__ = [
    "FORMATS", "POLICIES", "WORKLOADS", "Arrivals", "Geometry", "Lengths", "PageGroup", "Request", "Shape", "SimulationResult",
    "StepTime", "fitted", "from_plan", "from_roofline", "generate", "named", "pool_for", "read", "replay", "simulate", "slots",
]  # fmt: skip
