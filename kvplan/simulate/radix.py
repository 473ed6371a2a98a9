"""SGLang's radix tree: prefixes in nodes of whole pages, held by the requests below them, evicted leaf by leaf, least recently used first.

SGLang 0.5.23 `python/sglang/srt/mem_cache/radix_cache.py` (match_prefix, insert, evict, inc_lock_ref). A request's own tokens enter the
tree when its prompt is computed and when it ends; what another brought in meanwhile is given back as a duplicate.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from itertools import count

from kvplan.simulate.geometry import Geometry
from kvplan.simulate.sequence import Sequence, Shares
from kvplan.simulate.tiers import Tiers
from kvplan.units import cdiv

Page = int  # the stream that covers a page's last token


class Node:
    """Pages [start, end) of a prefix, each named by the stream that covers its last token. `locks`: requests at or below it."""

    __slots__ = ("children", "locks", "pages", "parent", "start", "used")

    def __init__(self, parent: Node | None, start: int, pages: list[Page]) -> None:
        self.parent, self.start, self.pages = parent, start, pages
        self.children: dict[Page, Node] = {}
        self.locks = 0
        self.used = 0


class RadixTree:
    """A pool of pages: in the tree (held or evictable), with running requests outside it, or free."""

    def __init__(self, geometry: Geometry, tiers: Tiers | None = None) -> None:
        self.tiers = tiers
        self.block = geometry.groups[0].block_tokens
        self.stride = self.block
        self.size = geometry.pages
        self.root = Node(None, 0, [])
        self.root.locks = 1
        self.free = geometry.pages
        self.evictable = 0
        self.changes = self.hit_tokens = self.asked_tokens = self.evicted = 0
        self._clock = count(1)
        self._leaves: list[tuple[int, int, Node]] = []
        self._ids = count()
        self._at: dict[Sequence, Node] = {}

    @property
    def used(self) -> int:
        """Pages that some running request holds."""
        return self.size - self.free - self.evictable

    @property
    def again(self) -> int:
        """Pages held through the tree by several requests, beyond the first of each."""
        return sum(s.held[0] for s in self._at) - (self.used - sum(s.held[1] - s.held[0] for s in self._at))

    def _names(self, s: Sequence, start: int, end: int) -> list[Page]:
        return [s.stream((n + 1) * self.block - 1) for n in range(start, end)]

    def match(self, s: Sequence, most: int) -> Node:
        """The node that ends where the longest common prefix of at most `most` pages ends; splits one that goes on."""
        node, at, now = self.root, 0, next(self._clock)
        while at < most:
            child = node.children.get(s.stream((at + 1) * self.block - 1))
            if child is None:
                break
            names = self._names(s, at, min(at + len(child.pages), most))
            same = 0
            while same < len(names) and names[same] == child.pages[same]:
                same += 1
            child.used = now  # what is split off below counts as used too: SGLang notes the time before it splits
            if same < len(child.pages):
                child = self._split(child, same)
            node, at = child, at + same
            if same < len(names):
                break
        return node

    def _split(self, child: Node, n: int) -> Node:
        assert child.parent is not None
        upper = Node(child.parent, child.start, child.pages[:n])
        upper.locks, upper.used = child.locks, next(self._clock)
        child.parent.children[upper.pages[0]] = upper
        child.parent, child.start, child.pages = upper, child.start + n, child.pages[n:]
        upper.children[child.pages[0]] = child
        return upper

    def _lock(self, node: Node | None, by: int) -> None:
        while node is not None and node is not self.root:
            if by > 0 and node.locks == 0:
                self.evictable -= len(node.pages)
            node.locks += by
            if node.locks == 0:
                self.evictable += len(node.pages)
                self._offer(node)
            node = node.parent

    def _offer(self, node: Node) -> None:
        if not node.children and node.locks == 0:
            heappush(self._leaves, (node.used, next(self._ids), node))

    def _take(self, n: int) -> bool:
        if n > self.free + self.evictable:
            return False
        while n > self.free:
            used, _, node = heappop(self._leaves)
            parent = node.parent
            if node.locks or node.children or parent is None or parent.children.get(node.pages[0]) is not node:
                continue
            if node.used != used:
                self._offer(node)
                continue
            self.free += len(node.pages)
            self.evictable -= len(node.pages)
            self.evicted += len(node.pages)
            del parent.children[node.pages[0]]
            if parent is not self.root:
                self._offer(parent)
        self.free -= n
        return True

    def admit(self, s: Sequence, budget: int) -> int | None:
        node = self.match(s, (s.known - 1) // self.block)
        hit = node.start + len(node.pages)
        self._lock(node, 1)
        needed = cdiv(s.known, self.block) - hit
        if needed > self.free + self.evictable:
            self._lock(node, -1)
            return None
        below = self.tiers.found(s, hit * self.block) if self.tiers else []
        there = hit * self.block + sum(below)
        tokens = there + min(s.known - there, budget)
        if self.tiers:
            self.tiers.take(below)
        self._take(cdiv(tokens, self.block) - hit)
        self._at[s] = node
        s.held = [hit, cdiv(tokens, self.block)]  # pages held through the tree; pages in all
        self.hit_tokens += there
        self.asked_tokens += s.known
        self._insert(s, tokens)
        return there

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        more = cdiv(tokens, self.block) - s.held[1]
        if more > 0:
            if not self._take(more):
                return False
            s.held[1] += more
        if tokens <= s.known:
            self._insert(s, tokens)
        return True

    def _insert(self, s: Sequence, tokens: int) -> None:
        """RadixCache.checkpoint: the full pages of a sequence enter the tree, cut where its prompt ends, and it holds them there."""
        full, prompt = tokens // self.block, s.request.prompt // self.block
        node = self.match(s, full)
        at = node.start + len(node.pages)
        self.free += max(min(at, full) - s.held[0], 0)  # brought in by another meanwhile
        if at < full:
            new = Node(node, at, self._names(s, at, full))
            node.children[new.pages[0]] = new
            self.evictable += len(new.pages)
        if 0 < prompt < full:
            self.match(s, prompt)
        node = self.match(s, full)
        self._lock(node, 1)
        self._lock(self._at[s], -1)
        self._at[s] = node
        s.held[0] = full
        self.changes += 1

    def extend(self, due: Collection[Sequence], step: int) -> bool:
        """Decoded tokens enter the tree at the end."""
        if not self._take(len(due)):
            return False
        for s in due:
            s.held[1] += 1
        return True

    def wake(self, s: Sequence, computed: int) -> int:
        return -(-computed // self.block) * self.block

    def end(self, s: Sequence, computed: int) -> None:
        if self.tiers:
            self.tiers.keep(s, computed)
        self._insert(s, computed)
        self.free += s.held[1] - s.held[0]
        self._lock(self._at.pop(s), -1)
        s.held = []
        self.changes += 1

    def shares(self, running: list[tuple[Sequence, int]]) -> Shares:
        """Pages in the tree are full; outside it each sequence has its own."""
        in_tree = self.used - sum(s.held[1] - s.held[0] for s, _ in running)
        filled = sum(computed / self.block - s.held[0] for s, computed in running)
        coming = sum(min(s.held[1] - computed / self.block, max(s.whole - 1 - computed, 0) / self.block) for s, computed in running)
        return Shares(in_tree + filled, coming, self.used - in_tree - filled - coming)

    def check(self, running: list[tuple[Sequence, int]]) -> None:
        in_tree = evictable = 0
        locks: dict[int, int] = {}
        for s, _ in running:
            node: Node | None = self._at[s]
            while node is not None and node is not self.root:
                locks[id(node)] = locks.get(id(node), 0) + 1
                node = node.parent
        nodes = list(self.root.children.values())
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            in_tree += len(node.pages)
            evictable += 0 if node.locks else len(node.pages)
            assert node.locks == locks.get(id(node), 0), "a node is held as often as it is counted"
            assert node.parent is not None
            assert node.start == node.parent.start + len(node.parent.pages)
        outside = sum(s.held[1] - s.held[0] for s, _ in running)
        assert evictable == self.evictable
        assert self.free + in_tree + outside == self.size, f"{self.free} free + {in_tree} in the tree + {outside} outside"
