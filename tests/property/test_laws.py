"""Laws that hold for every model and layout, on random ones."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import kvplan
from kvplan.parallel import heads_per_rank, split_layers
from kvplan.tensors import CacheTensor, Curve, Keep, tensor_curve, total
from tests.conftest import examples, one_block

POWERS = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def tensors(draw: Any) -> CacheTensor:
    keep = draw(st.sampled_from(["all", "window", "chunk", "source", "state"]))
    tokens = draw(st.integers(1, 5000))
    return CacheTensor(
        name="t",
        heads=draw(POWERS),
        elems_per_state=draw(st.integers(1, 256)),
        dtype=draw(st.sampled_from(["bf16", "fp8_e4m3", "f32", "int8_per_token_head"])),
        tokens_per_state=None if keep == "state" else draw(st.sampled_from([1, 1, 4, 128])),
        keep=Keep() if keep in ("all", "state") else Keep(keep, tokens, draw(st.integers(0, 8)) if keep == "window" else 0),
    )


BLOCKS = st.none() | st.sampled_from([1, 16, 64, 256])


@st.composite
def curves(draw: Any) -> Curve:
    block = draw(BLOCKS)
    return total(tensor_curve(t, block_size=block) for t in draw(st.lists(tensors(), min_size=1, max_size=4)))


@given(curves(), st.integers(0, 100_000), st.integers(0, 5_000))
def test_bytes_never_fall_as_tokens_grow(curve, tokens, more):
    assert curve.at(tokens) <= curve.at(tokens + more)


@given(curves(), st.integers(0, 1 << 40))
def test_the_inverse_is_exact(curve, n_bytes):
    most = curve.most_tokens(n_bytes)
    if most is None:
        assert curve.at(1 << 60) <= n_bytes
    elif most < 0:
        assert curve.at(0) > n_bytes
    else:
        assert curve.at(most) <= n_bytes < curve.at(most + 1)


@given(curves(), st.integers(0, 10_000))
def test_segments_bound_the_curve_from_below_and_meet_it_at_whole_units(curve, k):
    period = 256 * 128  # a multiple of every unit drawn
    tokens = k * period
    segment = [s for s in curve.segments() if s.from_tokens <= tokens][-1]
    assert segment.fixed_bytes + segment.bytes_per_token * tokens == curve.at(tokens)


@given(tensors(), st.integers(1, 20_000), st.sampled_from([1, 16, 64, 256]))
def test_pages_never_hold_less_than_exact_tensors(t, tokens, block):
    assert tensor_curve(t, block_size=block).at(tokens) >= tensor_curve(t).at(tokens)


@given(st.integers(1, 256), st.integers(1, 64))
def test_ranks_together_hold_at_least_all_heads(heads, tp):
    assert heads_per_rank(heads, tp) * tp >= heads


@given(st.integers(1, 100), st.integers(0, 99), st.sampled_from(["first", "last", "before_last"]))
def test_stages_cover_every_layer_once(stages, more, remainder):
    ranges = split_layers(stages + more, stages, remainder)
    assert [i for r in ranges for i in r] == list(range(stages + more))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


MIXERS = st.sampled_from(
    [
        {"kind": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 64},
        {"kind": "mla", "heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32},
        {"kind": "sliding", "heads": 8, "kv_heads": 4, "head_dim": 32, "window": 512, "sink_tokens": 4},
        {"kind": "chunked", "heads": 8, "kv_heads": 4, "head_dim": 32, "chunk": 1024},
        {"kind": "mamba2", "heads": 8, "head_dim": 16, "groups": 1, "d_state": 32, "d_conv": 4},
        {"kind": "gated_delta_net", "key_heads": 4, "value_heads": 8, "key_head_dim": 16, "value_head_dim": 16, "d_conv": 4},
        {"kind": "cross", "heads": 8, "kv_heads": 8, "head_dim": 16},
    ]
)
QUESTION = st.fixed_dictionaries({"context": st.integers(1, 20_000), "batch": st.integers(1, 50)})


@examples(60)
@given(MIXERS, st.integers(1, 12), QUESTION, st.integers(1, 4), BLOCKS)
def test_more_layers_tokens_or_sequences_never_take_less(mixer, n_layers, question, more, block):
    def held(layers: int, **changed: int) -> int:
        return kvplan.estimate(one_block(mixer, layers), block_size=block, **(question | changed)).ledgers[0].cache_bytes

    base = held(n_layers)
    assert held(n_layers + more) >= base
    assert held(n_layers, context=question["context"] + more) >= base
    assert held(n_layers, batch=question["batch"] + more) >= base


@examples(60)
@given(MIXERS, st.integers(1, 12), QUESTION, POWERS, st.integers(1, 4))
def test_ranks_together_hold_at_least_the_whole(mixer, n_layers, question, tp, pp):
    if pp > n_layers:
        return
    plan = kvplan.estimate(one_block(mixer, n_layers), tp=tp, pp=pp, **question)
    assert sum(len(ledger.ranks) * ledger.cache_bytes for ledger in plan.ledgers) >= plan.cache.total_bytes
    weights = sum(len(g.ranks) * sum(e.bytes for e in g.entries if e.name.startswith("weights")) for g in plan.ledgers)
    assert weights >= plan.model.weight_bytes


@examples(60)
@given(MIXERS, st.integers(1, 8), QUESTION, st.integers(1, 1 << 26), BLOCKS)
def test_the_largest_context_and_batch_fit_and_one_more_does_not(mixer, n_layers, question, kv_memory, block):
    spec = one_block(mixer, n_layers)

    def fits(**changed: int) -> bool:
        return bool(kvplan.estimate(spec, kv_memory=kv_memory, block_size=block, **(question | changed)).fits)

    capacity = kvplan.estimate(spec, kv_memory=kv_memory, block_size=block, **question).capacity
    assert capacity is not None
    if capacity.max_context_at_batch:
        assert fits(context=capacity.max_context_at_batch)
        assert not fits(context=capacity.max_context_at_batch + 1)
    if capacity.max_batch:
        assert fits(batch=capacity.max_batch)
        assert not fits(batch=capacity.max_batch + 1)
