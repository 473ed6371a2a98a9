"""Pools beside one another: a request is in when each of them has room for it, and grows when each has a page.

SGLang 0.5.23 `python/sglang/srt/mem_cache/allocator/swa.py` (alloc_extend, alloc_decode, free_swa) and TensorRT-LLM's window pools
(`cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp`, WindowBlockManager): full and window layers have page tables and free lists apart.
"""

from __future__ import annotations

from collections.abc import Sequence as Listed

from kvplan.simulate.sequence import Manager, Sequence, Shares, Unphased


class Beside(Unphased):
    """Managers of pools apart. What is shown as used is the first one's; `peaks` are the most pages that the others ever held."""

    def __init__(self, managers: Listed[Manager]) -> None:
        self.first, self.others = managers[0], managers[1:]
        self.size = self.first.size
        self.hit_tokens = self.asked_tokens = self.evicted = 0
        self.peaks = [0] * len(self.others)
        self._parts: dict[Sequence, list[Sequence]] = {}

    @property
    def used(self) -> int:
        return self.first.used

    @property
    def again(self) -> int:
        return 0

    @property
    def changes(self) -> int:
        return self.first.changes + sum(manager.changes for manager in self.others)

    def admit(self, s: Sequence, budget: int) -> int | None:
        if self.first.admit(s, budget) is None:
            return None
        parts: list[Sequence] = []
        for manager in self.others:
            part = s.like()
            if manager.admit(part, budget) is None:
                for other, taken in zip(self.others, parts, strict=False):
                    other.end(taken, 0)
                self.first.end(s, 0)
                return None
            parts.append(part)
        self._parts[s] = parts
        self._note()
        return 0

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        """What an earlier pool took stays taken where a later one has no room: the same call comes again, or the request leaves."""
        for manager, part in zip(self.others, self._parts[s], strict=True):
            if not manager.grow(part, computed, tokens):
                return False
        self._note()
        return self.first.grow(s, computed, tokens)

    def _note(self) -> None:
        self.peaks = [max(peak, manager.used) for peak, manager in zip(self.peaks, self.others, strict=True)]

    def wake(self, s: Sequence, computed: int) -> int:
        others = (manager.wake(part, computed) for manager, part in zip(self.others, self._parts[s], strict=True))
        return min(self.first.wake(s, computed), *others)

    def end(self, s: Sequence, computed: int) -> None:
        self.first.end(s, computed)
        for manager, part in zip(self.others, self._parts.pop(s), strict=True):
            manager.end(part, computed)

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        return self.first.shares(running)

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        self.first.check(running)
        assert set(self._parts) == {s for s, _ in running}
        for i, manager in enumerate(self.others):
            manager.check([(self._parts[s][i], computed) for s, computed in running])
