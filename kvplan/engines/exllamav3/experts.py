"""What a chunk of a prompt may hold in a layer of experts, which a load of 1.5.0 and later sets aside on every card with one.

turboderp-org/exllamav3 modules/block_sparse_mlp.py (autosplit_extra_measure, prefill_worst_case_parts), modules/moe_batch_recon.py
(worst_case_bytes, batch_cap), model/moe_cpu_host.py (prefill_worst_case_parts).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvplan.engines.exllamav3.placed import Beside
from kvplan.engines.exllamav3.releases import Rules
from kvplan.tensors import Layer
from kvplan.units import MIB, round_up

F16, F32, TILE = 2, 4, 128
#: Experts, padded rows and bytes of matrices of one group; a tenth of the assignments more for padding.
GROUP, GROUP_ROWS, GROUP_BYTES = 16, 16_384, 256 * MIB
#: Rows of a job of the CPU's, and those below which no experts are brought to the card; bytes of their list for each assignment.
JOB_ROWS, LEAST_ROWS, LISTED = 64, 32, 32


class Shape(NamedTuple):
    """A layer's experts: hidden and inner width, how many serve a token, whether they are gated."""

    hidden: int
    inner: int
    active: int
    gated: bool

    def group(self, assignments: int, tiles: int, *, slots: bool) -> int:
        """Bytes of one group whose matrices are made in f16: those, its input and results; `slots`: the last of them are elsewhere."""
        most = max(TILE, tiles * TILE * TILE // min(self.inner, self.hidden)) if tiles else GROUP_ROWS
        matrix = self.hidden * self.inner
        cap = max(1, min(GROUP, GROUP_BYTES // (2 * F16 * matrix)))
        each = min(most, assignments)
        rows = min(cap * each, GROUP_ROWS, _padded(assignments) + each)
        results = self.inner * F16 * (1 + self.gated) + (0 if slots else self.hidden * F32)
        return 2 * F16 * cap * matrix + rows * (self.hidden * F16 + results)

    def on_card(self, rows: int, assignments: int, tiles: int) -> tuple[int, int]:
        """Bytes that live for a whole call, and those of what is done after them, of experts on the card."""
        fixed = (rows + 1) * self.hidden * F32 + rows * self.hidden * F16 + (_padded(assignments) + 1) * self.hidden * F32
        alone = min(rows, assignments) * (2 * self.inner * F16 + 2 * self.hidden * F16 + self.hidden * F32)
        return fixed, max(alone, self.group(assignments, tiles, slots=True))

    def from_host(self, rows: int, assignments: int, tiles: int) -> tuple[int, int]:
        """The same of experts that the CPU has."""
        fixed = (rows + min(JOB_ROWS, rows)) * self.hidden * F32
        if rows < LEAST_ROWS:
            return fixed, 0
        fixed += (2 * rows + 1) * self.hidden * F32 + (rows + 1) * self.hidden * F16 + assignments * LISTED
        alone = min(rows, assignments) * (self.hidden * (F16 + F32) + self.inner * F16 * (1 + self.gated))
        return fixed, max(alone, self.group(assignments, tiles, slots=False))

    def worst(self, rows: int, tiles: int, beside: Beside, *, all_on_host: bool) -> int:
        """Bytes of a step, however its tokens are dealt out over experts on the card and those that the CPU has."""
        assignments = rows * self.active
        if all_on_host:
            return sum(self.from_host(rows, assignments, tiles))
        if not beside.experts:
            return sum(self.on_card(rows, assignments, tiles))
        most = 0
        for here in (assignments * i // 4 for i in range(5)):
            (card, then), (host, or_then) = self.on_card(rows, here, tiles), self.from_host(rows, assignments - here, tiles)
            most = max(most, card + host + max(then, or_then))
        return most


def _padded(assignments: int) -> int:
    return int(assignments * 1.1)


def shape_of(layer: Layer) -> Shape | None:
    """Its experts; None: it has none."""
    by_name = {w.name: w for w in layer.weights}
    up = by_name.get("expert_up")
    return Shape(up.shape[-1], round_up(up.shape[-2], TILE), up.active, "expert_gate" in by_name) if up else None


def worst(layers: Iterable[Layer], rows: int, beside: Beside, rules: Rules) -> tuple[int, int]:
    """The most bytes that a step holds in a layer of experts, and that layer's hidden width; none before 1.5.0, or without experts.

    layers  as the model has them, whatever is in host memory
    """
    shapes = [shape for layer in layers if (shape := shape_of(layer))] if rules.worst_case else []
    found = [(0, 0)]
    for at, shape in enumerate(shapes):
        found.append((shape.worst(rows, rules.tiles, beside, all_on_host=at < beside.layers), shape.hidden))
    return max(found)
