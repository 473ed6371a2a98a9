"""What the caches are for: attention over a cache equals attention without one. float64 on the CPU, differences below 1e-12."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from kvplan.validate.attention import Rule
from kvplan.validate.caches import Paged, build
from kvplan.validate.description import CacheShape
from kvplan.validate.layers import Heads, Latent

TOLERANCE = {"rtol": 0, "atol": 1e-12}
HIDDEN, N, PREFILL = 24, 37, 13


def tokens(n: int = N, seed: int = 1):
    return torch.randn(n, HIDDEN, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shape(heads: int, width: int, **fields) -> CacheShape:
    return CacheShape("test", "k", "f64", heads, width, **{"tokens": N, **fields})


#: rule of the layer, how its cache keeps tokens
RULES = {
    "all": (Rule(), {}),
    "window": (Rule(window=9), {"keep": "window", "keep_tokens": 9}),
    "window of one": (Rule(window=1), {"keep": "window", "keep_tokens": 1}),
    "window and sinks": (Rule(window=7, sinks=3), {"keep": "window", "keep_tokens": 7, "sinks": 3}),
    "chunk": (Rule(chunk=8), {"keep": "chunk", "keep_tokens": 8}),
}


@pytest.mark.parametrize("layout", ["contiguous", "growing", "paged"])
@pytest.mark.parametrize("kv_heads", [6, 2, 1], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize("rule", RULES)
def test_decoding_over_a_cache_equals_a_full_forward(rule, kv_heads, layout):
    attention_rule, keep = RULES[rule]
    layer, x = Heads(HIDDEN, 6, kv_heads, 8, attention_rule, v_width=4), tokens()
    block = {"block_tokens": 4} if layout == "paged" else {}
    k, v = (build(shape(kv_heads, width, layout=layout, **keep, **block)) for width in (8, 4))
    torch.testing.assert_close(layer.run(x, PREFILL, k, v), layer.full(x), **TOLERANCE)


@pytest.mark.parametrize("prefill", [0, 1, N - 1, N])
def test_any_split_into_prefill_and_decode_is_the_same(prefill):
    layer, x = Heads(HIDDEN, 4, 2, 8), tokens()
    k, v = (build(shape(2, 8)) for _ in "kv")
    torch.testing.assert_close(layer.run(x, prefill, k, v), layer.full(x), **TOLERANCE)


def test_a_wrong_cache_is_noticed():
    layer, x = Heads(HIDDEN, 4, 2, 8, Rule(window=9)), tokens()
    k, v = (build(shape(2, 8, keep="window", keep_tokens=8)) for _ in "kv")
    assert not torch.allclose(layer.run(x, PREFILL, k, v), layer.full(x), **TOLERANCE)


def test_paged_equals_contiguous_with_scattered_blocks_and_several_sequences():
    layer = Heads(HIDDEN, 4, 2, 8)
    pages = [Paged(shape(2, 8, layout="paged", block_tokens=4, sequences=3)) for _ in "kv"]
    plain = [build(shape(2, 8, sequences=3)) for _ in "kv"]
    inputs = [tokens(n, seed) for seed, n in enumerate((N, 21, 30))]
    for caches in (pages, plain):
        for start in range(0, N, 5):  # interleaved, so that each sequence's blocks lie among the others'
            for sequence, x in enumerate(inputs):
                if start < len(x):
                    layer.step(x[start : start + 5], start, *caches, sequence)
    tables = [table.blocks for table in pages[0].tables]
    assert any(b - a != 1 for table in tables for a, b in pairwise(table))
    for sequence in range(3):
        for paged, contiguous in zip(pages, plain, strict=True):
            for ours, theirs in zip(paged.read(sequence), contiguous.read(sequence), strict=True):
                assert torch.equal(ours, theirs)


@pytest.mark.parametrize("prefix", [8, 10, 16])
def test_a_shared_prefix_gives_what_separate_copies_give_in_less_memory(prefix):
    layer, x = Heads(HIDDEN, 4, 2, 8), tokens()
    ends = [tokens(N - prefix, seed) for seed in (5, 6)]
    shared = [Paged(shape(2, 8, layout="paged", block_tokens=4), n_blocks=40) for _ in "kv"]
    layer.run(x[:prefix], prefix, *shared)
    before = shared[0].pool.used
    assert {cache.fork(0) for cache in shared} == {1}
    assert shared[0].pool.used - before == (1 if prefix % 4 else 0)  # only a started block is copied
    for sequence, end in enumerate(ends):
        out = torch.cat([layer.step(end[i : i + 1], prefix + i, *shared, sequence) for i in range(len(end))])
        whole = layer.full(torch.cat((x[:prefix], end)))[prefix:]
        torch.testing.assert_close(out, whole, **TOLERANCE)
    separate = 2 * -(-N // 4)
    assert shared[0].pool.used == separate - prefix // 4


def test_cross_attention_reads_the_encoder_once():
    layer, x, source = Heads(HIDDEN, 4, 2, 8, Rule(causal=False)), tokens(), tokens(15, 9)
    k, v = (build(shape(2, 8, tokens=15, keep="source")) for _ in "kv")
    for cache, rows in zip((k, v), layer.project(source, torch.arange(15)), strict=True):
        cache.append(0, rows)
    out = torch.cat([layer.step(x[i : i + 1], i, k, v) for i in range(N)])
    torch.testing.assert_close(out, layer.full(x, source), **TOLERANCE)


@pytest.mark.parametrize("layout", ["contiguous", "growing", "paged"])
def test_latent_attention_over_latents_equals_heads_written_out(layout):
    layer, x = Latent(HIDDEN, 4, rank=12, nope=8, rope=4, v=6), tokens()
    cache = build(shape(1, 16, layout=layout, block_tokens=4 if layout == "paged" else 0))
    out = [layer.step(x[:PREFILL], 0, cache), *(layer.step(x[i : i + 1], i, cache) for i in range(PREFILL, N))]
    torch.testing.assert_close(torch.cat(out, dim=1), layer.full(x), **TOLERANCE)


@pytest.mark.parametrize("element", ["f64", "fp8_scale128"])
def test_sparse_latent_attention_picks_the_same_tokens_from_its_cache(element):
    layer, x = Latent(HIDDEN, 4, rank=12, nope=8, rope=4, v=6, index=(2, 128), top=6), tokens()
    latent, index = build(shape(1, 16)), build(shape(1, 128)._replace(element=element))
    out = [layer.step(x[:PREFILL], 0, latent, index), *(layer.step(x[i : i + 1], i, latent, index) for i in range(PREFILL, N))]
    stored = index.read(0)[1].to(x.dtype)  # the keys as their format keeps them
    torch.testing.assert_close(torch.cat(out, dim=1), layer.full(x, stored), **TOLERANCE)
    dense = Latent(HIDDEN, 4, rank=12, nope=8, rope=4, v=6)
    assert not torch.allclose(layer.full(x), dense.full(x))


def linear_full(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    """Linear attention over a whole sequence without a state: out_t = sum over s <= t of decay^(t - s) (q_t . k_s) v_s. decay [heads]."""
    n = q.shape[1]
    distance = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    weights: Tensor = decay[:, None, None] ** distance.clamp_min(0) * (distance >= 0)
    return (q @ k.transpose(-1, -2) * weights) @ v


def linear_step(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token of it with a state [heads, width of k, width of v]: the output and the next state. q, k, v [heads, width]."""
    state = decay[:, None, None] * state + k[..., :, None] * v[..., None, :]
    return (q[..., None, :] @ state)[..., 0, :], state


