"""Laws of the simulator, with every page counted after every step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvplan.simulate import Geometry, PageGroup, Request, StepTime, simulate
from kvplan.simulate.buddy import Buddy, power_of_two
from tests.conftest import examples

STEP = StepTime(per_step=0.01, per_token=1e-5)

GROUPS = st.sampled_from(
    [
        (PageGroup("full", 4),),
        (PageGroup("full", 1),),
        (PageGroup("window", 4, 9),),
        (PageGroup("full", 4), PageGroup("window", 4, 10, 2)),
        (PageGroup("full", 8), PageGroup("chunk", 4, 16)),
        (PageGroup("full", 4), PageGroup("state", 4, 0, 3)),
    ]
)


@st.composite
def requests(draw: st.DrawFn, shared: bool = False) -> list[Request]:
    made, now = [], 0.0
    for _ in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from([0.0, 0.0, 0.01, 0.5]))
        prompt, output = draw(st.integers(1, 40)), draw(st.integers(1, 30))
        content: tuple[tuple[int, int], ...] = ()
        if shared:
            stream, cut = draw(st.integers(1, 3)), draw(st.integers(1, 40))
            content = ((stream, min(cut, prompt)), (10 + (stream * 41 + cut) * 3 + draw(st.integers(0, 2)), prompt))
        made.append(Request(now, prompt, output, content, shared and draw(st.booleans())))
    return made


@examples(150)
@given(GROUPS, st.integers(40, 200), requests(), st.sampled_from([8, 16, 64]), st.sampled_from([None, 1e-4]))
def test_pages_are_conserved_and_everyone_ends(groups, pages, made, budget, swap):
    geometry = Geometry(groups, pages, 80)
    limits = {"max_num_seqs": 8, "max_num_batched_tokens": budget}
    result = simulate(geometry, made, step_time=STEP, swap_seconds=swap, check=True, share_prefixes=False, **limits)
    assert result.requests + result.rejected == len(made)
    assert result.pages_used.most <= pages
    assert abs(result.stored + result.reserved + result.internal + result.external - 1) < 1e-9
    assert min(result.stored, result.reserved, result.internal, result.external) > -1e-9


@examples(150)
@given(st.sampled_from(["blocks", "radix", "cells"]), st.sampled_from([1, 4, 16]), st.integers(80, 200), requests(shared=True))
def test_shared_pages_are_conserved(sort, block, slots, made):
    geometry = Geometry((PageGroup("full", 1 if sort == "cells" else block),), slots // block + 5, 70, sort=sort)
    limits = {"step_time": STEP, "max_num_seqs": 6, "max_num_batched_tokens": 16}
    result = simulate(geometry, made, share_prefixes=sort != "cells", check=True, **limits)
    assert result.requests + result.rejected == len(made)
    assert result.hit_tokens <= result.asked_tokens
    assert min(result.stored, result.reserved, result.internal, result.external) > -1e-9


@examples(100)
@given(st.integers(60, 200), requests(shared=True))
def test_windows_share_too_and_are_conserved(pages, made):
    geometry = Geometry((PageGroup("full", 4), PageGroup("window", 4, 10, 2)), pages, 70)
    result = simulate(geometry, made, step_time=STEP, max_num_seqs=6, max_num_batched_tokens=16, share_prefixes=True, check=True)
    assert result.requests + result.rejected == len(made)


@examples(100)
@given(st.sampled_from(["blocks", "radix"]), st.sampled_from([1, 4]), requests(shared=True))
def test_sharing_never_raises_the_peak(sort, block, made):
    """With room for all at once, so that both run the same schedule."""
    geometry = Geometry((PageGroup("full", block),), 4000, 80, sort=sort)
    at_once = [request._replace(arrival=0.0) for request in made]
    limits = {"step_time": STEP, "max_num_seqs": 32, "max_num_batched_tokens": 4096}
    together = simulate(geometry, at_once, share_prefixes=True, **limits)
    apart = simulate(geometry, at_once, share_prefixes=False, **limits)
    assert together.pages_used.most <= apart.pages_used.most
    assert apart.hit_tokens == 0


@examples(100)
@given(GROUPS, st.integers(1, 12), st.integers(1, 40), st.integers(2, 20))
def test_paged_never_needs_more_than_the_worst_case(groups, n, prompt, output):
    """n requests in n times the pages that admission counts for one: nothing is ever preempted, all run at once."""
    length, budget = prompt + output, 1024
    geometry = Geometry(groups, 1, length)
    geometry = geometry._replace(pages=n * geometry.request_pages(length, budget))
    made = [Request(0.0, prompt, output)] * n
    result = simulate(geometry, made, step_time=STEP, max_num_seqs=64, max_num_batched_tokens=budget, check=True)
    assert (result.preemptions, result.rejected) == (0, 0)
    assert result.running.most == n


@examples(100)
@given(st.integers(1, 6), st.sampled_from([1, 4, 16]), st.integers(1, 60), st.integers(0, 15))
def test_identical_requests_reach_exactly_the_promise(promised, block, prompt, spare):
    """Full-length requests: as many at once as pages // pages of one, never one more."""
    each = -(-prompt // block)
    geometry = Geometry((PageGroup("full", block),), promised * each + spare % each, prompt + 1)
    made = [Request(0.0, prompt, 1)] * (3 * promised)
    result = simulate(geometry, made, step_time=STEP, max_num_batched_tokens=4096)
    assert result.running.most == promised
    assert result.preemptions == 0


@examples(60)
@given(requests(), st.integers(24, 60))
def test_first_come_first_served_never_starves(made, pages):
    """The first admission of an earlier request is never after that of a later one, and all end."""
    from kvplan.simulate import run
    from kvplan.simulate.blocks import CountedBlocks

    order = []

    class Watched(CountedBlocks):
        def admit(self, s, budget):
            hit = super().admit(s, budget)
            if hit is not None and not s.epoch:
                order.append(-s.tail - 1)
            return hit

    manager, run.CountedBlocks = run.CountedBlocks, Watched
    try:
        result = simulate(Geometry((PageGroup("full", 4),), pages, 80), made, step_time=STEP, max_num_batched_tokens=256)
    finally:
        run.CountedBlocks = manager
    assert order == sorted(order)
    assert result.requests + result.rejected == len(made)


@examples(200)
@given(st.integers(1, 400), st.lists(st.integers(1, 120), max_size=60), st.randoms(use_true_random=False))
def test_buddy_chunks_tile_the_arena(size, wanted, random):
    buddy, held = Buddy(size), []
    for n in wanted:
        if held and random.random() < 0.4:
            buddy.give(*held.pop(random.randrange(len(held))))
        chunk = buddy.take(n)
        if chunk:
            assert chunk[1] == power_of_two(n)
            held.append(chunk)
        at = 0
        for start, length in sorted(held + buddy.free_chunks()):
            assert start == at
            at += length
        assert at == size
    for chunk in held:
        buddy.give(*chunk)
    assert buddy.used == 0
    assert len(buddy.free_chunks()) == bin(size).count("1")


@examples(60)
@given(requests(), st.sampled_from(["contiguous-max", "contiguous-pow2", "contiguous-oracle"]), st.integers(128, 600))
def test_contiguous_chunks_are_conserved(made, policy, slots):
    result = simulate(Geometry((PageGroup("full", 1),), slots, 80), made, policy=policy, step_time=STEP, check=True)
    assert result.requests + result.rejected == len(made)
    assert result.preemptions == 0
    assert abs(result.stored + result.reserved + result.internal + result.external - 1) < 1e-9


@examples(80)
@given(requests(), st.integers(2, 5), st.booleans(), st.integers(60, 200), st.sampled_from([1, 4, 16]))
def test_forked_pages_are_conserved(made, width, beam, slots, block):
    """Samples and beams; a request that no pool of this size can be sure to hold is rejected, all others end."""
    forked = [request._replace(width=width, beam=beam) for request in made]
    limits = {"max_num_seqs": 10, "max_num_batched_tokens": 32}
    result = simulate(Geometry((PageGroup("full", block),), slots, 80), forked, step_time=STEP, check=True, **limits)
    assert result.requests + result.rejected == len(made)
    assert result.pages_used.most <= slots
    assert 0 <= result.saved < 1
    assert min(result.stored, result.reserved, result.internal, result.external) > -1e-9


@examples(80)
@given(requests(), st.integers(60, 200), st.integers(20, 60))
def test_pools_beside_one_another_are_conserved(made, pages, window_pages):
    window = Geometry((PageGroup("window", 1, 8),), window_pages, 80)
    pool = Geometry((PageGroup("full", 1),), pages, 80, beside=(window,))
    limits = {"max_num_seqs": 8, "max_num_batched_tokens": 16}
    result = simulate(pool, made, step_time=STEP, check=True, share_prefixes=False, **limits)
    assert result.requests + result.rejected == len(made)
    assert result.beside[0].most <= window_pages
