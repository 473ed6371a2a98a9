"""llama.cpp's cells: a token takes any free cell of its stream; one stream for all (unified), or one for each slot.

llama.cpp 0c1e57098 `src/llama-kv-cache.cpp` (find_slot): cells need not be contiguous. Nothing is shared between slots here.
"""

from __future__ import annotations

from kvplan.simulate.geometry import Geometry
from kvplan.simulate.sequence import Sequence, Shares, Unphased


class Cells(Unphased):
    """Cells in use by stream."""

    def __init__(self, geometry: Geometry) -> None:
        self.size = geometry.pages
        self.cells = geometry.pages // geometry.streams
        self.unified = geometry.streams == 1
        self.free_slots = list(range(geometry.streams))[::-1]
        self.used = self.changes = self.hit_tokens = self.asked_tokens = self.evicted = self.again = 0

    def admit(self, s: Sequence, budget: int) -> int | None:
        if not self.unified and not self.free_slots:
            return None
        if self.unified and s.known > self.size - self.used:
            return None
        s.held = [0]
        if not self.unified:
            s.slot = self.free_slots.pop()
        self.grow(s, 0, min(s.known, budget))
        return 0

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        room = self.size - self.used if self.unified else self.cells - s.held[0]
        if tokens - s.held[0] > room:
            return False
        self.used += tokens - s.held[0]
        s.held[0] = tokens
        return True

    def wake(self, s: Sequence, computed: int) -> int:
        return computed

    def end(self, s: Sequence, computed: int) -> None:
        self.used -= s.held[0]
        s.held = []
        if not self.unified:
            self.free_slots.append(s.slot)
        self.changes += 1

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        return Shares(sum(s.held[0] for s, _ in running), 0.0, 0.0)

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        assert self.used == sum(s.held[0] for s, _ in running) <= self.size
        if not self.unified:
            assert len(self.free_slots) + len(running) == self.size // self.cells
            assert all(s.held[0] <= self.cells for s, _ in running)
