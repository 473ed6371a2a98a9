"""Tokens found by caches of twenty sizes, counted by vLLM's own KVCacheManager and SGLang's own RadixCache, beside ours.

`rows/hits.jsonl` has the requests and what the engines counted (rows/README.md); it is compared everywhere. Where an engine can be driven
(CONTRIBUTING says how), it counts anew; with HIT_COUNTS=write the rows are written from it.
"""

from __future__ import annotations

import json
import os
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_sglang_radix import Theirs as Radix
from test_sglang_radix import sglang  # noqa: F401
from test_vllm_manager import (
    BLOCK,
    MODELS,
    their_manager,  # noqa: F401
)

from kvplan.simulate import Arrivals, Lengths, Request, Shape, StepTime, generate
from kvplan.simulate import simulate as simulated
from kvplan.simulate.cluster import drive
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.record import Recorder
from kvplan.simulate.run import alone
from kvplan.simulate.scheduler import Limits, Scheduler
from kvplan.simulate.sequence import Sequence
from kvplan.simulate.source import Stream
from kvplan.simulate.stack import chain, stack
from tests.conftest import rows_of

ROWS = Path(__file__).parent / "rows" / "hits.jsonl"
LONGEST, STEP = 400, StepTime(overhead=0.03)
TEXT, ANSWER = Lengths("lognormal", 25), Lengths("lognormal", 30)
DRAWN = {
    "system prompts": Shape(TEXT, ANSWER, LONGEST, prefixes=12, prefix_tokens=70),
    "few-shot trees": Shape(TEXT, ANSWER, LONGEST, branch=3, depth=3, prefix_tokens=37),
    "conversations": Shape(TEXT, ANSWER, LONGEST, prefixes=4, prefix_tokens=50, turns=6, think_seconds=8.0),
}


def requests_of(row: dict[str, Any]) -> list[Request]:
    return [
        Request(at, prompt, output, tuple((a, b) for a, b in content), row["continues"]) for at, prompt, output, content in row["requests"]
    ]


class Driven:
    """An engine's manager as our scheduler asks for it."""

    stride = 0

    def __init__(self, theirs: Any, pages: int) -> None:
        self.theirs, self.size = theirs, pages
        self.hit_tokens = self.asked_tokens = self.used = self.again = self.evicted = self.changes = 0
        self.requests: dict[Sequence, Any] = {}

    def tokens(self, s: Sequence, end: int) -> list[int]:
        return [s.stream(t) * 1000 + t for t in range(end)]

    def admit(self, s: Sequence, budget: int) -> int | None:
        if s not in self.requests:
            self.requests[s] = self.theirs.request(self.tokens(s, s.known))
        self.requests[s].append_output_token_ids(self.tokens(s, s.known)[self.requests[s].num_tokens :])  # preempted: the last one too
        hit = self.theirs.admit(self.requests[s], budget)
        if hit is not None:
            self.hit_tokens += hit
            self.asked_tokens += s.known
        return hit

    def settle(self, s: Sequence, computed: int) -> Any:
        """What was decoded since the last page, of which the engine would have heard token by token."""
        request = self.requests[s]
        if computed > request.num_computed_tokens:
            request.append_output_token_ids(self.tokens(s, computed)[request.num_tokens :])
            request.num_computed_tokens = computed - 1
            assert self.theirs.grow(request, computed)
        return request

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        request = self.settle(s, computed)
        request.append_output_token_ids(self.tokens(s, tokens)[request.num_tokens :])
        return bool(self.theirs.grow(request, tokens))

    def extend(self, due: Any, step: int) -> bool:
        return False

    def wake(self, s: Sequence, computed: int) -> int:
        return -(-computed // BLOCK) * BLOCK

    def end(self, s: Sequence, computed: int) -> None:
        self.theirs.free(self.settle(s, computed))
        self.changes += 1

    def shares(self, running: Any) -> Any:
        raise NotImplementedError


class DrivenTree(Driven):
    """SGLang's tree: slots are taken from it, and every chunk of a prompt and the end are handed to its `checkpoint`."""

    def admit(self, s: Sequence, budget: int) -> int | None:
        theirs, tokens = self.theirs, self.tokens(s, s.known)
        found = theirs.match(tokens[:-1])
        hit = found.device_prefix_len
        lock = theirs.cache.lock(found.last_device_node)
        if s.known - hit > len(theirs.free) + theirs.cache.evictable_size():
            theirs.cache.unlock(lock)
            return None
        computed = hit + min(s.known - hit, budget)
        held = [int(slot) for slot in theirs.cache.path_device_indices(found.last_device_node)] + theirs.take(computed - hit)
        kv = SimpleNamespace(req_pool_idx=0, swa_evict_floor=0, cache_protected_len=hit, cache_inserted_len=0)
        req = SimpleNamespace(kv=kv, extra_key=None, cache_salt=None, priority=0, origin_input_ids=tokens[: s.request.prompt], lock=lock)
        self.requests[s] = SimpleNamespace(req=req, slots=held)
        self.insert(s, computed)
        self.hit_tokens += hit
        self.asked_tokens += s.known
        return int(hit)

    def insert(self, s: Sequence, tokens: int) -> None:
        one, torch = self.requests[s], self.theirs.torch
        row = torch.tensor([one.slots], dtype=torch.int64)
        self.theirs.cache.req_to_token_pool = SimpleNamespace(req_to_token=row, write=lambda at, slots: row.__setitem__(at, slots))
        one.req.full_untruncated_fill_ids = array("q", self.tokens(s, tokens))
        self.theirs.cache.checkpoint(one.req, up_to=tokens)
        one.slots = row[0].tolist()
        self.changes += 1

    def grow(self, s: Sequence, computed: int, tokens: int) -> bool:
        one = self.requests[s]
        more = tokens - len(one.slots)
        if more > len(self.theirs.free) + self.theirs.cache.evictable_size():
            return False
        if more > 0:
            one.slots += self.theirs.take(more)
        if tokens <= s.known:
            self.insert(s, tokens)
        return True

    def wake(self, s: Sequence, computed: int) -> int:
        return computed

    def end(self, s: Sequence, computed: int) -> None:
        self.insert(s, computed)
        one = self.requests.pop(s)
        kept = one.req.kv.cache_protected_len
        self.theirs.freed(one.slots[kept:], kept)
        self.theirs.cache.unlock(one.req.lock)
        self.changes += 1


def counted(manager: Driven, requests: list[Request], at_once: int = 1, longest: int = LONGEST) -> int:
    """Tokens that an engine's manager finds under our scheduler."""
    recorder = Recorder()
    recorder.due = lambda step: False  # type: ignore[method-assign]
    limits = Limits(at_once, 8192, longest, lambda request: True)
    drive([Scheduler(manager, limits, STEP, recorder)], Stream(iter(requests)), lambda request, ones: 0)  # type: ignore[arg-type]
    return manager.hit_tokens


def sizes(requests: list[Request], block: int) -> list[int]:
    """Twenty, from what the largest request needs to what leaves nothing to find; a little more for trees, which evict whole leaves."""
    found = stack(chain(request, block) for request in requests)
    most = found.working_set + 2 if block > 1 else found.working_set * 11 // 10
    return [found.largest + (most - found.largest) * n // 19 for n in range(20)]


def drawn(name: str) -> dict[str, Any]:
    made = list(generate(DRAWN[name], Arrivals(0.5 if name == "conversations" else 2.0), 120, 1))
    return {
        "workload": name, "continues": made[0].continues, "at_once": 8,
        "requests": [(round(r.arrival, 6), r.prompt, r.output, r.content) for r in made],
    }  # fmt: skip


def count(row: dict[str, Any], engine: str, made: Any) -> dict[str, Any]:
    """What an engine's manager counts at each size: one request after another, and several at once."""
    requests = requests_of(row)
    pages = sizes(requests, BLOCK if engine == "vllm" else 1)
    return {
        "pages": pages, "alone": [counted(made(n), requests, 1) for n in pages],
        "batched": [counted(made(n), requests, row["at_once"]) for n in pages],
    }  # fmt: skip


def rows() -> list[dict[str, Any]]:
    return rows_of(ROWS) if ROWS.exists() else []


def check(engine: str, made: Any) -> None:
    """Count anew: the rows must say the same; or write them."""
    kept = {row["workload"]: row for row in rows()}
    if os.environ.get("HIT_COUNTS") == "write":
        kept = {
            name: {**drawn(name), **{key: value for key, value in kept.get(name, {}).items() if key in ("vllm", "sglang")}}
            for name in DRAWN
        }
        kept = {name: json.loads(json.dumps(row)) for name, row in kept.items()}
        for row in kept.values():
            row[engine] = count(row, engine, made)
        ROWS.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in kept.values()))
    for row in kept.values():
        assert count(row, engine, made) == row[engine]


