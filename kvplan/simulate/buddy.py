"""Contiguous reservation, as systems before paging did it: one chunk a request, from a buddy allocator.

The baselines of the PagedAttention paper (arXiv 2309.06180, section 6.1): Orca with the longest output reserved (max), the next power
of two (pow2), or the true output length (oracle). Chunks are powers of two; an arena that is none is a row of arenas, largest first.
"""

from __future__ import annotations

from heapq import heappop, heappush

from kvplan.simulate.geometry import Geometry
from kvplan.simulate.sequence import Sequence, Shares, Unphased
from kvplan.simulate.workload import Request


def power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


class Buddy:
    """Power-of-two chunks of `size` units; the lowest address first."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._free: dict[int, set[int]] = {}
        self._heaps: dict[int, list[int]] = {}
        self._bounds: list[tuple[int, int]] = []
        start = 0
        for bit in reversed(range(size.bit_length())):
            if size >> bit & 1:
                self._bounds.append((start, 1 << bit))
                self._give(start, 1 << bit)
                start += 1 << bit

    def _give(self, start: int, size: int) -> None:
        self._free.setdefault(size, set()).add(start)
        heappush(self._heaps.setdefault(size, []), start)

    def _least(self, size: int) -> int | None:
        heap, free = self._heaps.get(size, []), self._free.get(size, set())
        while heap and heap[0] not in free:
            heappop(heap)
        return heap[0] if heap else None

    def take(self, n: int) -> tuple[int, int] | None:
        """(start, size) of a chunk for n units; None where no chunk is large enough."""
        wanted = size = power_of_two(n)
        while size <= self.size:
            start = self._least(size)
            if start is not None:
                break
            size *= 2
        else:
            return None
        self._free[size].discard(start)
        while size > wanted:
            size //= 2
            self._give(start + size, size)
        self.used += wanted
        return start, wanted

    def give(self, start: int, size: int) -> None:
        """Return a chunk; free neighbours of a size join up to the arena's."""
        self.used -= size
        arena, largest = next((a, n) for a, n in self._bounds if a <= start < a + n)
        while size < largest:
            other = arena + ((start - arena) ^ size)
            if other not in self._free.get(size, ()):
                break
            self._free[size].discard(other)
            start, size = min(start, other), size * 2
        self._give(start, size)

    def free_chunks(self) -> list[tuple[int, int]]:
        """Every free chunk."""
        return [(start, size) for size, starts in self._free.items() for start in starts]


def wanted(rule: str, request: Request, longest: int) -> int:
    """Slots that a request reserves under max, pow2 or oracle."""
    if rule == "max":
        return longest
    return min(request.prompt + (power_of_two(request.output) if rule == "pow2" else request.output), longest)


class Contiguous(Unphased):
    """A chunk of token slots a request, from admission to its end: nothing ever grows, so nothing is preempted."""

    def __init__(self, geometry: Geometry, rule: str) -> None:
        self.size = geometry.slots
        self.longest = geometry.max_model_len
        self.rule = rule
        self.buddy = Buddy(self.size)
        self.used = self.changes = self.hit_tokens = self.asked_tokens = self.evicted = self.again = 0

    def admit(self, s: Sequence, budget: int) -> int | None:
        chunk = self.buddy.take(wanted(self.rule, s.request, self.longest))
        if chunk is None:
            return None
        s.held = list(chunk)
        self.used = self.buddy.used
        return 0

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        return True

    def wake(self, s: Sequence, computed: int) -> int:
        return 1 << 62

    def end(self, s: Sequence, computed: int) -> None:
        self.buddy.give(s.held[0], s.held[1])
        s.held = []
        self.used = self.buddy.used
        self.changes += 1

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        """Chunk rounding is neither reserved nor internal: it is the allocator's, so external."""
        stored = sum(computed for _, computed in running)
        reserved = sum(s.whole - computed for s, computed in running)
        internal = sum(wanted(self.rule, s.request, self.longest) for s, _ in running) - stored - reserved
        return Shares(stored, reserved, internal)

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        chunks = sorted([(s.held[0], s.held[1]) for s, _ in running] + self.buddy.free_chunks())
        at = 0
        for start, size in chunks:
            assert start == at, f"chunk at {start}, expected {at}"
            at = start + size
        assert at == self.size
        assert self.used == sum(s.held[1] for s, _ in running)
