"""How long one engine step takes: from a device's roofline, or a line through a user's measurements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvplan.errors import SpecError
from kvplan.roofline import Roofline

MOST_SEQUENCES = 1 << 40


class StepTime(NamedTuple):
    """Seconds of a step: what is read (weights, kept tokens) or computed, whichever takes longer, and a fixed overhead.

    per_step         reading the weights
    per_kept         reading one kept token of a decoding sequence
    per_token        computing one token
    overhead         added to every step
    per_sequence     added for every sequence of the step
    """

    per_step: float = 0.0
    per_kept: float = 0.0
    per_token: float = 0.0
    overhead: float = 0.0
    per_sequence: float = 0.0

    def seconds(self, sequences: int, tokens: int, kept: int) -> float:
        """Of a step of `sequences` sequences that computes `tokens` tokens and reads `kept` kept ones."""
        work = max(self.per_step + self.per_kept * kept, self.per_token * tokens)
        return work + self.overhead + self.per_sequence * sequences


def from_roofline(bound: Roofline, context: int, batch: int, overhead: float = 0.0) -> StepTime:
    """The step time at datasheet rates, from a roofline taken at `context` and `batch` (of one replica)."""
    decode = bound.decode
    bandwidth = (decode.weight_bytes + decode.cache_bytes) / decode.memory_seconds
    kept = decode.cache_bytes / bandwidth / (batch * context)
    return StepTime(decode.weight_bytes / bandwidth, kept, decode.compute_seconds / batch, overhead)


def read_table(lines: Iterable[str], source: str) -> list[tuple[int, float]]:
    """Rows of sequences,seconds; a header may come first. Raises SpecError with the line."""
    points = []
    for line, text in enumerate(lines, 1):
        cells = [cell.strip() for cell in text.split(",")]
        if not text.strip() or (line == 1 and cells == ["sequences", "seconds"]):
            continue
        try:
            sequences, seconds = cells
            points.append((int(sequences), float(seconds)))
        except ValueError:
            raise SpecError(source, [(f"line {line}", f"{text.strip()[:60]!r}: write sequences,seconds such as 64,0.03")]) from None
    return points


def fitted(points: list[tuple[int, float]]) -> StepTime:
    """A line through measured (sequences, seconds of a decode step). Raises SpecError for fewer than one point or a falling line."""
    if not points or any(not 1 <= n <= MOST_SEQUENCES or not 0 < t < 1e6 for n, t in points):
        raise SpecError("step_time", [("", "write pairs of sequences and seconds, such as 1: 0.02, 64: 0.03")])
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    if slope < 0 or mean_y - slope * mean_x < 0:
        raise SpecError("step_time", [("", "the measured steps fall with the number of sequences, or start below zero")])
    return StepTime(overhead=mean_y - slope * mean_x, per_sequence=slope)
