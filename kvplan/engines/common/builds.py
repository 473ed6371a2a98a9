"""GPUs for which an engine's published builds hold no kernels, by release: NVIDIA's by compute capability, AMD's by name."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import capability, version_of
from kvplan.engines.common.protocol import Facts
from kvplan.engines.common.releases import release


def no_kernels(d: Deployment, facts: Facts) -> str | None:
    """Why no published build of the release runs on this GPU; None where one does, or nothing is known."""
    has, least = _has_and_least(d, facts.kernels_from)
    if has >= least:
        return None
    return (
        f"no kernel image is available for execution on the device: published builds of {_named(d, facts)} hold kernels for NVIDIA GPUs "
        f"of compute capability {version_of(least)} and above, and this one has {version_of(has)}"
    )


def unnamed(d: Deployment, facts: Facts) -> tuple[str, ...]:
    """Why a start is too close to call: the default build leaves this GPU out, or its makers no longer name it."""
    if reason := _not_for_rocm(d, facts):
        return (reason,)
    has, least = _has_and_least(d, facts.default_from)
    if has >= least:
        return ()
    return (
        f"the default builds of {_named(d, facts)} are for NVIDIA GPUs of compute capability {version_of(least)} and above, and this one "
        f"has {version_of(has)}",
    )


def _not_for_rocm(d: Deployment, facts: Facts) -> str | None:
    """That the release's default build for ROCm leaves this AMD GPU out; None where it has it, or nothing is known."""
    if d.device is None or d.device.vendor != "amd" or dict(d.engine_option).get("platform") == "cpu":
        return None
    asked, name = release(d.engine_version or ""), d.device.compute_capability
    built = [row for row in facts.rocm_builds if not asked or asked >= release(row[0])]
    if not built or not name or name in built[-1][1]:
        return None
    since, names = built[-1]
    return f"{facts.title}'s default build for ROCm, as of {since}, is for {', '.join(names)}, and this GPU is {name}"


def _named(d: Deployment, facts: Facts) -> str:
    return f"{facts.title} {d.engine_version}" if d.engine_version else facts.title


def _has_and_least(d: Deployment, rows: tuple[tuple[str, int], ...]) -> tuple[int, int]:
    """The device's compute capability and the least of the release; both 0 where either is not known."""
    asked, has = release(d.engine_version or ""), capability(d)
    least = [number for since, number in rows if not since or not asked or asked >= release(since)]
    if has is None or not least or dict(d.engine_option).get("platform") == "cpu":
        return 0, 0
    return has, least[-1]
