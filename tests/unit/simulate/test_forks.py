"""Forked sequences by hand: prompt pages are stored once, a page that several write to is copied, dead beams give theirs back."""

from __future__ import annotations

import pytest

from kvplan.errors import UnsupportedError
from kvplan.simulate import Geometry, PageGroup, Request, StepTime, simulate, slots
from kvplan.simulate.fork import Fork

SECOND = StepTime(overhead=1.0)


def test_samples_share_the_prompt_and_copy_its_last_page():
    """Prompt 6 in blocks of 4: two pages for all three. The first token copies the second page for two of them; the third token opens a
    page for each."""
    fork = Fork(3, False, 6, 4, 0)
    assert (len(fork.holders), fork.needed()) == (2, 2)
    fork.write()
    assert (len(fork.holders), fork.needed()) == (4, 0)
    fork.write()
    assert fork.needed() == 3
    fork.write()
    assert len(fork.holders) == 1 + 3 + 3


def test_a_prompt_of_whole_pages_needs_no_copy():
    fork = Fork(3, False, 8, 4, 0)
    assert fork.needed() == 3
    fork.write()
    assert len(fork.holders) == 2 + 3


def test_a_dead_beam_gives_back_what_it_alone_held():
    """Two beams with 4 tokens of prompt and 5 of their own: 1 page of both and 2 of each. One dies: the survivor's 3 are everybody's."""
    fork = Fork(2, True, 4, 4, 0)
    for _ in range(5):
        fork.write()
    assert len(fork.holders) == 1 + 2 + 2
    assert fork.reshuffle() == 2  # with five tokens generated a beam is replaced for certain
    assert fork.tables[0] == fork.tables[1]
    assert set(fork.holders.values()) == {2}
    assert fork.needed() == 1  # the last page is copied when one of them writes


def test_by_hand_through_the_scheduler():
    """Prompt 6, answer 4, three samples, blocks of 4: a prompt step and three decoding steps of three tokens; at most 1 + 3 + 3 pages."""
    result = simulate(slots(64, 4, 16), [Request(0.0, 6, 4, width=3)], step_time=SECOND, check=True)
    assert (result.steps, result.computed_tokens) == (4, 6 + 3 * 3)
    assert result.pages_used.most == 7


def test_all_sequences_of_a_request_are_preempted_together():
    """Two requests of two samples, 3 + 6 tokens each, in 7 blocks of 4: 1 page each for the prompt; 2 each after the first token; 4 each
    after the third: the second request goes, with both samples."""
    made = [Request(0.0, 3, 6, width=2)] * 2
    result = simulate(slots(28, 4, 16), made, step_time=SECOND, check=True)
    assert result.requests == 2
    assert result.preempted == 1
    assert result.pages_used.most <= 7


def test_every_sequence_counts_for_the_most_at_once():
    made = [Request(0.0, 3, 3, width=3)] * 4
    assert simulate(slots(400, 4, 16), made, step_time=SECOND, max_num_seqs=7).running.most == 2
    assert simulate(slots(400, 4, 16), made, step_time=SECOND, max_num_seqs=2).rejected == 4


def test_the_same_beams_die_every_time():
    made = [Request(0.0, 20, 60, width=4, beam=True)] * 5
    first, again = (simulate(slots(4000, 4, 128), made, step_time=SECOND, check=True) for _ in range(2))
    assert first == again
    assert first.saved > 0.5


def test_where_forks_are_not_simulated():
    made = [Request(0.0, 3, 3, width=2)]
    for geometry, options in (
        (Geometry((PageGroup("full", 4), PageGroup("window", 4, 8)), 40, 16), {}),
        (slots(64, 4, 16), {"policy": "contiguous-max"}),
        (slots(64, 4, 16), {"share_prefixes": True}),
    ):
        with pytest.raises(UnsupportedError):
            simulate(geometry, made, step_time=SECOND, **options)
    with pytest.raises(UnsupportedError):
        simulate(slots(64, 4, 16), [Request(0.0, 3, 3), *made], step_time=SECOND)
