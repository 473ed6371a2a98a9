"""The seeds of the field (docs/seeds.md): each figure is published or hand arithmetic, none comes from kvplan."""

from __future__ import annotations

import pytest

from tests.conftest import one_block, planned

GIB = 2**30


def cache_bytes(mixer: dict, *, layers: int, tokens: int, **question) -> int:
    return planned(one_block(mixer, layers), context=tokens, **question).cache.total_bytes


def test_mha_is_two_times_layers_times_hidden_times_tokens_times_bytes():
    layers, hidden, tokens, two_bytes = 12, 768, 1024, 2
    mixer = {"kind": "mha", "heads": 12, "head_dim": 64}
    assert cache_bytes(mixer, layers=layers, tokens=tokens) == 2 * layers * hidden * tokens * two_bytes


def test_llama_2_70b_shape_takes_10_gib_with_mha_and_an_eighth_with_its_8_kv_heads():
    mha = {"kind": "mha", "heads": 64, "head_dim": 128}
    gqa = {"kind": "gqa", "heads": 64, "kv_heads": 8, "head_dim": 128}
    assert cache_bytes(mha, layers=80, tokens=4096, dtype="f16") == 10 * GIB
    assert cache_bytes(gqa, layers=80, tokens=4096, dtype="f16") == 1.25 * GIB
    # the widely copied "about 40 GB" is four such sequences
    assert cache_bytes(mha, layers=80, tokens=4096, dtype="f16", batch=4) == 40 * GIB


def test_gqa_with_8_groups_of_32_heads_is_4_times_smaller_than_mha_and_8_times_larger_than_mqa():
    mha = cache_bytes({"kind": "mha", "heads": 32, "head_dim": 128}, layers=1, tokens=1)
    gqa = cache_bytes({"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}, layers=1, tokens=1)
    mqa = cache_bytes({"kind": "mqa", "heads": 32, "head_dim": 128}, layers=1, tokens=1)
    assert (mha / gqa, gqa / mqa) == (4, 8)


def projections(n: int, *, cached: bool) -> int:
    """Token projections that decoding n tokens takes: counted, token by token."""
    return sum(1 if cached else length for length in range(1, n + 1))


@pytest.mark.parametrize(("n", "without", "ratio"), [(5, 15, 3), (100, 5050, 50.5), (1000, 500500, 500.5)])
def test_decoding_without_a_cache_projects_every_token_again(n, without, ratio):
    assert projections(n, cached=False) == n * (n + 1) // 2 == without
    assert projections(n, cached=True) == n
    assert without / n == ratio


def test_an_encoder_keeps_nothing():
    assert cache_bytes({"kind": "encoder", "heads": 12, "kv_heads": 12, "head_dim": 64}, layers=12, tokens=512) == 0


def test_queries_are_never_cached():
    plan = planned(one_block({"kind": "gqa", "heads": 64, "kv_heads": 8, "head_dim": 128}), context=10)
    assert [t["name"] for t in plan.cache.layers[0].tensors] == ["k", "v"]
    assert [t["heads"] for t in plan.cache.layers[0].tensors] == [8, 8]
