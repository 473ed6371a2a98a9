"""Small runs that can be followed by hand, plans as pools, workloads, sizing."""

from __future__ import annotations

import json

import pytest

import kvplan
from kvplan.errors import SpecError, UnknownName, UnsupportedError
from kvplan.simulate import (
    Arrivals,
    Geometry,
    Lengths,
    PageGroup,
    Request,
    Shape,
    StepTime,
    fitted,
    from_plan,
    from_roofline,
    generate,
    named,
    pool_for,
    simulate,
    slots,
)
from kvplan.simulate.pool import BlockPool
from kvplan.simulate.radix import RadixTree
from kvplan.simulate.sequence import Sequence
from tests.conftest import planned

SECOND = StepTime(overhead=1.0)


def test_one_request_by_hand():
    """Prompt 5, answer 3, blocks of 4: one step reads the prompt and gives a token, two more give the others; 7 tokens are stored."""
    result = simulate(slots(8, 4, 8), [Request(2.0, 5, 3)], step_time=SECOND)
    assert (result.steps, result.seconds, result.computed_tokens) == (3, 5.0, 7)
    assert result.pages_used.most == 2
    assert (result.first_token.mean, result.latency.mean) == (1.0, 3.0)


def test_preemption_by_hand():
    """Two requests of 3 + 4 tokens in 3 blocks of 4. Step 0 reads both prompts (a block each). Step 1 fills the blocks, in step 2 the first
    takes the third block and the second finds none: it loses its own, and comes back when the first is done (after step 3, with 6
    tokens stored) to compute its 3 + 2 tokens again and the last two in steps 4 and 5."""
    result = simulate(slots(12, 4, 8), [Request(0.0, 3, 4), Request(0.0, 3, 4)], step_time=SECOND, check=True)
    assert (result.preemptions, result.preempted, result.requests) == (1, 1, 2)
    assert result.steps == 6
    assert result.computed_tokens == 6 + 2 + 1 + 1 + 5 + 1


def test_chunked_prefill_by_hand():
    """10 and 3 tokens of prompt at 4 a step: 4; 4; 2 + 2 of the next; 1 decoding + 1; so the second's first token is step 3's."""
    result = simulate(
        slots(64, 4, 32), [Request(0.0, 10, 2), Request(0.0, 3, 1)], step_time=SECOND, max_num_seqs=2, max_num_batched_tokens=4
    )
    assert result.steps == 4
    assert result.first_token.mean == (3 + 4) / 2


def test_what_can_never_fit_is_rejected():
    made = [Request(0.0, 30, 5), Request(0.0, 5, 5), Request(0.0, 40, 40)]
    assert simulate(slots(16, 4, 64), made, step_time=SECOND).rejected == 2
    assert simulate(slots(48, 4, 64), made, policy="contiguous-max", step_time=SECOND).rejected == 3  # the largest chunk is 32
    assert simulate(slots(48, 4, 32), made, policy="contiguous-max", step_time=SECOND).rejected == 2


def test_prefix_hits_by_hand():
    """The second request finds the 2 full blocks of the first's 10 shared tokens, and computes the other 4 of its 12."""
    made = [Request(0.0, 12, 1, ((1, 10), (2, 12))), Request(5.0, 12, 1, ((1, 10), (3, 12)))]
    for sort, block, hit in (("blocks", 4, 8), ("radix", 4, 8), ("radix", 1, 10)):
        result = simulate(Geometry((PageGroup("full", block),), 40, 32, sort=sort), made, step_time=SECOND, check=True)
        assert (result.hit_tokens, result.asked_tokens) == (hit, 24)
    assert simulate(slots(40, 4, 32), made, step_time=SECOND, share_prefixes=False).hit_tokens == 0


def test_the_next_turn_finds_the_whole_past():
    """16 tokens and an answer of 9 leave 24 in the cache: 6 blocks, of which the next turn's 30 tokens find all."""
    made = [Request(0.0, 16, 9, ((7, 16),), True), Request(50.0, 30, 2, ((7, 30),), True)]
    assert simulate(slots(400, 4, 64), made, step_time=SECOND).hit_tokens == 24