def conv_full(x: Tensor, kernel: Tensor) -> Tensor:
    """A causal convolution of each channel over a whole sequence. x [channels, n], kernel [channels, width]."""
    padded = torch.nn.functional.pad(x, (kernel.shape[1] - 1, 0))
    return (padded.unfold(1, kernel.shape[1], 1) * kernel[:, None, :]).sum(-1)


def conv_step(x: Tensor, kernel: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One token of it from the last width - 1 inputs [channels, width - 1]: the output and the next state."""
    inputs = torch.cat((state, x[:, None]), dim=1)
    return (inputs * kernel).sum(-1), inputs[:, 1:]


def test_a_recurrent_state_of_one_entry_replaces_the_whole_past():
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(4, N, width, generator=generator, dtype=torch.float64) for width in (8, 8, 6))
    decay = torch.tensor([0.9, 0.5, 1.0, 0.99], dtype=torch.float64)
    cache = build(shape(4, 48, tokens_per_entry=None))
    cache.append(0, torch.zeros(4, 1, 48, dtype=torch.float64))
    out = []
    for t in range(N):
        state = cache.read(0)[1].unflatten(-1, (8, 6))[:, 0]
        y, state = linear_step(q[:, t], k[:, t], v[:, t], decay, state)
        cache.append(0, state.flatten(-2)[:, None])
        out.append(y)
    torch.testing.assert_close(torch.stack(out, dim=1), linear_full(q, k, v, decay), **TOLERANCE)


def test_a_convolution_needs_only_its_last_inputs():
    generator = torch.Generator().manual_seed(4)
    x, kernel = (torch.randn(10, n, generator=generator, dtype=torch.float64) for n in (N, 4))
    cache = build(shape(10, 3, tokens_per_entry=None))
    cache.append(0, torch.zeros(10, 1, 3, dtype=torch.float64))
    out = []
    for t in range(N):
        y, state = conv_step(x[:, t], kernel, cache.read(0)[1][:, 0])
        cache.append(0, state[:, None])
        out.append(y)
    torch.testing.assert_close(torch.stack(out, dim=1), conv_full(x, kernel), **TOLERANCE)


@pytest.mark.parametrize(("element", "worst"), [("q8_0", 0.02), ("fp8_per_token_head", 0.1), ("int4_per_token_head", 0.4), ("nvfp4", 0.5)])
def test_attention_over_a_quantised_cache_stays_near(element, worst):
    layer, x = Heads(HIDDEN, 4, 2, 32), tokens()
    k, v = (build(shape(2, 32)._replace(element=element)) for _ in "kv")
    difference = (layer.run(x, PREFILL, k, v) - layer.full(x)).abs().max()
    assert 0 < difference < worst
