"""Prefix sharing over a block pool: full and window groups with a page table each, hits that all groups agree on.

vLLM 0.32: `vllm/v1/core/kv_cache_manager.py` (get_computed_blocks, allocate_slots), `kv_cache_coordinator.py`
(HybridKVCacheCoordinator.find_longest_cache_hit), `single_type_kv_cache_manager.py` (FullAttentionManager, SlidingWindowManager).
All groups must have one block size: with several, vLLM keeps entries for parts of blocks, which are not modelled.
"""

from __future__ import annotations

from kvplan.errors import UnsupportedError
from kvplan.simulate.blocks import block_shares
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.pool import BlockPool
from kvplan.simulate.sequence import Sequence, Shares
from kvplan.units import cdiv


class PrefixBlocks:
    """Pages by number; `tables[i]` of a sequence is its page table in group i, copies apart."""

    def __init__(self, geometry: Geometry, in_flight: int) -> None:
        self.groups = tuple(group._replace(copies=1) for group in geometry.groups for _ in range(group.copies))
        if any(group.kind not in ("full", "window") for group in self.groups):
            raise UnsupportedError("simulate: prefix sharing of chunks and states is not simulated; use share_prefixes=False")
        if len({group.block_tokens for group in self.groups}) > 1:
            raise UnsupportedError("simulate: prefix sharing needs one block size; use share_prefixes=False")
        self.block = self.groups[0].block_tokens
        self.in_flight = in_flight
        self.size = geometry.pages
        self.pool = BlockPool(geometry.pages + 1)
        self.changes = self.hit_tokens = self.asked_tokens = 0
        self._windows = [i for i, group in enumerate(self.groups) if group.kind == "window"]
        #: groups of one kind and span are looked up together; full attention first
        kinds = dict.fromkeys((group.kind, group.span) for group in self.groups)
        self._kinds = [
            (kind, span, [i for i, g in enumerate(self.groups) if (g.kind, g.span) == (kind, span)])
            for kind, span in sorted(kinds, key=lambda one: one[0] != "full")
        ]

    @property
    def used(self) -> int:
        return self.size - self.pool.free

    @property
    def evicted(self) -> int:
        return self.pool.evicted

    def lookup(self, s: Sequence) -> tuple[list[list[int]], int]:
        """The pages of the longest prefix that every group still has, and its tokens; the last token is always computed."""
        hit = s.known - 1
        tables: list[list[int]] = [[] for _ in self.groups]
        full: int | None = None
        simple = len(self._kinds) == 2 and self._kinds[0][0] == "full"
        while True:
            now = hit
            for kind, span, members in self._kinds:
                if kind == "full":
                    if full is None:
                        full = self._first(s, now, members, tables)
                    now = min(now, full)
                else:
                    now = self._last(s, now, members, tables, span)
            if now >= hit or simple or len(self._kinds) == 1:
                hit = now
                break
            hit = now
        for i, group in enumerate(self.groups):
            if group.kind == "full":
                del tables[i][hit // self.block :]
        return tables, hit

    def _found(self, s: Sequence, n: int, members: list[int]) -> list[int] | None:
        stream = s.stream((n + 1) * self.block - 1)
        blocks = [self.pool.lookup((i, stream, n)) for i in members]
        return blocks if all(blocks) else None

    def _first(self, s: Sequence, most: int, members: list[int], tables: list[list[int]]) -> int:
        """From the left to the first miss."""
        for n in range(most // self.block):
            blocks = self._found(s, n, members)
            if blocks is None:
                break
            for i, block in zip(members, blocks, strict=True):
                tables[i].append(block)
        return len(tables[members[0]]) * self.block

    def _last(self, s: Sequence, most: int, members: list[int], tables: list[list[int]], span: int) -> int:
        """From the right to the first run of pages that covers a window; before it nothing is needed."""
        needed = cdiv(span - 1, self.block)
        row: dict[int, list[int]] = {}
        length = run = 0
        for n in range(most // self.block - 1, -1, -1):
            blocks = self._found(s, n, members)
            if blocks is None:
                run = 0
                row = {}
                continue
            run += 1
            row[n] = blocks
            if run >= needed:
                length = n + run
                break
        else:
            length = run
        for at, i in enumerate(members):
            tables[i] = [row[n][at] if n in row else 0 for n in range(length)]
        return length * self.block

    def admit(self, s: Sequence, budget: int) -> int | None:
        tables, hit = self.lookup(s)
        if self._admission(s, tables, hit) > self.pool.free:
            return None
        tokens = hit + min(s.known - hit, budget)
        if self._needed(tables, hit, tokens) > self.pool.free:
            return None
        s.tables = []
        for group, table in zip(self.groups, tables, strict=True):
            gone = min(group.skipped(hit) // self.block, len(table))
            kept = table[gone:]
            self.pool.touch(kept)
            s.tables.append([0] * gone + kept)
        s.cached = [len(table) for table in s.tables]
        self._take(s, tokens)
        self.hit_tokens += hit
        self.asked_tokens += s.known
        return hit

    def _admission(self, s: Sequence, tables: list[list[int]], hit: int) -> int:
        """Pages that the whole prompt needs: the gate that keeps a request out whose first chunk alone would fit."""
        needed = 0
        for group, table in zip(self.groups, tables, strict=True):
            required = min(cdiv(s.known, self.block), group.most_pages(s.known, self.in_flight))
            needed += self._more(group, table, hit, required)
        return needed

    def _needed(self, tables: list[list[int]], hit: int, tokens: int) -> int:
        return sum(self._more(group, table, hit, cdiv(tokens, self.block)) for group, table in zip(self.groups, tables, strict=True))

    def _more(self, group: PageGroup, table: list[int], hit: int, required: int) -> int:
        gone = group.skipped(hit) // self.block
        free = sum(1 for block in table[gone:] if block and not self.pool.refs[block])
        return max(required - max(gone, len(table)), 0) + free

    def _take(self, s: Sequence, tokens: int) -> None:
        required = -(-tokens // self.block)
        if required > len(s.tables[0]):
            for table in s.tables:
                table += self.pool.take(required - len(table))
        full = min(tokens, s.known) // self.block
        if full > s.cached[0]:
            self._register(s, full)

    def _register(self, s: Sequence, full: int) -> None:
        for i, table in enumerate(s.tables):
            for n in range(s.cached[i], full):
                if table[n]:
                    self.pool.register(table[n], (i, s.stream((n + 1) * self.block - 1), n))
                    self.changes += 1
            s.cached[i] = max(s.cached[i], full)

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        for i in self._windows:
            table = s.tables[i]
            self._drop(table, min(self.groups[i].skipped(computed) // self.block, len(table)))
        more = -(-tokens // self.block) - len(s.tables[0])  # all tables are equally long
        if more > 0 and more * len(s.tables) > self.pool.free:
            return False
        s.known = max(s.known, tokens)
        self._take(s, tokens)
        return True

    def _drop(self, table: list[int], end: int) -> None:
        gone = []
        for n in range(end - 1, -1, -1):
            if not table[n]:
                break
            gone.append(table[n])
            table[n] = 0
        if gone:
            self.pool.release(gone)
            self.changes += 1

    def wake(self, s: Sequence, computed: int) -> int:
        """A new page, a page that fills up (and can be found from then on), or one that leaves the window."""
        block = self.block
        soonest = min(-(-computed // block) * block, -(-(computed + 1) // block) * block - 1)
        for i in self._windows:
            span = self.groups[i].span
            past = max(computed - span + 1, 0)
            soonest = min(soonest, max(-(-past // block), 1) * block + span - 1)
        return soonest

    def end(self, s: Sequence, computed: int) -> None:
        for table in s.tables:
            self.pool.release(reversed(table))
        s.tables, s.cached = [], []
        self.changes += 1

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        """A page held by several counts once: full pages are shared, never a last one that still fills."""
        alone = block_shares(self.groups, [(s, c, [len(t) - t.count(0) for t in s.tables]) for s, c in running])
        return alone._replace(stored=alone.stored - self.pool.again)

    def check(self, running: list[Sequence]) -> None:
        self.pool.check(table for s in running for table in s.tables)
