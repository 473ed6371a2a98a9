"""Our radix tree beside the RadixCache of SGLang 0.5.23, on random streams of requests.

Its Python file is run on a CPU, everything it imports beside the tree itself stubbed; requests are handed to its `checkpoint` after each
chunk of their prompt and at their end, as the scheduler does. Compared after every call: prefix found, free slots, evictable and locked
slots, how the tree's prefixes are cut into nodes. Which leaf is evicted follows from these. Unpack the wheel and put it on PYTHONPATH.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from array import array
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.radix import Node, RadixTree
from kvplan.simulate.sequence import Sequence
from kvplan.simulate.workload import Request

pytestmark = [pytest.mark.sglang_oracle, pytest.mark.filterwarnings("ignore")]

HOME = "sglang.srt.mem_cache."
REAL = {HOME + name for name in ("radix_cache", "base_prefix_cache", "cache_init_params", "evict_policy", "utils", "events")}


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Everything of sglang but the tree's own files, as mocks."""

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in ("sglang", "orjson", "pybase64", "msgspec"):
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, os.path.join(self.root, *name.split(".")[1:]) + ".py")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        class Mocked(ModuleType):
            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return MagicMock()

        return Mocked(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@pytest.fixture(scope="module")
def sglang() -> Iterator[Any]:
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("SGLang's Python files are not on the path")
    finder = Stubs(next(iter(spec.submodule_search_locations)))
    sys.meta_path.insert(0, finder)
    try:
        tree = importlib.import_module(HOME + "radix_cache")
        tree.RadixCache.__abstractmethods__ = frozenset()
        yield tree
    except Exception as error:
        pytest.skip(f"SGLang's radix cache can not be driven here: {type(error).__name__}: {error}")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in ("sglang", "orjson", "pybase64", "msgspec")]:
            del sys.modules[name]


class Theirs:
    """SGLang's tree with slots of one pool, which we number; `free` holds whole pages."""

    def __init__(self, sglang: Any, pages: int, block: int) -> None:
        import torch

        self.sglang, self.block, self.torch = sglang, block, torch
        self.free = list(range(pages))
        allocator = SimpleNamespace(device="cpu", free_segment=self.freed)
        self.cache = sglang.RadixCache.create_simulated(mock_allocator=allocator, page_size=block)
        self.cache.update_eviction_metrics = lambda *_: None

    def freed(self, slots: Any, start_pos: int) -> None:
        assert start_pos % self.block == 0
        self.free += sorted({int(slot) // self.block for slot in slots})

    def key(self, tokens: list[int]) -> Any:
        return self.sglang.RadixKey(token_ids=array("q", tokens))

    def match(self, tokens: list[int]) -> Any:
        return self.cache.match_prefix(self.sglang.MatchPrefixParams(key=self.key(tokens)))

    def take(self, pages: int) -> list[int]:
        if pages > len(self.free):
            self.cache.evict(self.sglang.EvictParams(num_tokens=(pages - len(self.free)) * self.block))
        taken, self.free = self.free[:pages], self.free[pages:]
        assert len(taken) == pages
        return [page * self.block + i for page in taken for i in range(self.block)]

    def shape(self) -> list[tuple[int, int, int]]:
        found = []

        def walk(node: Any, start: int) -> None:
            for child in node.children.values():
                found.append((start // self.block, len(child.key) // self.block, child.lock_ref))
                walk(child, start + len(child.key))

        walk(self.cache.root_node, 0)
        return sorted(found)


def shape(node: Node) -> list[tuple[int, int, int]]:
    found = []
    for child in node.children.values():
        found += [(child.start, len(child.pages), child.locks), *shape(child)]
    return sorted(found)


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["admit", "admit", "admit", "grow", "grow", "end"]), st.integers(0, 1 << 20)), min_size=1, max_size=60
)


@settings(max_examples=int(os.environ.get("SGLANG_EXAMPLES", "200")), deadline=None, suppress_health_check=list(HealthCheck))
@given(block=st.sampled_from([1, 4]), slots=st.integers(40, 160), actions=ACTIONS)
def test_prefixes_nodes_and_evictions_agree(sglang: Any, block: int, slots: int, actions: list[tuple[str, int]]) -> None:
    pages = slots // block
    mine, theirs = RadixTree(Geometry((PageGroup("full", block),), pages, 512, sort="radix")), Theirs(sglang, pages, block)
    live: list[Any] = []

    def insert(one: Any, tokens: int) -> None:
        """The request as the tree sees it, handed to the tree's own checkpoint."""
        row = theirs.torch.tensor([one.slots], dtype=theirs.torch.int64)
        theirs.cache.req_to_token_pool = SimpleNamespace(req_to_token=row, write=lambda at, slots: row.__setitem__(at, slots))
        one.req.full_untruncated_fill_ids = array("q", one.tokens[:tokens])
        theirs.cache.checkpoint(one.req, up_to=tokens)
        one.slots = row[0].tolist()

    for n, (action, pick) in enumerate(actions):
        if action == "admit":
            stream, cut, prompt = pick % 3 + 1, pick // 3 % 24 + 1, pick // 72 % 30 + 1
            own = 10 + (stream * 24 + cut) * 3 + pick // 2160 % 3
            s = Sequence(n, Request(0.0, prompt, 100, ((stream, min(cut, prompt)), (own, prompt))))
            s.tail = 10_000 + n
            tokens = [s.stream(t) * 1000 + t for t in range(prompt)]
            budget = pick // 7 % 40 + 1
            found = theirs.match(tokens[:-1])
            hit = found.device_prefix_len
            lock = theirs.cache.lock(found.last_device_node)
            needed = -(-prompt // block) - hit // block
            admitted = mine.admit(s, budget)
            if needed > len(theirs.free) + theirs.cache.evictable_size() // block:
                theirs.cache.unlock(lock)
                assert admitted is None
            else:
                assert admitted == hit
                computed = hit + min(prompt - hit, budget)
                held = [int(slot) for slot in theirs.cache.path_device_indices(found.last_device_node)]
                held += theirs.take(-(-computed // block) - hit // block)
                kv = SimpleNamespace(req_pool_idx=0, swa_evict_floor=0, cache_protected_len=hit, cache_inserted_len=0)
                req = SimpleNamespace(kv=kv, extra_key=None, cache_salt=None, priority=0, origin_input_ids=tokens[:], lock=lock)
                one = SimpleNamespace(s=s, req=req, tokens=tokens, slots=held, computed=computed)
                insert(one, computed)
                live.append(one)
        elif live and action == "grow":
            one = live[pick % len(live)]
            left = one.s.known - one.computed
            if left <= 0:
                one.tokens.append(one.s.stream(one.computed) * 1000 + one.computed)
            tokens = one.computed + (min(left, pick // 100 % 8 + 1) if left > 0 else 1)
            more = -(-tokens // block) - len(one.slots) // block
            room = more <= len(theirs.free) + theirs.cache.evictable_size() // block
            assert mine.grow(one.s, one.computed, tokens) == room
            if room:
                if more:
                    one.slots += theirs.take(more)
                one.computed = tokens
                if left > 0:
                    insert(one, tokens)
        elif live:
            one = live.pop(pick % len(live))
            mine.end(one.s, one.computed)
            insert(one, one.computed)
            theirs.freed(one.slots[one.req.kv.cache_protected_len :], one.req.kv.cache_protected_len)
            theirs.cache.unlock(one.req.lock)
        mine.check([(one.s, one.computed) for one in live])
        assert (mine.free, mine.evictable) == (len(theirs.free), theirs.cache.evictable_size() // block)
        assert shape(mine.root) == theirs.shape()
