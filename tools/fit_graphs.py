"""What CUDA graphs take in each era of releases: bytes of a graph of a whole step, and of a size in pieces and layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.constants import Constant
from kvplan.units import MIB


class Captured(NamedTuple):
    """What one log says of its graphs: `bytes` of `whole` ones and `pieces` of a layer."""

    whole: int
    pieces: int
    bytes: float
    group: str


def through(since: str, points: Sequence[Captured]) -> list[Constant]:
    """One era's bytes of both, neither below zero, by reweighting."""
    logs = {group: sum(p.group == group for p in points) for group in {p.group for p in points}}
    weights = [1 / logs[p.group] for p in points]
    a = b = 0.0
    for _ in range(100):
        a, b = _plane(points, weights)
        weights = [1 / logs[p.group] / max(abs(p.bytes - a * p.whole - b * p.pieces), MIB) for p in points]
    ratios = sorted(p.bytes / max(a * p.whole + b * p.pieces, MIB) for p in points)
    low, high = quantile(ratios, 0.05), quantile(ratios, 0.95)
    return [
        Constant(name, since, value, value * min(low, 1), value * max(high, 1), len(points), groups=len(logs))
        for name, value in (("graph_bytes", a), ("graph_layer_bytes", b))
    ]


def quantile(ordered: Sequence[float], q: float) -> float:
    """Linear between the order statistics."""
    at = q * (len(ordered) - 1)
    i = int(at)
    return ordered[i] + (ordered[min(i + 1, len(ordered) - 1)] - ordered[i]) * (at - i)


def _plane(points: Sequence[Captured], weights: Sequence[float]) -> tuple[float, float]:
    """Least squares of bytes = a whole + b pieces; one alone where the other would be negative."""

    def of(one: str, other: str) -> float:
        return sum(w * getattr(p, one) * getattr(p, other) for w, p in zip(weights, points, strict=True))

    aa, bb, ab = of("whole", "whole"), of("pieces", "pieces"), of("whole", "pieces")
    ay, by = of("whole", "bytes"), of("pieces", "bytes")
    det = aa * bb - ab * ab
    a, b = ((ay * bb - by * ab) / det, (by * aa - ay * ab) / det) if det > 1e-9 * aa * bb else (-1.0, -1.0)
    if a < 0 or b < 0:
        return (0.0, by / bb) if all(p.pieces for p in points) else (ay / aa, 0.0)  # the kind that no log of the era is without
    return a, b
