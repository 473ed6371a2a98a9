"""Several answers to one prompt that share pages: a pool in which each request has forked page tables (fork.py), for parallel sampling and
beam search."""

from __future__ import annotations

from kvplan.errors import UnsupportedError
from kvplan.simulate.fork import Fork
from kvplan.simulate.geometry import Geometry
from kvplan.simulate.sequence import Sequence, Shares, Unphased
from kvplan.units import cdiv


class ForkedBlocks(Unphased):
    """One pool of pages for full attention, counted; each request has a Fork of its own, nothing is shared between requests."""

    def __init__(self, geometry: Geometry) -> None:
        if len(geometry.groups) > 1 or geometry.groups[0].kind != "full" or geometry.beside or geometry.sort == "cells":
            raise UnsupportedError("simulate: forked sequences (beams) are simulated for pools of full attention only")
        self.block, self.copies = geometry.groups[0].block_tokens, geometry.groups[0].copies
        self.size = geometry.pages
        self.used = self.changes = self.hit_tokens = self.asked_tokens = self.evicted = self.again = 0
        self._forks: dict[Sequence, Fork] = {}
        self._reshuffled: dict[Sequence, int] = {}

    def admit(self, s: Sequence, budget: int) -> int | None:
        """A request that was preempted takes all its pages again, and those of the token that it sampled last."""
        fork = s.fork or Fork(s.width, s.request.beam, s.known, self.block, s.number)
        behind = fork.tokens < s.known
        if (len(fork.holders) + behind * fork.needed()) * self.copies > self.size - self.used:
            return None
        if behind:
            fork.write()
        s.fork = fork
        self._forks[s] = fork
        self._count(fork, 1)
        return 0

    def _count(self, fork: Fork, sign: int) -> None:
        pages = len(fork.holders)
        self.used += sign * pages * self.copies
        self.again += sign * (sum(map(len, fork.tables)) - pages) * self.copies

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        fork = self._forks[s]
        if tokens <= fork.tokens:
            return True
        self._count(fork, -1)
        if self._reshuffled.get(s) != tokens:  # once a token, however often the room for it is asked for
            self._reshuffled[s] = tokens
            self.changes += fork.reshuffle() > 0
        enough = (len(fork.holders) + fork.needed()) * self.copies <= self.size - self.used
        while enough and fork.tokens < tokens:
            fork.write()
        self._count(fork, 1)
        return enough

    def wake(self, s: Sequence, computed: int) -> int:
        fork = self._forks[s]
        if fork.beam or fork.tokens == fork.prompt:
            return computed
        return -(-computed // self.block) * self.block

    def end(self, s: Sequence, computed: int) -> None:
        self._count(self._forks.pop(s), -1)
        self._reshuffled.pop(s, None)
        self.changes += 1

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        """All pages are full but the last of each sequence."""
        stored = reserved = total = 0.0
        for s, _ in running:
            fork = self._forks[s]
            last = len({table[-1] for table in fork.tables})
            rest = -fork.tokens % self.block / self.block
            stored += len(fork.holders) - last * rest
            reserved += last * min(rest, max(s.whole - 1 - fork.tokens, 0) / self.block)
            total += len(fork.holders)
        return Shares(stored * self.copies, reserved * self.copies, (total - stored - reserved) * self.copies)

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        assert set(self._forks) == {s for s, _ in running}
        for s, _ in running:
            fork = self._forks[s]
            held: dict[int, int] = {}
            for page in (page for table in fork.tables for page in table):
                held[page] = held.get(page, 0) + 1
            assert held == fork.holders
            assert {len(table) for table in fork.tables} == {cdiv(fork.tokens, self.block)}
        assert self.used == sum(len(fork.holders) for fork in self._forks.values()) * self.copies <= self.size
