"""Engine ideal: layouts by hand arithmetic."""

from __future__ import annotations

import pytest

import kvplan
from tests.conftest import one_block, planned

GQA = {"kind": "gqa", "heads": 16, "kv_heads": 4, "head_dim": 32}
TOKEN = 2 * 4 * 32 * 2  # one layer, all heads, bf16


def ledgers(n_layers: int = 10, **question):
    return planned(one_block(GQA, n_layers), context=100, engine="ideal", **question).ledgers


def test_layers_left_over_by_pp_go_first_and_every_rank_is_named():
    held = ledgers(pp=4, tp=2, batch=3)
    assert [ledger.cache_bytes for ledger in held] == [n * 3 * 100 * TOKEN // 2 for n in (3, 3, 2, 2)]
    assert [ledger.ranks for ledger in held] == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_heads_that_do_not_divide_are_dealt_by_ceiling():
    assert ledgers(tp=3)[0].cache_bytes == 10 * 100 * TOKEN * 2 // 4  # 4 heads over 3 ranks: 2 on the fullest


def test_data_parallel_replicas_share_the_sequences():
    (held,) = ledgers(dp=2, batch=5)
    assert held.cache_bytes == 3 * 10 * 100 * TOKEN  # the fuller replica holds 3 of 5
    assert held.ranks == (0, 1)


def test_decode_context_parallelism_deals_tokens_to_ranks_that_would_hold_copies():
    assert ledgers(tp=8, dcp=2)[0].cache_bytes == 10 * 50 * TOKEN // 4  # one head of four, half the tokens


def test_experts_are_dealt_out_whole_or_split():
    moe = {"kind": "moe", "experts": 8, "experts_per_token": 2, "intermediate_size": 48}
    spec = one_block(GQA, blocks={"block": {"mixers": [GQA], "mlps": [moe]}})
    whole = 8 * 3 * 64 * 48 * 2

    def experts(**question) -> int:
        (ledger,) = planned(spec, context=10, engine="ideal", **question).ledgers
        return next(e.bytes for e in ledger.entries if e.name == "weights: experts")

    assert experts() == whole
    assert experts(tp=4) == experts(tp=4, ep=4) == whole // 4
    assert experts(tp=2, dp=2, ep=4) == whole // 4  # ep reuses the ranks of both replicas
    assert experts(tp=2, dp=2) == whole // 2


def test_embedding_and_head_sit_on_the_outer_stages_and_a_tied_one_on_both():
    def vocabulary(**fields) -> list[int]:
        plan = planned(one_block(GQA, 4, **fields), context=10, engine="ideal", pp=2)
        return [sum(e.bytes for e in ledger.entries if e.name in ("weights: embedding", "weights: head")) for ledger in plan.ledgers]

    matrix = 1000 * 64 * 2
    assert vocabulary() == [matrix, matrix]
    assert vocabulary(tied_embeddings=True) == [matrix, matrix]


def test_the_limiting_rank_is_named():
    plan = planned(one_block(GQA, 3), context=1000, batch=10, engine="ideal", pp=2, kv_memory=3 * 10**6)
    assert not plan.fits
    assert plan.outcome.limiting_rank == 0  # two of the three layers
    assert "rank 0 needs" in plan.verdict


def test_pages_and_their_waste():
    plan = kvplan.estimate(one_block(GQA), context=17, block_size=16, engine="ideal")
    assert plan.ledgers[0].cache_bytes == 32 * TOKEN
    assert plan.cache.pages == {
        "block_tokens": 16, "bytes_per_sequence": 32 * TOKEN, "waste_bytes": 15 * TOKEN, "worst_waste_bytes": 15 * TOKEN,
        "mean_waste_bytes": 7.5 * TOKEN,
    }  # fmt: skip


def test_a_window_touches_one_page_more_than_it_fills():
    spec = one_block({**GQA, "kind": "sliding", "window": 32})
    held = [planned(spec, context=n, block_size=16, engine="ideal").ledgers[0].cache_bytes for n in (16, 32, 33, 1000)]
    assert held == [16 * TOKEN, 32 * TOKEN, 48 * TOKEN, 48 * TOKEN]


def test_draft_modules_count_only_when_speculation_runs_them():
    spec = one_block(GQA, 4, mtp={"modules": 1, "block": "block", "weights": [{"name": "eh_proj", "shape": [64, 128]}]})
    plain = planned(spec, context=100, engine="ideal")
    drafted = planned(spec, context=100, engine="ideal", speculative="mtp:1")
    assert drafted.ledgers[0].cache_bytes - plain.ledgers[0].cache_bytes == 100 * TOKEN
    assert plain.model.mtp_parameters == drafted.model.mtp_parameters == 2 * 64 * 512 + 2 * 64 * 128 + 2 * 64 + 64 * 128
    weights = drafted.ledgers[0].total_bytes - drafted.ledgers[0].cache_bytes - plain.ledgers[0].total_bytes + plain.ledgers[0].cache_bytes
    assert weights == 2 * plain.model.mtp_parameters
    open_ = planned(one_block(GQA), context=10, engine="ideal", device="80GB", speculative="mtp:1")
    assert (open_.fits, "give it with --speculative mtp:1:MODEL" in open_.verdict) == (None, True)


def test_towers_can_be_left_out():
    spec = one_block(GQA, towers=[{"name": "vision", "parameters": 1000}])
    on, off = (planned(spec, context=10, engine="ideal", multimodal=m).ledgers[0].total_bytes for m in ("on", "off"))
    assert on - off == 2000


def test_what_has_no_use_is_said():
    plan = planned(one_block(GQA), context=10, engine="ideal", max_num_seqs=4, engine_version="0.9")
    assert "no use for engine_version, max_num_seqs" in plan.model.notes[0]


def test_weights_that_do_not_fit_do_not_start():
    plan = planned(one_block(GQA, 100), context=10, engine="ideal", device="1MiB")
    assert (plan.starts, plan.fits) == (False, False)
    assert "the weights alone exceed" in plan.verdict


def test_a_reserve_is_a_line_and_is_taken_off():
    free = planned(one_block(GQA), context=10, engine="ideal", device="1GiB")
    held = planned(one_block(GQA), context=10, engine="ideal", device="1GiB", reserve="100MiB")
    assert free.margin_bytes - held.margin_bytes == 100 * 2**20


@pytest.mark.parametrize("state", ["lightning", "mamba1"])
def test_a_model_of_states_alone_has_no_largest_context(state):
    mixers = {
        "lightning": {"kind": "lightning", "heads": 4, "head_dim": 16},
        "mamba1": {"kind": "mamba1", "d_inner": 64, "d_state": 8, "dt_rank": 4, "d_conv": 4},
    }
    plan = kvplan.estimate(one_block(mixers[state]), context=1000, engine="ideal", device="1GiB")
    assert plan.cache.bytes_per_token == 0
    assert plan.capacity.max_context_unbounded is None
    assert plan.capacity.max_context == 1000
