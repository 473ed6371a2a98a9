"""Prefix sharing over a block pool: full, window and chunk groups with a page table each, hits that all groups agree on.

vLLM 0.32: `vllm/v1/core/kv_cache_manager.py` (get_computed_blocks, allocate_slots), `kv_cache_coordinator.py`
(HybridKVCacheCoordinator.find_longest_cache_hit), `single_type_kv_cache_manager.py` (FullAttentionManager, SlidingWindowManager,
ChunkedLocalAttentionManager).
All groups must have one block size: with several, vLLM keeps entries for parts of blocks, which are not modelled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kvplan.errors import UnsupportedError
from kvplan.simulate.blocks import block_shares, full_shares
from kvplan.simulate.geometry import Geometry
from kvplan.simulate.pool import BlockPool
from kvplan.simulate.sequence import Sequence, Shares
from kvplan.simulate.tiers import Tiers
from kvplan.units import cdiv

#: Bits of a key that number the page within its sequence.
PAGE_BITS = 32
ENDLESS = 1 << PAGE_BITS


class PrefixBlocks:
    """Pages by number; `tables[i]` of a sequence is its page table in group i, copies apart.

    Pages behind all that others may ask for are only counted, unless `numbered`: then every page has its number, as vLLM's have.
    """

    def __init__(self, geometry: Geometry, in_flight: int, numbered: bool = False, tiers: Tiers | None = None) -> None:
        self.tiers = tiers
        self.groups = tuple(group._replace(copies=1) for group in geometry.groups for _ in range(group.copies))
        if any(group.kind == "state" for group in self.groups):
            raise UnsupportedError("simulate: prefix sharing of recurrent states is not simulated; use share_prefixes=False")
        if len({group.block_tokens for group in self.groups}) > 1:
            raise UnsupportedError("simulate: prefix sharing needs one block size; use share_prefixes=False")
        self.block = self.groups[0].block_tokens
        self.in_flight = in_flight
        self.size = geometry.pages
        self.pool = BlockPool(geometry.pages + 1)
        self.changes = self.hit_tokens = self.asked_tokens = 0
        self.stride = self.block if all(group.kind == "full" for group in self.groups) else 0
        self._windows = [i for i, group in enumerate(self.groups) if group.kind in ("window", "chunk")]
        self._numbered = numbered or bool(self._windows)  # pages that leave a window take their names with them
        self._endless: dict[Sequence, None] = {}  # of whom others may ask for the answer too
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
    def again(self) -> int:
        return self.pool.again

    @property
    def evicted(self) -> int:
        return self.pool.evicted

    def lookup(self, s: Sequence) -> tuple[list[list[int]], int]:
        """The pages of the longest prefix that every group still has, and its tokens; the last token is always computed."""
        if not self._windows:
            found = [self.pool.walk(self._keys(s, i, 0, (s.known - 1) // self.block)) for i in range(len(self.groups))]
            length = min(map(len, found))
            return [table[:length] for table in found], length * self.block
        hit = s.known - 1
        tables: list[list[int]] = [[] for _ in self.groups]
        full: int | None = None
        simple = len(self._kinds) == 2 and self._kinds[0][0] == "full"
        while True:
            now = hit
            for kind, span, members in self._kinds:
                if kind == "full":
                    if full is None:
                        full = self._walk(s, 0, now, members, tables)
                    now = min(now, full)
                elif kind == "chunk":
                    # what lies before the chunk of the next token counts as there
                    now = self._walk(s, now // span * span // self.block, now, members, tables)
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

    # A key is (stream * groups + group) << PAGE_BITS, plus the page's number in the sequence.

    def _keys(self, s: Sequence, group: int, start: int, end: int) -> Iterator[range]:
        """Keys of the pages from `start` to `end`, a run for each stream: a page is named by the stream that covers its last token."""
        block, groups = self.block, len(self.groups)
        for stream, until in s.content:
            stop = until // block
            if stop > end:
                stop = end
            if start < stop:
                first = stream * groups + group << PAGE_BITS
                yield range(first + start, first + stop)
                start = stop
        if start < end:
            first = s.tail * groups + group << PAGE_BITS
            yield range(first + start, first + end)

    def _found(self, s: Sequence, n: int, members: list[int]) -> list[int] | None:
        first = (s.stream((n + 1) * self.block - 1) * len(self.groups) << PAGE_BITS) + n
        blocks = [self.pool.lookup(first + (i << PAGE_BITS)) for i in members]
        return blocks if all(blocks) else None

    def _walk(self, s: Sequence, start: int, most: int, members: list[int], tables: list[list[int]]) -> int:
        """From page `start` of the tables to the first miss, up to `most` tokens."""
        found = [self.pool.walk(self._keys(s, i, start, most // self.block)) for i in members]
        length = min(map(len, found))
        for i, blocks in zip(members, found, strict=True):
            tables[i] = [0] * start + blocks[:length]
        return (start + length) * self.block

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
        below = self.tiers.found(s, hit) if self.tiers else []
        there = hit + sum(below)
        tokens = there + min(s.known - there, budget)
        plenty = not self._windows and cdiv(s.known, self.block) * len(tables) <= self.pool.free  # whatever of it is found free
        if not plenty and self._needed(s.known, tokens, tables, hit) > self.pool.free:
            return None
        if self.tiers:
            self.tiers.take(below)
        s.tables = [] if self._windows else tables
        for table in s.tables:
            self.pool.touch(table)
        for group, table in zip(self.groups, tables, strict=True) if self._windows else ():
            gone = min(group.skipped(hit) // self.block, len(table))
            kept = table[gone:]
            self.pool.touch(kept)
            s.tables.append([0] * gone + kept)
        s.cached = [len(table) for table in s.tables]
        s.named = s.content[-1][1] // self.block if s.content else 0
        if self._numbered or (s.content and s.request.continues):
            s.named = ENDLESS
            self._endless[s] = None
        self._take(s, cdiv(tokens, self.block), len(s.tables[0]))
        self._register(s, min(tokens // self.block, s.named))
        self.hit_tokens += there
        self.asked_tokens += s.known
        return there

    def _take(self, s: Sequence, pages: int, had: int) -> None:
        """Pages up to so many of each table: those that others may ask for by number."""
        tables, own = s.tables, pages - had
        more = min(pages, s.named) - len(tables[0])
        if more > 0:
            own -= more
            for table in tables:
                self.pool.take(more, table)
        if own > 0:
            self.pool.own(own * len(tables))

    def _needed(self, known: int, tokens: int, tables: list[list[int]], hit: int) -> int:
        """Pages for the first chunk, and for the whole prompt: the gate that keeps a request out whose first chunk alone would fit."""
        if not self._windows:
            return sum(max(cdiv(known, self.block) - len(table), 0) + self.pool.idle(table) for table in tables)
        whole = first = 0
        for group, table in zip(self.groups, tables, strict=True):
            gone = group.skipped(hit) // self.block
            idle, had = self.pool.idle(table[gone:]), max(gone, len(table))
            required = min(cdiv(known, self.block), group.most_pages(known, self.in_flight))
            whole += max(required - had, 0) + idle
            first += max(cdiv(tokens, self.block) - had, 0) + idle
        return max(whole, first)

    def _register(self, s: Sequence, end: int) -> None:
        """Names for the pages before `end`."""
        for i, table in enumerate(s.tables):
            start = s.cached[i]
            if start + 1 == end and table[start]:
                stream = s.stream(end * self.block - 1)
                self.pool.name(table[start], (stream * len(self.groups) + i << PAGE_BITS) + start)
                s.cached[i] = end
                self.changes += 1
            elif start < end:
                self.pool.register(table[start:end], self._keys(s, i, start, end))
                s.cached[i] = end
                self.changes += 1

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        for i in self._windows:
            table = s.tables[i]
            self._drop(table, min(self.groups[i].skipped(computed) // self.block, len(table)))
        pages, had = -(-tokens // self.block), -(-computed // self.block)
        if pages > had:
            if (pages - had) * len(s.tables) > self.pool.free:
                return False
            self._take(s, pages, had)
        if tokens > s.known:
            s.known = tokens
        if s.cached[0] < s.named:
            self._register(s, min(tokens // self.block, s.named))
        return True

    def extend(self, due: Collection[Sequence], step: int) -> bool:
        n = len(self.groups)
        if len(due) * n > self.pool.free:
            return False
        named = [s for s in due if s in self._endless] if self._endless else []
        self.pool.own((len(due) - len(named)) * n)
        blocks = self.pool.next(len(named) * n) if named else []
        for i in range(n):
            for s, block in zip(named, blocks[i::n], strict=True):
                s.tables[i].append(block)
        for s in named:
            self._register(s, (step + s.offset) // self.block)
        return True

    def _drop(self, table: list[int], end: int) -> None:
        """Pages before `end` leave the window; those before a page that left have left already."""
        start = end
        while start and table[start - 1]:
            start -= 1
        if start < end:
            self.pool.release(table[start:end], end - start)
            table[start:end] = [0] * (end - start)
            self.changes += 1

    def wake(self, s: Sequence, computed: int) -> int:
        """A new page; where pages leave windows, also one that fills up (and can be found from then on) or leaves.

        Without windows a full page is named with the next one or at the end: nobody else could have asked for it sooner.
        """
        block = self.block
        soonest = -(-computed // block) * block
        if not self._windows:
            return soonest
        fills = -(-(computed + 1) // block) * block - 1
        return min(soonest, fills, *(self.groups[i].leaves(computed) for i in self._windows))

    def end(self, s: Sequence, computed: int) -> None:
        """Names of pages that are nobody else's are given only to a sequence that will return to look for them."""
        if self.tiers:
            self.tiers.keep(s, computed)
        full, pages = computed // self.block, cdiv(computed, self.block)
        if computed < s.whole - 1:
            self._number(s, full)
            self._register(s, full)
        else:
            self._register(s, min(full, s.named))
        had, pool = len(s.tables[0]), self.pool
        for table, cached in zip(s.tables, s.cached, strict=True):
            if pages > had:
                pool.disown(max(full - had, 0), pages - max(full, had))
            pool.release(table, max(min(full, had), cached))
        s.tables, s.cached = [], []
        self._endless.pop(s, None)
        self.changes += 1

    def _number(self, s: Sequence, full: int) -> None:
        """Every full page of a sequence that will come back for them gets a number."""
        more = full - len(s.tables[0])
        if more > 0:
            for table in s.tables:
                table += self.pool.numbered(more)

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        """A page held by several counts once: full pages are shared, never a last one that still fills."""
        if not self._windows:
            alone = full_shares(running, self.block, len(self.groups), self.used + self.pool.again)
            return alone._replace(stored=alone.stored - self.pool.again)
        held = [(s, computed, [len(table) - table.count(0) for table in s.tables]) for s, computed in running]
        alone = block_shares(self.groups, held)
        return alone._replace(stored=alone.stored - self.pool.again)

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        own = sum(cdiv(computed, self.block) - len(table) for s, computed in running for table in s.tables)
        self.pool.check((table for s, _ in running for table in s.tables), own)
