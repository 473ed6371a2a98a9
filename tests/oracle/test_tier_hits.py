"""Tokens that come back from a tier below the pool, by vLLM's own KVCacheManager and CPUOffloadingManager, beside `kvplan.simulate`.

`rows/tier_hits.jsonl` has what vLLM's counted for the requests of `rows/hits.jsonl` (rows/README.md); it is compared everywhere. Where vLLM
can be driven it counts anew; with HIT_COUNTS=write the rows are written from it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from test_hit_counts import LONGEST, STEP, Driven, counted, requests_of
from test_hit_counts import rows as workloads
from test_vllm_manager import BLOCK, MODELS
from test_vllm_manager import Theirs as Blocks

from kvplan.simulate import Request, simulate
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.sequence import Sequence
from kvplan.simulate.tiers import TierSize
from tests.conftest import rows_of

ROWS = Path(__file__).parent / "rows" / "tier_hits.jsonl"


class DrivenTier(Driven):
    """vLLM's manager with vLLM's CPU tier below it, asked as its OffloadingConnectorScheduler asks it."""

    def __init__(self, pages: int, chunks: int, blocks: int) -> None:
        from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

        super().__init__(Blocks(MODELS["full"], pages, True), pages)
        self.tier, self.blocks, self.back = CPUOffloadingManager(chunks), blocks, 0
        self.contexts: dict[Sequence, Any] = {}

    def keys(self, s: Sequence) -> list[Any]:
        """One for each chunk, by the hash of its last block (scheduler.py update_offload_keys)."""
        from vllm.v1.kv_offload.base import make_offload_key

        hashes = self.requests[s].block_hashes
        return [make_offload_key(one, 0) for one in hashes[self.blocks - 1 :: self.blocks]]

    def admit(self, s: Sequence, budget: int) -> int | None:
        from vllm.v1.kv_offload.base import LookupResult, ReqContext

        if s not in self.requests:
            self.requests[s] = self.theirs.request(self.tokens(s, s.known))
            self.contexts[s] = ReqContext(req_id=str(s.number))
            self.tier.on_new_request(self.contexts[s])
        request, context = self.requests[s], self.contexts[s]
        request.append_output_token_ids(self.tokens(s, s.known)[request.num_tokens :])
        manager = self.theirs.manager
        blocks, hit, _ = manager.get_computed_blocks(request)
        chunk = self.blocks * BLOCK
        first, keys = hit // chunk, self.keys(s)
        n = first
        while n < len(keys) and self.tier.lookup(keys[n], context) is LookupResult.HIT:
            n += 1
        more = n * chunk - hit
        more = 0 if more < chunk else min(more, s.known - 1 - hit)  # "can only load less than a chunk"; the last token is computed
        tokens = hit + more + min(s.known - hit - more, budget)
        if manager.allocate_slots(request, tokens - hit, hit, blocks, full_sequence_must_fit=True) is None:
            return None
        if more:
            self.tier.prepare_load(keys[first:n], context)
            self.tier.complete_load(keys[first:n], context)
        request.num_computed_tokens = tokens
        self.back += more
        self.hit_tokens += hit + more
        self.asked_tokens += s.known
        return int(hit + more)

    def end(self, s: Sequence, computed: int) -> None:
        request = self.settle(s, computed)
        keys, context = self.keys(s)[: computed // (self.blocks * BLOCK)], self.contexts[s]
        for key in keys:
            context.set_offload_key_position(key, keys.index(key))
        stored = self.tier.prepare_store(keys, context)
        if stored is not None:
            self.tier.complete_store(stored.keys_to_store, context)
        self.tier.on_request_finished(context)
        self.theirs.free(request)
        self.changes += 1


def grid(row: dict[str, Any]) -> list[tuple[int, int, int]]:
    """Pages of the pool, chunks of the tier, blocks of a chunk: a small and a middling pool, tiers of half of it to eight times."""
    return [
        (pages, pages * n // (2 * blocks), blocks) for pages in row["vllm"]["pages"][1:12:5] for n in (1, 3, 8, 16) for blocks in (1, 2)
    ]


def count(requests: list[Request], pages: int, chunks: int, blocks: int) -> list[int]:
    manager = DrivenTier(pages, chunks, blocks)
    return [counted(manager, requests) - manager.back, manager.back]


@pytest.mark.vllm_oracle
@pytest.mark.filterwarnings("ignore")
def test_vllm_counts_so() -> None:
    try:
        DrivenTier(8, 8, 1)
    except Exception as error:
        pytest.skip(f"vLLM's managers can not be driven here: {type(error).__name__}: {error}")
    found = [
        {"workload": row["workload"], "grid": grid(row), "found": [count(requests_of(row), *one) for one in grid(row)]}
        for row in workloads()
    ]
    if os.environ.get("HIT_COUNTS") == "write":
        ROWS.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in found))
    assert json.loads(json.dumps(found)) == rows_of(ROWS)


@pytest.mark.parametrize("row", rows_of(ROWS) if ROWS.exists() else [], ids=lambda r: r["workload"])
def test_the_simulator_counts_what_vllms_managers_count(row: dict[str, Any]) -> None:
    """Tokens found in the pool, and tokens that came back from the tier, one request after another."""
    requests = requests_of(next(one for one in workloads() if one["workload"] == row["workload"]))

    def ours(pages: int, chunks: int, blocks: int) -> list[int]:
        pool, size = Geometry((PageGroup("full", BLOCK),), pages, LONGEST), TierSize("cpu", "vllm", blocks * BLOCK, chunks, blocks * BLOCK)
        found = simulate(pool, requests, step_time=STEP, max_num_seqs=1, share_prefixes=True, tiers=(size,))
        return [found.hit_tokens - found.tiers[0].hit_tokens, found.tiers[0].hit_tokens]

    assert [ours(*one) for one in row["grid"]] == row["found"]
    assert len({back for _, back in row["found"]}) > 10