@pytest.mark.vllm_oracle
@pytest.mark.filterwarnings("ignore")
def test_vllm_counts_so(their_manager: Any) -> None:  # noqa: F811
    check("vllm", lambda pages: Driven(their_manager(MODELS["full"], pages, True), pages))


@pytest.mark.sglang_oracle
@pytest.mark.filterwarnings("ignore")
def test_sglang_counts_so(sglang: Any) -> None:  # noqa: F811
    check("sglang", lambda pages: DrivenTree(Radix(sglang, pages, 1), pages))


@pytest.mark.parametrize("name", DRAWN)
def test_the_one_pass_counts_what_vllms_manager_counts_at_twenty_sizes(name: str) -> None:
    row = next(row for row in rows() if row["workload"] == name)
    found = stack(chain(request, BLOCK) for request in requests_of(row))
    assert [found.found(pages) * BLOCK for pages in row["vllm"]["pages"]] == row["vllm"]["alone"]
    assert len(set(row["vllm"]["alone"])) > 10


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_simulator_counts_what_the_engines_managers_count(name: str, engine: str) -> None:
    """SGLang's one request after another, and both engines' with eight at once, at five sizes each."""
    row = next(row for row in rows() if row["workload"] == name)
    requests, theirs = requests_of(row), row[engine]
    block, sort = (BLOCK, "blocks") if engine == "vllm" else (1, "radix")

    def ours(pages: int, at_once: int) -> int:
        pool = Geometry((PageGroup("full", block),), pages, LONGEST, sort=sort)  # type: ignore[arg-type]
        return simulated(pool, requests, step_time=STEP, max_num_seqs=at_once, share_prefixes=True).hit_tokens

    some = slice(0, None, 4)
    assert [ours(pages, row["at_once"]) for pages in theirs["pages"][some]] == theirs["batched"][some]
    if engine == "sglang":
        pools = [Geometry((PageGroup("full", 1),), pages, LONGEST, sort="radix") for pages in theirs["pages"]]
        asked = sum(request.prompt for request in requests)
        assert [round(alone(pool, requests, pool.pages) * asked) for pool in pools] == theirs["alone"]