def test_the_tree_evicts_the_least_recently_used_leaf():
    """Pages 8: prefixes of 4, 2 and 2 pages end in that order; 3 more pages take the oldest leaf, which is the first's whole node."""
    tree = RadixTree(Geometry((PageGroup("full", 1),), 8, 64, sort="radix"))
    for stream, tokens in ((1, 4), (2, 2), (3, 2)):
        s = Sequence(stream, Request(0.0, tokens, 1, ((stream, tokens),)))
        assert tree.admit(s, 64) == 0
        tree.end(s, tokens)
    s = Sequence(9, Request(0.0, 3, 1, ((9, 3),)))
    assert tree.admit(s, 64) == 0
    assert (tree.evicted, tree.free, tree.evictable) == (4, 1, 4)
    tree.check([(s, 0)])
    assert {child.pages[0] for child in tree.root.children.values()} == {2, 3, 9}


def test_llama_cpp_slots_hold_one_request_each():
    geometry = Geometry((PageGroup("full", 1),), 64, 16, sort="cells", streams=4)
    result = simulate(geometry, [Request(0.0, 8, 8)] * 9, step_time=SECOND, check=True)
    assert (result.running.most, result.requests) == (4, 9)


def test_a_plan_is_a_pool():
    plan = planned("meta-llama/llama-3.1-8b", engine="vllm", kv_memory="4GiB", max_model_len="4k")
    geometry = from_plan(plan)
    # 2 x 8 x 128 x 2 bytes x 32 layers x 16 tokens = 2 MiB a block; one of them is the null block
    assert (geometry.pages, geometry.groups, geometry.bytes_per_page) == (2047, (PageGroup("full", 16),), 2 << 20)
    length = 4096
    # 2047 blocks hold 7 requests of 256 blocks; the last token of an answer is never stored
    result = simulate(plan, [Request(0.0, length - 1, 1)] * 20, step_time=SECOND, max_num_batched_tokens=40_960)
    assert result.running.most == 7
    assert result.promised == 8.0


def test_windows_and_states_of_a_plan():
    gemma = from_plan(planned("google/gemma-3-27b", engine="vllm", kv_memory="20GiB", max_model_len="8k"))
    assert {(g.kind, g.span) for g in gemma.groups} == {("full", 0), ("window", 1024)}
    assert sum(g.copies for g in gemma.groups) == 7  # 62 layers: 10 full, 52 windows in six groups of up to 10
    sglang = from_plan(planned("meta-llama/llama-3.1-8b", engine="sglang", kv_memory="4GiB"))
    assert sglang.sort == "radix"
    llama = from_plan(planned("meta-llama/llama-3.1-8b", engine="llama.cpp", max_model_len="8k"))
    assert (llama.sort, llama.pages, llama.bytes_per_page) == ("cells", 8192, 131_072)
    one_slot = planned("meta-llama/llama-3.1-8b", engine="llama.cpp", max_model_len="8k")
    assert simulate(one_slot, [Request(0.0, 8, 8)] * 3, step_time=SECOND).running.most == 1  # -np is 1
    with pytest.raises(UnsupportedError):
        from_plan(planned("meta-llama/llama-3.1-8b"))


def test_the_roofline_gives_the_step_time():
    bound = kvplan.roofline("meta-llama/llama-3.1-8b", device="h100", engine="ideal", context="8k", batch=16)
    step = from_roofline(bound, 8192, 16)
    assert step.seconds(16, 16, 16 * 8192) == pytest.approx(bound.decode.seconds)


def test_measured_steps_make_a_line():
    assert fitted([(1, 0.02), (101, 0.03)]).seconds(51, 51, 0) == pytest.approx(0.025)
    with pytest.raises(SpecError):
        fitted([(1, 0.03), (100, 0.02)])


def test_the_same_seed_gives_the_same_result():
    def once(seed: int) -> str:
        shape = named("sharegpt")._replace(turns=3, prefixes=4, prefix_tokens=64)
        return json.dumps(simulate(slots(15_000, 16, 2048), generate(shape, Arrivals(3.0, 2.0), 120, seed)).as_dict())

    assert once(1) == once(1) != once(2)


def test_workloads_have_their_means():
    made = list(generate(named("sharegpt")._replace(max_tokens=1 << 20), Arrivals(2.0), 20_000, 0))
    assert sum(r.prompt for r in made) / len(made) == pytest.approx(161.31, rel=0.03)
    assert sum(r.output for r in made) / len(made) == pytest.approx(337.99, rel=0.03)
    assert made[-1].arrival / len(made) == pytest.approx(0.5, rel=0.03)


