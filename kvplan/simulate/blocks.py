"""A block pool without names: with no prefix shared, which block is free does not matter, only how many.

Counts agree with vLLM's KVCacheManager without prefix caching (0.32 `vllm/v1/core/kv_cache_manager.py`, allocate_slots).
"""

from __future__ import annotations

from collections.abc import Collection

from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.sequence import Sequence, Shares
from kvplan.units import cdiv


class CountedBlocks:
    """Pages of all groups out of one pool, counted."""

    def __init__(self, geometry: Geometry, in_flight: int) -> None:
        self.groups = geometry.groups
        self.size = geometry.pages
        self.in_flight = in_flight
        self.used = self.changes = self.hit_tokens = self.asked_tokens = self.evicted = self.again = 0
        self._steps = [group.block_tokens for group in self.groups]
        #: the common case, decided once
        self._full = len(self.groups) == 1 and self.groups[0].kind == "full"
        self._block, self._copies = self.groups[0].block_tokens, self.groups[0].copies
        self.stride = self._block if self._full else 0

    def admit(self, s: Sequence, budget: int) -> int | None:
        free = self.size - self.used
        needed = 0
        for group in self.groups:
            needed += group.copies * min(group.most_pages(s.known, self.in_flight), cdiv(s.known, group.block_tokens))
        if needed > free:
            return None
        s.held = [0] * len(self.groups)
        return 0 if self.grow(s, 0, min(s.known, budget)) else None

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        if self._full:
            had = self._had(s, computed)
            needed = max(-(-tokens // self._block) - had, 0)
            if needed * self._copies > self.size - self.used:
                return False
            s.held[0] = had + needed
            self.used += needed * self._copies
            return True
        gone = 0
        for i, group in enumerate(self.groups):
            if group.kind in ("window", "chunk") and s.held[i]:
                kept = group.pages(computed, max(computed, 1))
                if kept < s.held[i]:
                    gone += (s.held[i] - kept) * group.copies
                    s.held[i] = kept
        if gone:
            self.used -= gone
            self.changes += 1
        pages = [group.pages(computed, tokens) for group in self.groups]
        needed = sum(max(n - had, 0) * group.copies for n, had, group in zip(pages, s.held, self.groups, strict=True))
        if needed > self.size - self.used:
            return False
        s.held = [max(n, had) for n, had in zip(pages, s.held, strict=True)]
        self.used += needed
        return True

    def _had(self, s: Sequence, computed: int) -> int:
        """Pages of full attention: what `grow` noted last, and what `extend` gave since."""
        return max(s.held[0], -(-computed // self._block))

    def extend(self, due: Collection[Sequence], step: int) -> bool:
        needed = len(due) * self._copies
        if needed > self.size - self.used:
            return False
        self.used += needed
        return True

    def wake(self, s: Sequence, computed: int) -> int:
        if self._full:
            return -(-computed // self._block) * self._block
        soonest = 1 << 62
        for group, block in zip(self.groups, self._steps, strict=True):
            soonest = min(soonest, -(-computed // block) * block)
            if group.kind in ("window", "chunk"):
                soonest = min(soonest, group.leaves(computed))
        return soonest

    def _pages(self, s: Sequence, computed: int) -> list[int]:
        return [self._had(s, computed)] if self._full else s.held

    def end(self, s: Sequence, computed: int) -> None:
        self.used -= sum(n * group.copies for n, group in zip(self._pages(s, computed), self.groups, strict=True))
        s.held = []
        self.changes += 1

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        if self._full:
            return full_shares(running, self._block, self._copies, self.used)
        return block_shares(self.groups, [(s, computed, self._pages(s, computed)) for s, computed in running])

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        pages = [self._pages(s, computed) for s, computed in running]
        held = sum(n * group.copies for each in pages for n, group in zip(each, self.groups, strict=True))
        assert held == self.used, f"{held} pages held, {self.used} counted"
        assert 0 <= self.used <= self.size
        assert all(n >= 0 for each in pages for n in each)


def full_shares(running: list[tuple[Sequence, int]], block: int, copies: int, pages: int) -> Shares:
    """Of `pages` of full attention in groups of one block size, which hold the computed tokens and no page more."""
    stored = reserved = 0
    for s, computed in running:
        stored += computed
        rest, coming = -computed % block, s.whole - 1 - computed
        reserved += rest if rest < coming else coming
    filled, awaited = stored / block * copies, reserved / block * copies
    return Shares(filled, awaited, pages - filled - awaited)


def block_shares(groups: tuple[PageGroup, ...], held: list[tuple[Sequence, int, list[int]]]) -> Shares:
    """Slots of the tokens still attended to; of the rest of the pages in use, what the same sequence will still fill, and what not."""
    stored = reserved = total = 0.0
    for i, group in enumerate(groups):
        block, copies = group.block_tokens, group.copies
        if group.kind == "full":
            for s, computed, pages in held:
                n, filled, coming = pages[i], computed / block, s.whole - 1 - computed
                rest = n - filled
                total += n * copies
                stored += filled * copies
                if coming < block and coming / block < rest:
                    rest = coming / block
                reserved += rest * copies
            continue
        for s, computed, pages in held:
            total += pages[i] * copies
            if group.kind == "state":
                stored += min(pages[i], 1) * copies
                continue
            filled = min((computed - group.skipped(computed)) / block, pages[i])
            stored += filled * copies
            reserved += min(max(s.whole - 1 - computed, 0) / block, pages[i] - filled) * copies
    return Shares(stored, reserved, total - stored - reserved)
