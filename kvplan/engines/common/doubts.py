"""Why a start is at most likely, however much room the plan leaves: what nobody has measured, by what the question says."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.common.conditions import capability, version_of
from kvplan.engines.common.protocol import Facts
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import weight_formats

#: Family of a checkpoint's format -> the compute capability (x 10) whose cores take it, and AMD's names of such GPUs. Elsewhere engines
#: convert, repack or emulate it (NVIDIA's and AMD's architecture papers: FP8 from Ada and CDNA 3 on, FP4 from Blackwell and CDNA 4 on).
NATIVE: dict[str, tuple[int, tuple[str, ...]]] = {
    "mxfp": (100, ("gfx950",)),
    "nvfp4": (100, ()),
    "fp8": (89, ("gfx942", "gfx950", "gfx1200", "gfx1201")),
}
GROUPED = 75  # the least of the kernels for integers in groups (AWQ, GPTQ); before, what their predecessors take is not known


def doubts(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """Reasons, in words that finish `likely at most:`; none for cache memory that was given, or no engine."""
    if not facts.versions or d.device is None:
        return ()
    found = []
    if facts.measured_from is None:
        found.append(f"fewer than five public start-up logs are behind what {facts.title} holds beside weights and cache")
    elif () < release(d.engine_version or "") < release(facts.measured_from):
        found.append(f"what {facts.title} held before {facts.measured_from} beside weights and cache was not published")
    if d.model.uncounted and d.stored is None:
        found.append(f"parts of {d.model.name} are not counted")
    return (*found, *(_converted(d) if not facts.weight_schemes or "fp8" in facts.weight_schemes else ()))


def _converted(d: Deployment) -> list[str]:
    """Formats that this device does not compute in."""
    has = capability(d)
    name = d.device.compute_capability if d.device else None
    found = []
    for scheme in sorted({_scheme(stored) for stored in weight_formats(d).values()}):
        least, others = NATIVE.get(scheme, (0, ()))
        if scheme in ("awq", "gptq") and d.device is not None and d.device.vendor == "nvidia":
            least = GROUPED
        if least and name and name not in others and (has or 0) < least:
            found.append(f"{scheme} is converted or emulated on this device ({name}; its cores take it from {version_of(least)} on)")
    return found


def _scheme(stored: str) -> str:
    """The family of a format; MXFP4 is one of GGUF's too."""
    return "mxfp" if stored.startswith("mxfp") else weight_scheme(stored)