def test_trees_of_examples_share_their_upper_levels():
    shape = Shape(Lengths("fixed", 5), Lengths("fixed", 3), prefix_tokens=8, branch=2, depth=3)
    made = list(generate(shape, Arrivals(None), 64))
    assert {r.prompt for r in made} == {29}
    assert [len({r.content[level][0] for r in made}) for level in range(3)] == [2, 4, 8]


def test_the_smallest_pool_that_never_preempts():
    """8 requests at once of 16 + 8 tokens, blocks of 8: 3 pages each as they end (23 stored)."""
    made = [Request(0.0, 16, 8)] * 8
    pages, result = pool_for(slots(8 * 64, 8, 64), lambda: made, step_time=SECOND, share=1.0)
    assert result.preempted == 0
    assert simulate(slots((pages - 1) * 8, 8, 64), made, step_time=SECOND).preempted > 0
    with pytest.raises(SpecError):
        pool_for(slots(4 * 8, 8, 64), lambda: made, step_time=SECOND, share=1.0)


def test_bad_input_is_one_error():
    with pytest.raises(UnknownName):
        simulate(slots(64, 4, 32), [Request(0.0, 1, 1)], policy="pagde")
    with pytest.raises(UnknownName):
        named("sharegtp")
    for made in ([], [Request(0.0, 0, 1)], [Request(1.0, 1, 1), Request(0.0, 1, 1)]):
        with pytest.raises(SpecError):
            simulate(slots(64, 4, 32), made)
    with pytest.raises(SpecError):
        simulate(slots(64, 4, 32), [Request(0.0, 1, 1)], max_num_seqs=9, max_num_batched_tokens=8)
    for arrivals in (Arrivals(0.0), Arrivals(float("nan"))):
        with pytest.raises(SpecError):
            generate(named("alpaca"), arrivals, 5)


def test_blocks_that_nobody_took_hold_no_memory() -> None:
    """A model of a few bytes a token on a large card has a billion pages; they are still taken in vLLM's order."""
    pool = BlockPool(1 << 40)
    table = pool.next(3)
    assert table == [1, 2, 3]
    pool.release(table, 1)
    assert pool.next(3) == [3, 2, 4]
    assert pool.free == (1 << 40) - 4


def test_a_block_found_again_and_again_keeps_its_turn_and_leaves_nothing_behind():
    """Blocks 1 and 2 have content and are free; 1 is found and given back each time, so it goes after 2 when they are reused."""
    pool, table = BlockPool(4), []
    pool.take(2, table)
    pool.register(table, [range(7, 9)])
    pool.release(table, 2)
    assert pool.order() == [3, 2, 1]  # without content first; then the end of the table
    for _ in range(100):
        pool.touch([1])
        assert (pool.free, pool.order()) == (2, [3, 2])
        pool.release([1], 1)
        pool.check([])
        assert len(pool._kept) <= 2 * pool.size  # entries that were passed over are swept up
    taken = []
    pool.take(3, taken)
    assert (taken, pool.evicted, pool.found) == ([3, 2, 1], 2, {})


def test_conversations_that_begin_at_once_come_to_their_last_turns():
    """Forty requests of four turns are ten conversations; with texts and answers of 10 tokens their prompts have 10, 30, 50 and 70."""
    shape = Shape(Lengths("fixed", 10), Lengths("fixed", 10), turns=4)
    prompts = [request.prompt for request in generate(shape, Arrivals(None), 40)]
    assert sorted(prompts) == sorted([10, 30, 50, 70] * 10)
    short = [request.prompt for request in generate(shape._replace(max_tokens=45), Arrivals(None), 40)]
    assert len(short) == 40  # they end at their second turn, and others begin
    assert set(short) == {10, 30}


def test_a_first_text_is_cut_and_a_system_prompt_must_leave_room():
    shape = Shape(Lengths("fixed", 900), Lengths("fixed", 10), max_tokens=100, turns=2)
    assert [(r.prompt, r.output) for r in generate(shape, Arrivals(1.0), 3)] == [(99, 1)] * 3
    for asked in (shape._replace(prefixes=1, prefix_tokens=99), shape._replace(branch=2, depth=3, prefix_tokens=33)):
        with pytest.raises(SpecError, match="leave none of 100"):
            generate(asked, Arrivals(1.0), 3)
